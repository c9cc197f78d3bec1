// A histogram of durations, for metrics scrapers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"

namespace divvy {

class TimesTaken {
 public:
  /// Bucket bounds in seconds: kQuick for decisions in memory, kLong for up to days in the queue.
  static constexpr std::array<double, 16> kQuick = {1e-5,  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01,
                                                    0.025, 0.05, 0.1,    0.25, 0.5,  1,      2.5,  10};
  static constexpr std::array<double, 16> kLong = {0.1,  1,    5,      15,     60,     300,     600,     1800,
                                                   3600, 7200, 14'400, 28'800, 86'400, 172'800, 345'600, 604'800};

  explicit TimesTaken(const std::array<double, 16>& bounds) : bounds_(bounds) {}
  void Add(Duration took) {
    const double seconds = ToSeconds(took);
    const auto bucket = std::ranges::lower_bound(bounds_, seconds) - bounds_.begin();
    ++counts_[static_cast<std::size_t>(bucket)];
    sum_ += seconds;
  }
  const std::array<double, 16>& bounds() const { return bounds_; }
  const std::array<std::uint64_t, 17>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  const std::array<double, 16>& bounds_;
  std::array<std::uint64_t, 17> counts_{};
  double sum_ = 0;
};

}  // namespace divvy
