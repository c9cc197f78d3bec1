#include "research/rates/price_game.h"

#include <algorithm>

namespace divvy::rates {
namespace {

constexpr double kZero = 1e-12;

/// Maximises sum y subject to M y <= 1, y >= 0. For M > 0 its value is 1 / the value of the game.
class Tableau {
 public:
  Tableau(const std::vector<std::vector<double>>& columns, std::size_t rows, double shift)
      : rows_(rows), width_(columns.size() + rows + 1), cells_((rows + 1) * width_), basis_(rows) {
    for (std::size_t k = 0; k < columns.size(); ++k) {
      for (std::size_t r = 0; r < rows; ++r) At(r, k) = columns[k][r] + shift;
      At(rows, k) = -1;
    }
    for (std::size_t r = 0; r < rows; ++r) {
      At(r, columns.size() + r) = 1;
      At(r, width_ - 1) = 1;
      basis_[r] = columns.size() + r;
    }
  }

  void Solve() {
    for (int pivot = 0; pivot < 10000; ++pivot) {
      // Dantzig's rule (the most negative column) first. After 200 pivots Bland's rule, which always terminates.
      std::size_t enter = width_;
      for (std::size_t c = 0; c + 1 < width_; ++c) {
        if (At(rows_, c) >= -kZero) continue;
        if (enter == width_ || At(rows_, c) < At(rows_, enter)) enter = c;
        if (pivot > 200) break;
      }
      if (enter == width_) return;
      std::size_t leave = rows_;
      for (std::size_t r = 0; r < rows_; ++r) {
        if (At(r, enter) <= kZero) continue;
        if (leave == rows_) {
          leave = r;
          continue;
        }
        const double left = At(r, width_ - 1) * At(leave, enter), right = At(leave, width_ - 1) * At(r, enter);
        if (left < right || (left == right && basis_[r] < basis_[leave])) leave = r;
      }
      if (leave == rows_) return;
      Pivot(leave, enter);
    }
  }

  double& At(std::size_t row, std::size_t column) { return cells_[row * width_ + column]; }
  std::size_t width() const { return width_; }
  const std::vector<std::size_t>& basis() const { return basis_; }

 private:
  void Pivot(std::size_t leave, std::size_t enter) {
    const double by = At(leave, enter);
    for (std::size_t c = 0; c < width_; ++c) At(leave, c) /= by;
    for (std::size_t r = 0; r <= rows_; ++r) {
      const double factor = At(r, enter);
      if (r == leave || factor == 0) continue;
      for (std::size_t c = 0; c < width_; ++c) At(r, c) -= factor * At(leave, c);
    }
    basis_[leave] = enter;
  }

  std::size_t rows_, width_;
  std::vector<double> cells_;
  std::vector<std::size_t> basis_;
};

void Normalise(std::vector<double>& parts) {
  double sum = 0;
  for (double& part : parts) {
    part = std::max(0.0, part);
    sum += part;
  }
  for (double& part : parts) part = sum > 0 ? part / sum : 1.0 / static_cast<double>(parts.size());
}

}  // namespace

GameResult SolvePriceGame(const std::vector<std::vector<double>>& columns, std::size_t rows) {
  // Adding a constant to every entry adds it to the value. It keeps the program bounded if a column is 0.
  constexpr double kShift = 1;
  Tableau tableau(columns, rows, kShift);
  tableau.Solve();
  GameResult result;
  result.mix.assign(columns.size(), 0);
  result.price.assign(rows, 0);
  for (std::size_t r = 0; r < rows; ++r)
    if (tableau.basis()[r] < columns.size()) result.mix[tableau.basis()[r]] = tableau.At(r, tableau.width() - 1);
  for (std::size_t r = 0; r < rows; ++r) result.price[r] = tableau.At(rows, columns.size() + r);
  const double total = tableau.At(rows, tableau.width() - 1);
  result.value = 1 / total - kShift;
  Normalise(result.mix);
  Normalise(result.price);
  return result;
}

}  // namespace divvy::rates
