// Ids of distinct types that cannot be mixed up: ordered, hashable, printable, without arithmetic.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace divvy {

template <typename Tag, typename Rep = std::uint64_t>
class Id {
 public:
  using rep = Rep;

  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  /// Zero means "not set": ids start at 1.
  constexpr bool is_set() const { return value_ != 0; }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_ = 0;
};

template <typename Tag, typename Rep>
std::string ToString(Id<Tag, Rep> id) {
  return std::to_string(id.value());
}

}  // namespace divvy

template <typename Tag, typename Rep>
struct std::hash<divvy::Id<Tag, Rep>> {
  std::size_t operator()(divvy::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
