// A set of GPUs of one node, as 64 bits. Kept small because the scheduler copies millions of sets.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace divvy {

/// The index of a GPU on its node: its position in PCI bus order, as in NVML and nvidia-smi.
using GpuIndex = std::uint8_t;

/// A set of GPUs of one node. Members are 0 to kCapacity - 1. `for (int gpu : set)` visits them in ascending order.
class GpuSet {
 public:
  /// GPUs that one node may have.
  static constexpr int kCapacity = 64;

  class Iterator {
   public:
    constexpr explicit Iterator(std::uint64_t rest) : rest_(rest) {}
    constexpr int operator*() const { return std::countr_zero(rest_); }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::uint64_t rest_;
  };

  constexpr GpuSet() = default;
  static constexpr GpuSet FromBits(std::uint64_t bits) {
    GpuSet set;
    set.bits_ = bits;
    return set;
  }
  /// The GPUs 0 to `count` - 1.
  static constexpr GpuSet FirstN(int count) {
    return FromBits(count >= kCapacity ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1);
  }
  static constexpr GpuSet Only(int gpu) { return FromBits(std::uint64_t{1} << gpu); }
  static GpuSet Of(const std::vector<int>& indices) {
    GpuSet set;
    for (int index : indices) set.Insert(index);
    return set;
  }

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return std::popcount(bits_); }
  constexpr bool Contains(int gpu) const { return (bits_ >> gpu & 1) != 0; }
  constexpr void Insert(int gpu) { bits_ |= std::uint64_t{1} << gpu; }
  constexpr void Erase(int gpu) { bits_ &= ~(std::uint64_t{1} << gpu); }
  /// The lowest member. Requires: not empty.
  constexpr int First() const { return std::countr_zero(bits_); }
  /// The `count` lowest members, or all if there are fewer.
  constexpr GpuSet Lowest(int count) const {
    GpuSet lowest;
    for (std::uint64_t rest = bits_; rest != 0 && count > 0; rest &= rest - 1, --count) {
      lowest.bits_ |= rest & (~rest + 1);
    }
    return lowest;
  }
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(0); }
  /// The members, ascending.
  std::vector<int> ToVector() const {
    std::vector<int> out;
    for (const int gpu : *this) out.push_back(gpu);
    return out;
  }

  friend constexpr auto operator<=>(GpuSet, GpuSet) = default;
  friend constexpr GpuSet operator|(GpuSet a, GpuSet b) { return FromBits(a.bits_ | b.bits_); }
  friend constexpr GpuSet operator&(GpuSet a, GpuSet b) { return FromBits(a.bits_ & b.bits_); }
  friend constexpr GpuSet operator-(GpuSet a, GpuSet b) { return FromBits(a.bits_ & ~b.bits_); }
  constexpr GpuSet& operator|=(GpuSet other) { return *this = *this | other; }
  constexpr GpuSet& operator-=(GpuSet other) { return *this = *this - other; }

 private:
  std::uint64_t bits_ = 0;
};

}  // namespace divvy
