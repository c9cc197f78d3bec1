#include "base/index_ranges.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace divvy {
namespace {

// The largest index of a job array. Each element becomes a job when it starts. Slurm has the same limit (MaxArraySize).
constexpr std::int64_t kMaxIndex = 4'000'000;
// A stepped range is stored as single members, so longer ones would cost too much memory.
constexpr std::int64_t kMaxStepped = 100'000;

}  // namespace

void IndexRanges::Insert(std::uint32_t first, std::uint32_t last) {
  DIVVY_ASSERT(first <= last);
  if (ranges_.empty() || first > static_cast<std::uint64_t>(ranges_.back().last) + 1) {
    ranges_.push_back(Range{first, last});
    return;
  }
  // Merges the ranges that touch or overlap [first, last].
  auto begin = std::ranges::find_if(
      ranges_, [&](const Range& range) { return static_cast<std::uint64_t>(range.last) + 1 >= first; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= static_cast<std::uint64_t>(last) + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, Range{first, last});
}

void IndexRanges::Erase(std::uint32_t index) {
  auto range = std::ranges::find_if(ranges_, [&](const Range& r) { return r.first <= index && index <= r.last; });
  if (range == ranges_.end()) return;
  const Range whole = *range;
  if (whole.first == whole.last) {
    ranges_.erase(range);
  } else if (index == whole.first) {
    range->first = index + 1;
  } else if (index == whole.last) {
    range->last = index - 1;
  } else {
    range->last = index - 1;
    ranges_.insert(std::next(range), Range{index + 1, whole.last});
  }
}

std::uint64_t IndexRanges::size() const {
  std::uint64_t count = 0;
  for (const Range& range : ranges_) count += static_cast<std::uint64_t>(range.last) - range.first + 1;
  return count;
}

bool IndexRanges::Contains(std::uint32_t index) const {
  return std::ranges::any_of(ranges_, [&](const Range& r) { return r.first <= index && index <= r.last; });
}

std::optional<std::uint32_t> IndexRanges::Nth(std::uint64_t ordinal) const {
  for (const Range& range : ranges_) {
    const std::uint64_t length = static_cast<std::uint64_t>(range.last) - range.first + 1;
    if (ordinal < length) return static_cast<std::uint32_t>(range.first + ordinal);
    ordinal -= length;
  }
  return std::nullopt;
}

std::string IndexRanges::ToString() const {
  std::string out;
  for (const Range& range : ranges_) {
    if (!out.empty()) out += ',';
    out += std::to_string(range.first);
    if (range.last != range.first) out += '-' + std::to_string(range.last);
  }
  return out;
}

Result<IndexRanges> IndexRanges::Parse(std::string_view text, std::string_view what) {
  const std::string place = std::string(what) + " '" + std::string(text) + "'";
  IndexRanges out;
  for (std::string_view part : Split(text, ',')) {
    std::int64_t step = 1;
    if (const auto colon = part.find(':'); colon != std::string_view::npos) {
      const auto value = ParseInteger(part.substr(colon + 1));
      if (!value || *value < 1) return InvalidArgument(place + ": the step after ':' is a whole number from 1");
      step = *value;
      part = part.substr(0, colon);
    }
    const auto dash = part.find('-');
    const auto first = ParseInteger(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseInteger(part.substr(dash + 1));
    if (!first || !last || *first < 0) return InvalidArgument(place + ": write indices such as 0-9, 1,3,7 or 0-15:4");
    if (*last < *first)
      return InvalidArgument(place + ": the range runs backwards; write " + std::to_string(*last) + "-" +
                             std::to_string(*first));
    if (*last > kMaxIndex) return InvalidArgument(place + ": indices go up to " + std::to_string(kMaxIndex));
    if (step == 1) {
      out.Insert(static_cast<std::uint32_t>(*first), static_cast<std::uint32_t>(*last));
    } else {
      if ((*last - *first) / step >= kMaxStepped) {
        return InvalidArgument(place + ": a stepped range holds at most " + std::to_string(kMaxStepped) + " indices");
      }
      for (std::int64_t i = *first; i <= *last; i += step) out.Insert(static_cast<std::uint32_t>(i));
    }
  }
  return out;
}

}  // namespace divvy
