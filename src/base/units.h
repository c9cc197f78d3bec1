// Quantities in fixed integer units, never double, so that halves and thirds compare exactly: bytes of memory, and
// ten-thousandths of a GPU (Ray and HyperQueue count 10,000 per GPU as well).
#pragma once

#include <compare>
#include <cstdint>

namespace divvy {

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}

  constexpr std::int64_t count() const { return count_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }

 private:
  std::int64_t count_ = 0;
};

inline namespace literals {
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 10); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 20); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 30); }
}  // namespace literals

/// Ten-thousandths of one GPU: 5000 is half a GPU.
class GpuShare {
 public:
  static constexpr std::int32_t kWhole = 10'000;

  constexpr GpuShare() = default;
  constexpr explicit GpuShare(std::int32_t ten_thousandths) : parts_(ten_thousandths) {}

  constexpr std::int32_t ten_thousandths() const { return parts_; }

  friend constexpr auto operator<=>(GpuShare, GpuShare) = default;
  friend constexpr GpuShare operator+(GpuShare a, GpuShare b) { return GpuShare(a.parts_ + b.parts_); }
  friend constexpr GpuShare operator-(GpuShare a, GpuShare b) { return GpuShare(a.parts_ - b.parts_); }

 private:
  std::int32_t parts_ = 0;
};

}  // namespace divvy
