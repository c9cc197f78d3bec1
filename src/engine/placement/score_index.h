// The nodes' scores for one shape, and which node is best: the highest score, of equals the first in the fleet's order.
// A tree of maxima over blocks, in one small array per level, so that a change touches a few cache lines and the best
// is found by looking at one block per level.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace divvy::placement {

/// Higher is better; kNoRoom: the request does not fit there.
using Score = std::int16_t;
inline constexpr Score kNoRoom = -1;

class ScoreIndex {
 public:
  explicit ScoreIndex(std::vector<Score> scores);
  /// How long a vector of the scores of `nodes` is best made: padded with kNoRoom it need not be copied.
  static constexpr std::size_t RoomFor(std::size_t nodes) {
    return std::max<std::size_t>((nodes + kBlock - 1) / kBlock, 1) * kBlock;
  }

  void Set(std::size_t node, Score score);
  Score At(std::size_t node) const { return levels_.front()[node]; }
  /// Of all nodes; kNoRoom when it fits nowhere.
  Score best() const { return best_; }
  /// The first node with the best score. Requires: best() != kNoRoom.
  std::size_t First() const;

 private:
  static constexpr std::size_t kBlock = 32;
  static Score MostOf(const Score* block);

  std::vector<std::vector<Score>> levels_;  // [0]: the nodes', padded to whole blocks; each further one: block maxima.
  Score best_ = kNoRoom;
};

}  // namespace divvy::placement
