// Random numbers from a seed, equal on every machine, unlike the distributions of <random>.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace divvy::sweep {

/// SplitMix64 (Steele, Lea, Flood 2014).
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// Returns a random number from 0 to less than 1, uniformly distributed.
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  /// Returns a random number of the standard normal distribution (Box and Muller 1958).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Unit()));
    return radius * std::cos(2 * std::numbers::pi * Unit());
  }

 private:
  std::uint64_t state_;
};

/// Returns a seed computed from a name (FNV-1a hash).
inline std::uint64_t SeedOf(std::string_view name, std::uint64_t seed = 1469598103934665603ULL) {
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return seed;
}

}  // namespace divvy::sweep
