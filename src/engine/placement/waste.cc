#include "engine/placement/waste.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace divvy::placement {
namespace {

// More sizes than this are grouped upwards to hundredths of a GPU; the simplex below is cubic in them.
constexpr std::size_t kMostSizes = 64;
constexpr int kCoarse = 10;
// A pattern must promise this much more than a GPU to enter; below it lies rounding.
constexpr double kTolerance = 1e-9;
// A bound against cycling on degenerate demands; a few dozen rounds are usual.
constexpr int kMostRounds = 2000;

struct SizeDemand {
  int milli = 0;
  double weight = 0;
};

std::vector<SizeDemand> Sizes(const Demand& demand) {
  for (const int grain : {1, kCoarse}) {
    std::map<int, double> by_size;
    for (const auto& [shape, weight] : demand) {
      if (shape.is_share() && shape.milli > 0)
        by_size[(shape.milli + grain - 1) / grain * grain] += static_cast<double>(weight);
    }
    if (by_size.size() > kMostSizes && grain == 1) continue;
    std::vector<SizeDemand> sizes;
    for (const auto& [milli, weight] : by_size) sizes.push_back({milli, weight});
    return sizes;
  }
  return {};
}

/// Best sum of values for each room from 0 to kGpuMilli, and the size taken last there (-1: none).
struct Knapsack {
  std::vector<double> best;
  std::vector<int> last;
};

Knapsack Fill(const std::vector<SizeDemand>& sizes, const std::vector<double>& values) {
  Knapsack sack{std::vector<double>(kGpuMilli + 1, 0), std::vector<int>(kGpuMilli + 1, -1)};
  for (std::size_t room = 1; room <= kGpuMilli; ++room) {
    sack.best[room] = sack.best[room - 1];
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto milli = static_cast<std::size_t>(sizes[i].milli);
      if (milli > room) break;
      const double value = sack.best[room - milli] + values[i];
      if (value > sack.best[room] + kTolerance) {
        sack.best[room] = value;
        sack.last[room] = static_cast<int>(i);
      }
    }
  }
  return sack;
}

/// The revised simplex method on: least GPUs such that the patterns cut from them cover the demand. A column is a
/// pattern (cost 1) or the surplus of one size (cost 0). The inverse of the basis is kept whole: it is small.
class CuttingStock {
 public:
  explicit CuttingStock(const std::vector<SizeDemand>& sizes) : sizes_(sizes), rows_(sizes.size()) {
    // To begin with every size has GPUs of its own.
    inverse_.assign(rows_ * rows_, 0);
    cost_.assign(rows_, 1);
    for (std::size_t i = 0; i < rows_; ++i) {
      const double fit = kGpuMilli / sizes_[i].milli;
      inverse_[i * rows_ + i] = 1 / fit;
      amount_.push_back(sizes_[i].weight / fit);
    }
  }

  void Solve() {
    for (int round = 0; round < kMostRounds && Step(); ++round) continue;
  }

  std::vector<double> Values() const {
    std::vector<double> values(rows_, 0);
    for (std::size_t i = 0; i < rows_; ++i) {
      if (cost_[i] == 0) continue;
      for (std::size_t j = 0; j < rows_; ++j) values[j] += inverse_[i * rows_ + j];
    }
    return values;
  }

  double Gpus() const {
    double sum = 0;
    for (std::size_t i = 0; i < rows_; ++i) sum += cost_[i] * amount_[i];
    return sum;
  }

 private:
  /// Lets the best column in; false: there is none.
  bool Step() {
    const std::vector<double> values = Values();
    const auto least = std::ranges::min_element(values) - values.begin();
    if (values[static_cast<std::size_t>(least)] < -kTolerance) {
      std::vector<double> column(rows_, 0);
      column[static_cast<std::size_t>(least)] = -1;
      return Enter(column, 0);
    }
    const Knapsack sack = Fill(sizes_, values);
    if (sack.best[kGpuMilli] <= 1 + kTolerance) return false;
    std::vector<double> column(rows_, 0);
    for (std::size_t room = kGpuMilli; room > 0;) {
      if (sack.last[room] < 0) {
        --room;
        continue;
      }
      const auto i = static_cast<std::size_t>(sack.last[room]);
      column[i] += 1;
      room -= static_cast<std::size_t>(sizes_[i].milli);
    }
    return Enter(column, 1);
  }

  bool Enter(const std::vector<double>& column, double cost) {
    std::vector<double> change(rows_, 0);
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t j = 0; j < rows_; ++j) change[i] += inverse_[i * rows_ + j] * column[j];
    }
    std::size_t leaving = rows_;
    for (std::size_t i = 0; i < rows_; ++i) {
      if (change[i] <= kTolerance) continue;
      if (leaving == rows_ || amount_[i] * change[leaving] < amount_[leaving] * change[i]) leaving = i;
    }
    if (leaving == rows_) return false;
    const double pivot = change[leaving];
    for (std::size_t j = 0; j < rows_; ++j) inverse_[leaving * rows_ + j] /= pivot;
    amount_[leaving] /= pivot;
    for (std::size_t i = 0; i < rows_; ++i) {
      if (i == leaving || change[i] == 0) continue;
      for (std::size_t j = 0; j < rows_; ++j) inverse_[i * rows_ + j] -= change[i] * inverse_[leaving * rows_ + j];
      amount_[i] = std::max(0.0, amount_[i] - change[i] * amount_[leaving]);
    }
    cost_[leaving] = cost;
    return true;
  }

  const std::vector<SizeDemand>& sizes_;
  std::size_t rows_;
  std::vector<double> inverse_;
  std::vector<double> amount_;  // GPUs cut by the basic pattern, or surplus.
  std::vector<double> cost_;
};

}  // namespace

WastePrice::WastePrice(const Demand& demand) : room_(kGpuMilli + 1, 0), size_(kGpuMilli + 1, 0) {
  const std::vector<SizeDemand> sizes = Sizes(demand);
  if (sizes.empty()) return;
  CuttingStock problem(sizes);
  problem.Solve();
  gpus_needed_ = problem.Gpus();
  for (const SizeDemand& size : sizes) gpus_asked_ += size.weight * size.milli / kGpuMilli;

  std::vector<double> values = problem.Values();
  for (double& value : values) value = std::max(0.0, value);
  const Knapsack sack = Fill(sizes, values);
  for (std::size_t room = 0; room <= kGpuMilli; ++room)
    room_[room] = std::llround(sack.best[room] * static_cast<double>(kGpu));
  for (std::size_t milli = 1; milli <= kGpuMilli; ++milli) {
    std::int64_t least = room_[milli];
    for (std::size_t room = milli; room <= kGpuMilli; ++room)
      least = std::min(least, room_[room] - room_[room - milli]);
    size_[milli] = least;
  }
}

}  // namespace divvy::placement
