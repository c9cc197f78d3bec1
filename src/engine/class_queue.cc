#include "engine/class_queue.h"

#include <algorithm>
#include <limits>

#include "base/result.h"

namespace divvy {
namespace {

// A full chunk moves at most 6 KiB when it changes, which is less than the cost of a cache miss per tree level.
constexpr std::size_t kMostInChunk = 256;

constexpr auto kStandsBefore = [](const ClassQueue::Stand& stand, const Place& place) { return stand.place < place; };

}  // namespace

// Returns the last chunk that begins at or before `place`, or the first chunk if none does. Requires: the queue is not
// empty.
std::size_t ClassQueue::ChunkOf(const Place& place) const {
  const auto after =
      std::upper_bound(chunks_.begin(), chunks_.end(), place,
                       [](const Place& wanted, const Chunk& chunk) { return wanted < chunk.stands.front().place; });
  return after == chunks_.begin() ? 0 : static_cast<std::size_t>(after - chunks_.begin()) - 1;
}

void ClassQueue::Insert(const Place& place, std::uint32_t count) {
  entries_ += 1;
  members_ += count;
  if (chunks_.empty()) chunks_.emplace_back();
  std::size_t at = chunks_.size() == 1 ? 0 : ChunkOf(place);
  if (chunks_[at].stands.size() == kMostInChunk) {
    // Most jobs are added at the end of the queue. Then a new chunk is begun, instead of splitting the full one.
    const bool appends = at + 1 == chunks_.size() && chunks_[at].stands.back().place < place;
    Chunk upper;
    if (!appends) {
      const auto middle = chunks_[at].stands.begin() + kMostInChunk / 2;
      upper.stands.assign(middle, chunks_[at].stands.end());
      chunks_[at].stands.erase(middle, chunks_[at].stands.end());
      for (const Stand& stand : upper.stands) upper.members += stand.count;
      chunks_[at].members -= upper.members;
    }
    const bool goes_up = appends || !(place < upper.stands.front().place);
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
    if (goes_up) ++at;
  }
  Chunk& chunk = chunks_[at];
  const auto where = std::lower_bound(chunk.stands.begin(), chunk.stands.end(), place, kStandsBefore);
  DIVVY_ASSERT(where == chunk.stands.end() || where->place != place);
  chunk.stands.insert(where, Stand{place, count});
  chunk.members += count;
}

void ClassQueue::Erase(const Place& place) {
  const Position at = LowerBound(place);
  DIVVY_ASSERT(!IsEnd(at));
  DIVVY_ASSERT(At(at).place == place);
  Chunk& chunk = chunks_[at.chunk];
  const std::uint32_t count = chunk.stands[at.index].count;
  entries_ -= 1;
  members_ -= count;
  chunk.members -= count;
  chunk.stands.erase(chunk.stands.begin() + static_cast<std::ptrdiff_t>(at.index));
  if (chunk.stands.empty()) chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at.chunk));
}

void ClassQueue::SetCount(const Place& place, std::uint32_t count) {
  const Position at = LowerBound(place);
  DIVVY_ASSERT(!IsEnd(at));
  DIVVY_ASSERT(At(at).place == place);
  Chunk& chunk = chunks_[at.chunk];
  std::uint32_t& current = chunk.stands[at.index].count;
  members_ = members_ - current + count;
  chunk.members = chunk.members - current + count;
  current = count;
}

ClassQueue::Position ClassQueue::Next(Position at) const {
  if (at.index + 1 < chunks_[at.chunk].stands.size()) return {at.chunk, at.index + 1};
  return {at.chunk + 1, 0};
}

ClassQueue::Position ClassQueue::LowerBound(const Place& place) const {
  if (chunks_.empty()) return {};
  const std::size_t chunk = ChunkOf(place);
  const std::vector<Stand>& stands = chunks_[chunk].stands;
  const auto where = std::lower_bound(stands.begin(), stands.end(), place, kStandsBefore);
  if (where == stands.end()) return {chunk + 1, 0};
  return {chunk, static_cast<std::size_t>(where - stands.begin())};
}

ClassQueue::Position ClassQueue::AfterPriority(int priority) const {
  if (priority == std::numeric_limits<int>::min()) return {chunks_.size(), 0};
  return LowerBound({Time::min(), JobId(0), priority - 1});
}

std::uint64_t ClassQueue::MembersBefore(const Place& place) const {
  const Position at = LowerBound(place);
  std::uint64_t before = 0;
  for (std::size_t chunk = 0; chunk < std::min(at.chunk, chunks_.size()); ++chunk) before += chunks_[chunk].members;
  if (IsEnd(at)) return before;
  for (std::size_t index = 0; index < at.index; ++index) before += chunks_[at.chunk].stands[index].count;
  return before;
}

}  // namespace divvy
