// The simulator's own random stream: the same seed gives the same run on every machine and compiler.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

namespace divvy::simulate {

/// xoshiro256** (Blackman and Vigna), seeded through splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
      word = mixed ^ (mixed >> 31);
    }
  }

  std::uint64_t Next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Returns a random integer from 0 to `bound` - 1, uniformly distributed. Requires: bound > 0.
  std::uint64_t Below(std::uint64_t bound) {
    const std::uint64_t skewed = -bound % bound;
    std::uint64_t draw = Next();
    while (draw < skewed) draw = Next();
    return draw % bound;
  }

  template <typename T>
  void Shuffle(std::span<T> items) {
    for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[Below(left)]);
  }

 private:
  std::uint64_t state_[4] = {};
};

}  // namespace divvy::simulate
