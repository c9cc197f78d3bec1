// A set of small numbers kept as ranges, so that an array of a million elements is one range until its members differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

/// Invariant: ranges are non-empty, ascending, and neither touch nor overlap.
class IndexRanges {
 public:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // Inclusive.
    friend bool operator==(const Range&, const Range&) = default;
  };

  IndexRanges() = default;
  /// The set of all numbers from `first` to `last`, both included.
  IndexRanges(std::uint32_t first, std::uint32_t last) { Insert(first, last); }

  void Insert(std::uint32_t first, std::uint32_t last);
  void Insert(std::uint32_t index) { Insert(index, index); }
  void Erase(std::uint32_t index);

  bool empty() const { return ranges_.empty(); }
  std::uint64_t size() const;
  bool Contains(std::uint32_t index) const;
  /// The smallest member. Requires: not empty.
  std::uint32_t front() const { return ranges_.front().first; }
  std::uint32_t back() const { return ranges_.back().last; }
  /// The member with index `ordinal`, from 0, in ascending order. Nothing if there are fewer members.
  std::optional<std::uint32_t> Nth(std::uint64_t ordinal) const;
  const std::vector<Range>& ranges() const { return ranges_; }

  /// "0-4,7,9-12". Parse reads it back, and also reads steps ("0-15:4").
  std::string ToString() const;
  /// Parses the text of ToString, or ranges with steps ("0-15:4"). Error messages begin with `what`, the name of the
  /// option that has this text ("--array").
  static Result<IndexRanges> Parse(std::string_view text, std::string_view what);

  friend bool operator==(const IndexRanges&, const IndexRanges&) = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace divvy
