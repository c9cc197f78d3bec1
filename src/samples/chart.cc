#include "samples/chart.h"

#include <algorithm>
#include <tuple>

#include "samples/track.h"

namespace divvy::samples {
namespace {

Second CeilDivide(Second a, Second b) { return (a + b - 1) / b; }

Second WantedStep(const Range& range) {
  const auto points = static_cast<Second>(std::clamp<std::size_t>(range.points, 1, kMostChartPoints));
  return std::max<Second>(1, CeilDivide(std::max<Second>(range.until - range.since, 1), points));
}

auto KeyOf(const Curve& curve) { return std::tuple(!curve.name.empty(), curve.name, curve.metric); }

}  // namespace

Second StepOf(const Range& range, Second step) { return CeilDivide(WantedStep(range), step) * step; }

Second ChooseStep(const Range& range, Second now) {
  const Second wanted = WantedStep(range);
  const Second age = now - range.since;
  for (std::size_t i = kLevels.size(); i-- > 0;) {
    if (kLevels[i].step <= wanted && age <= kLevels[i].reach) return kLevels[i].step;
  }
  if (age <= kRingSeconds) return 1;
  for (const Level& level : kLevels) {
    if (age <= level.reach) return level.step;
  }
  return kLevels.back().step;
}

Chart::Chart(const Range& range, Second step)
    : since_(range.since), until_(range.until), step_(std::max<Second>(step, 1)), begin_(range.since / step_ * step_) {
  const Second span = CeilDivide(std::max<Second>(range.until - begin_, 1), step_);
  count_ = static_cast<std::size_t>(std::min<Second>(span, kMostChartPoints + 1));
}

Chart::Filling& Chart::FillingOf(const Column& column) {
  for (Filling& filling : fillings_) {
    if (filling.curve.name == column.name && (!column.name.empty() || filling.curve.metric == column.metric))
      return filling;
  }
  return fillings_.emplace_back(
      Filling{{column.metric, column.name, std::vector<Point>(count_, NoPoint())}, std::vector<float>(count_, 0)});
}

void Chart::Add(const Block& block, bool leaves_known) {
  for (const Column& column : block.columns) {
    Filling* filling = nullptr;
    std::vector<float> known;  // The weights before this block.
    const Fold fold = FoldOf(column);
    for (std::size_t i = 0; i < column.points.size(); ++i) {
      const Second at = block.begin + block.step * static_cast<Second>(i);
      if (!IsPoint(column.points[i]) || at + block.step <= since_ || at >= until_) continue;
      if (filling == nullptr) {
        filling = &FillingOf(column);
        if (leaves_known) known = filling->weights;
      }
      // A point longer than the chart's step contributes to all points that it covers.
      const Second first = std::max<Second>(at - begin_, 0) / step_;
      const Second last = std::max(first, (at + block.step - 1 - begin_) / step_);
      for (Second k = first; k <= last && k < static_cast<Second>(count_); ++k) {
        const auto slot = static_cast<std::size_t>(k);
        if (leaves_known && known[slot] > 0) continue;
        Point& point = filling->curve.points[slot];
        point = FoldPoints(fold, point, static_cast<double>(filling->weights[slot]), column.points[i], 1);
        filling->weights[slot] += 1;
      }
    }
  }
}

std::vector<Curve> Chart::TakeCurves() {
  std::vector<Curve> curves;
  for (Filling& filling : fillings_) curves.push_back(std::move(filling.curve));
  fillings_.clear();
  std::ranges::sort(curves, {}, KeyOf);
  return curves;
}

namespace {

// Fills short gaps of one part's curve with its last value, so that the sum of all parts does not drop. Metrics that
// the job reports itself stay as they are: only some of its parts may report them, and rarely.
std::vector<Point> Carried(const Curve& curve, Second step) {
  std::vector<Point> points = curve.points;
  if (!curve.name.empty()) return points;
  const auto most = static_cast<std::size_t>((kPartsCarried + step - 1) / step);
  std::size_t since = most;  // Points since the last known one.
  for (std::size_t i = 0; i < points.size(); ++i) {
    since = IsPoint(points[i]) ? 0 : since + 1;
    if (since > 0 && since <= most && since <= i)
      points[i] = PointOf(static_cast<double>(curve.points[i - since].mean));
  }
  return points;
}

}  // namespace

std::vector<Curve> JoinCurves(const std::vector<std::vector<Curve>>& parts, Second step) {
  std::vector<Curve> joined;
  for (const std::vector<Curve>& part : parts) {
    for (const Curve& curve : part) {
      const auto is_it = [&](const Curve& known) { return KeyOf(known) == KeyOf(curve); };
      if (std::ranges::none_of(joined, is_it)) joined.push_back({curve.metric, curve.name, {}});
    }
  }
  for (Curve& curve : joined) {
    std::vector<float> counts;
    std::vector<bool> is_told;
    const bool is_most = curve.name.empty() && FactsOf(curve.metric).join == Join::kMost;
    for (const std::vector<Curve>& part : parts) {
      const auto own = std::ranges::find_if(part, [&](const Curve& known) { return KeyOf(known) == KeyOf(curve); });
      if (own == part.end()) continue;
      curve.points.resize(own->points.size(), NoPoint());
      counts.resize(own->points.size(), 0);
      is_told.resize(own->points.size(), false);
      const std::vector<Point> points = Carried(*own, step);
      for (std::size_t i = 0; i < points.size(); ++i) {
        const Point& other = points[i];
        Point& point = curve.points[i];
        if (IsPoint(own->points[i])) is_told[i] = true;
        if (!IsPoint(other)) continue;
        counts[i] += 1;
        if (!IsPoint(point)) point = other;
        else if (is_most) point = point.mean < other.mean ? other : point;
        else point = {point.mean + other.mean, point.least + other.least, point.greatest + other.greatest};
      }
    }
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      if (!is_told[i]) curve.points[i] = NoPoint();
    }
    if (is_most || (curve.name.empty() && FactsOf(curve.metric).join == Join::kSum)) continue;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      if (counts[i] < 2 || !is_told[i]) continue;
      Point& point = curve.points[i];
      point = {point.mean / counts[i], point.least / counts[i], point.greatest / counts[i]};
    }
  }
  std::ranges::sort(joined, {}, KeyOf);
  return joined;
}

}  // namespace divvy::samples
