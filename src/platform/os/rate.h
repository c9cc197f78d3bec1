// Turns a monotonic counter into a rate per second.
#pragma once

#include <cstdint>
#include <optional>

namespace divvy {

class Rate {
 public:
  /// Returns the increase of a counter per second since the last call. `seconds`: the time of the call, by a monotonic
  /// clock. Returns nullopt at the first call and if the counter was reset. `wraps`: the counter has 32 bits and has
  /// wrapped at most once since the last call.
  std::optional<double> Next(std::uint64_t count, double seconds, bool wraps = false) {
    constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
    const std::uint64_t before = count_;
    const double since = seconds - at_;
    const bool is_first = !has_begun_;
    count_ = count;
    at_ = seconds;
    has_begun_ = true;
    if (is_first || since <= 0) return std::nullopt;
    if (count < before && !wraps) return std::nullopt;
    return static_cast<double>(count < before ? count + kWrap - before : count - before) / since;
  }

 private:
  std::uint64_t count_ = 0;
  double at_ = 0;
  bool has_begun_ = false;
};

}  // namespace divvy
