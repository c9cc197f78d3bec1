// The small linear program inside MaxMinShares(): the mix of demands with the smallest load on the fullest type, and
// the prices that prove it (von Neumann's matrix game). It has few rows and a few dozen columns, so it uses a dense
// tableau, with Dantzig's rule and after 200 pivots with Bland's.
#pragma once

#include <cstddef>
#include <vector>

namespace divvy::rates {

struct GameResult {
  double value = 0;  // The minimum over mixes of the largest row; the maximum over prices of the cheapest column.
  std::vector<double> mix;    // [column]; sums to 1.
  std::vector<double> price;  // [row]; sums to 1.
};

/// Solves the program for the load columns[k][row] that demand k puts on type `row`. Requires: all loads >= 0; at least
/// one column and one row.
GameResult SolvePriceGame(const std::vector<std::vector<double>>& columns, std::size_t rows);

}  // namespace divvy::rates
