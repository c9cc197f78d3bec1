#include "engine/placement/score_index.h"

#include <algorithm>

namespace divvy::placement {

// Compares one half of the block with the other: a few vector instructions.
Score ScoreIndex::MostOf(const Score* block) {
  std::array<Score, kBlock / 2> most;
  for (std::size_t i = 0; i < kBlock / 2; ++i) most[i] = std::max(block[i], block[i + kBlock / 2]);
  for (std::size_t i = 0; i < kBlock / 4; ++i) most[i] = std::max(most[i], most[i + kBlock / 4]);
  return *std::max_element(most.begin(), most.begin() + kBlock / 4);
}

ScoreIndex::ScoreIndex(std::vector<Score> scores) {
  while (true) {
    scores.resize(RoomFor(scores.size()), kNoRoom);
    const std::size_t blocks = scores.size() / kBlock;
    std::vector<Score> maxima(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      maxima[i] = MostOf(&scores[i * kBlock]);
    }
    levels_.push_back(std::move(scores));
    if (blocks == 1) {
      best_ = maxima.front();
      return;
    }
    scores = std::move(maxima);
  }
}

void ScoreIndex::Set(std::size_t node, Score score) {
  std::size_t index = node;
  for (auto& level : levels_) {
    const Score before = level[index];
    if (before == score) return;
    level[index] = score;
    // The maximum of the block is the entry one level up.
    const Score* const block = &level[index / kBlock * kBlock];
    index /= kBlock;
    const Score known = &level == &levels_.back() ? best_ : (&level + 1)->at(index);
    if (score <= known && before < known) return;
    if (score < known) {
      for (std::size_t i = 0; i < kBlock; ++i) score = std::max(score, block[i]);
    }
    if (score == known) return;
  }
  best_ = score;
}

std::size_t ScoreIndex::First() const {
  std::size_t index = 0;
  for (std::size_t level = levels_.size(); level-- > 0;) {
    const Score* const block = &levels_[level][index * kBlock];
    std::size_t i = 0;
    while (block[i] != best_) ++i;
    index = index * kBlock + i;
  }
  return index;
}

}  // namespace divvy::placement
