// The small linear program inside MaxMinShares: a mix of demands that loads the fullest type least, and the prices that
// prove it (von Neumann's matrix game). Few rows, a few dozen columns; a dense tableau, Bland's rule.
#pragma once

#include <cstddef>
#include <vector>

namespace divvy::rates {

struct GameResult {
  double value = 0;           // min over mixes of the largest row = max over prices of the cheapest column.
  std::vector<double> mix;    // [column], sums to 1.
  std::vector<double> price;  // [row], sums to 1.
};

/// `columns[k][row]` >= 0. Requires: at least one column and one row.
GameResult SolvePriceGame(const std::vector<std::vector<double>>& columns, std::size_t rows);

}  // namespace divvy::rates
