// The scores of all nodes for one shape, and the best node: the highest score, and among equals the first in the
// fleet's order. A max tree over blocks with one small array per level, so an update touches a few cache lines and a
// query reads one block per level.
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
  /// Returns the recommended length of a vector with the scores of this many nodes. If the caller fills the vector up
  /// to it with kNoRoom, the vector need not be copied.
  static constexpr std::size_t RoomFor(std::size_t nodes) {
    return std::max<std::size_t>((nodes + kBlock - 1) / kBlock, 1) * kBlock;
  }

  void Set(std::size_t node, Score score);
  Score At(std::size_t node) const { return levels_.front()[node]; }
  /// Returns the best score of all nodes; kNoRoom if the request fits nowhere.
  Score best() const { return best_; }
  /// Returns the first node with the best score. Requires: best() != kNoRoom.
  std::size_t First() const;

 private:
  static constexpr std::size_t kBlock = 32;
  static Score MostOf(const Score* block);

  std::vector<std::vector<Score>> levels_;  // [0]: the node scores, padded to whole blocks; each further level: block
                                            // maxima.
  Score best_ = kNoRoom;
};

}  // namespace divvy::placement
