#include "engine/placement/waste.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace divvy::placement {
namespace {

// With more sizes than this, or more entries in the knapsacks over them, sizes are rounded up to multiples of a coarser
// grain. The simplex algorithm below is cubic in the number of sizes.
constexpr std::size_t kMostSizes = 64;
constexpr std::size_t kMostEntries = 320'000;
// Sizes outside the demand are valued at this many points; a size in between counts as the next smaller one.
constexpr std::size_t kValuedSizes = 1000;
constexpr int kGrains[] = {1, kGpuParts / 1000, kGpuParts / 100};
// A pattern enters the basis only if it is worth this much more than a GPU; smaller gains are rounding errors.
constexpr double kTolerance = 1e-9;
// The maximum number of rounds, against cycling on degenerate demands; a few dozen are usual.
constexpr int kMostRounds = 2000;

/// The sizes of the demanded shares, ascending, with the weight of each.
struct Sizes {
  std::vector<int> parts;
  std::vector<std::size_t> steps;  // `parts` in steps of `by`.
  std::vector<double> weights;
  SizeSteps by;

  std::size_t size() const { return parts.size(); }
};

Sizes SizesOf(const Demand& demand, int grain) {
  std::map<int, double> by_size;
  for (const auto& [shape, weight] : demand) {
    if (shape.is_share() && shape.parts > 0)
      by_size[(shape.parts + grain - 1) / grain * grain] += static_cast<double>(weight);
  }
  Sizes sizes;
  for (const auto& [parts, weight] : by_size) {
    sizes.parts.push_back(parts);
    sizes.weights.push_back(weight);
  }
  sizes.by = SizeSteps(sizes.parts);
  for (const int parts : sizes.parts) sizes.steps.push_back(sizes.by.Of(parts));
  return sizes;
}

Sizes SizesOf(const Demand& demand) {
  Sizes sizes;
  for (const int grain : kGrains) {
    sizes = SizesOf(demand, grain);
    if (sizes.size() <= kMostSizes && sizes.size() * sizes.by.count() <= kMostEntries) break;
  }
  return sizes;
}

/// For each room from 0 steps to a whole GPU: the best sum of values, and the last size used there (-1: none).
struct Knapsack {
  std::vector<double> best;
  std::vector<int> last;
};

Knapsack Fill(const Sizes& sizes, const std::vector<double>& values) {
  const std::size_t rooms = sizes.by.count();
  Knapsack sack{std::vector<double>(rooms, 0), std::vector<int>(rooms, -1)};
  for (std::size_t room = 1; room < rooms; ++room) {
    sack.best[room] = sack.best[room - 1];
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t size = sizes.steps[i];
      if (size > room) break;
      const double value = sack.best[room - size] + values[i];
      if (value > sack.best[room] + kTolerance) {
        sack.best[room] = value;
        sack.last[room] = static_cast<int>(i);
      }
    }
  }
  return sack;
}

/// The revised simplex method for: minimise GPUs such that the patterns cut from them cover the demand. A column is a
/// pattern (cost 1) or the surplus of one size (cost 0). The inverse of the basis is stored explicitly, because it is
/// small.
class CuttingStock {
 public:
  explicit CuttingStock(const Sizes& sizes) : sizes_(sizes), rows_(sizes.size()) {
    // In the initial basis every size has GPUs of its own.
    inverse_.assign(rows_ * rows_, 0);
    cost_.assign(rows_, 1);
    for (std::size_t i = 0; i < rows_; ++i) {
      const double fit = kGpuParts / sizes_.parts[i];
      inverse_[i * rows_ + i] = 1 / fit;
      amount_.push_back(sizes_.weights[i] / fit);
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
  /// Enters the best column into the basis. Returns false if there is none.
  bool Step() {
    const std::vector<double> values = Values();
    const auto least = std::ranges::min_element(values) - values.begin();
    if (values[static_cast<std::size_t>(least)] < -kTolerance) {
      std::vector<double> column(rows_, 0);
      column[static_cast<std::size_t>(least)] = -1;
      return Enter(column, 0);
    }
    const Knapsack sack = Fill(sizes_, values);
    if (sack.best.back() <= 1 + kTolerance) return false;
    std::vector<double> column(rows_, 0);
    for (std::size_t room = sack.best.size() - 1; room > 0;) {
      if (sack.last[room] < 0) {
        --room;
        continue;
      }
      const auto i = static_cast<std::size_t>(sack.last[room]);
      column[i] += 1;
      room -= sizes_.steps[i];
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

  const Sizes& sizes_;
  std::size_t rows_;
  std::vector<double> inverse_;
  std::vector<double> amount_;  // GPUs cut by the basic pattern, or surplus.
  std::vector<double> cost_;
};

}  // namespace

WastePrice::WastePrice(const Demand& demand) {
  const Sizes sizes = SizesOf(demand);
  steps_ = sizes.by;
  const std::size_t rooms = steps_.count();
  room_.assign(rooms, 0);
  size_.assign(rooms, 0);
  if (sizes.size() == 0) return;
  CuttingStock problem(sizes);
  problem.Solve();
  gpus_needed_ = problem.Gpus();
  for (std::size_t i = 0; i < sizes.size(); ++i) gpus_asked_ += sizes.weights[i] * sizes.parts[i] / kGpuParts;

  std::vector<double> values = problem.Values();
  for (double& value : values) value = std::max(0.0, value);
  const Knapsack sack = Fill(sizes, values);
  for (std::size_t room = 0; room < rooms; ++room)
    room_[room] = std::llround(sack.best[room] * static_cast<double>(kGpu));
  const std::size_t stride = (rooms + kValuedSizes - 1) / kValuedSizes;
  for (std::size_t size = 1; size < rooms; ++size) {
    if (size % stride != 0 && !std::ranges::binary_search(sizes.steps, size)) {
      size_[size] = size_[size - 1];
      continue;
    }
    std::int64_t least = room_[size];
    for (std::size_t room = size; room < rooms; ++room) least = std::min(least, room_[room] - room_[room - size]);
    size_[size] = least;
  }
}

}  // namespace divvy::placement
