#include "simulate/traces/load_series.h"

#include <algorithm>

namespace divvy::simulate {
namespace {

void AddScaled(LoadLevel& sum, const LoadLevel& level, double factor) {
  sum.allocated_gpus += level.allocated_gpus * factor;
  sum.waiting_jobs += level.waiting_jobs * factor;
  sum.waiting_gpus += level.waiting_gpus * factor;
  sum.running_jobs += level.running_jobs * factor;
  sum.fragmented_gpus += level.fragmented_gpus * factor;
}

}  // namespace

void LoadSeries::Set(Time now, const LoadLevel& level) {
  if (!has_begun_) {
    has_begun_ = true;
    begin_ = last_ = now;
  }
  if (now > last_) {
    const double seconds = ToSeconds(now - last_);
    AddScaled(integral_, level_, seconds);
    if (level_.waiting_jobs > 0) {
      allocated_while_waiting_ += level_.allocated_gpus * seconds;
      seconds_waiting_ += seconds;
    }
    Add(last_, now);
  }
  last_ = now;
  level_ = level;
}

void LoadSeries::Add(Time from, Time to) {
  while ((to - begin_ - Duration(1)) / width_ >= static_cast<Duration::rep>(most_bins_)) {
    for (std::size_t i = 0; i < bins_.size(); i += 2) {
      LoadLevel merged = bins_[i];
      if (i + 1 < bins_.size()) AddScaled(merged, bins_[i + 1], 1);
      bins_[i / 2] = merged;
    }
    bins_.resize((bins_.size() + 1) / 2);
    width_ *= 2;
  }
  while (from < to) {
    const auto bin = static_cast<std::size_t>((from - begin_) / width_);
    const Time until = std::min(to, begin_ + width_ * static_cast<Duration::rep>(bin + 1));
    if (bins_.size() <= bin) bins_.resize(bin + 1);
    AddScaled(bins_[bin], level_, ToSeconds(until - from));
    from = until;
  }
}

std::vector<LoadSeries::Point> LoadSeries::Points() const {
  std::vector<Point> points;
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    Point point;
    point.begin = begin_ + width_ * static_cast<Duration::rep>(i);
    point.width = std::min(width_, last_ - point.begin);
    if (point.width <= Duration(0)) break;
    AddScaled(point.mean, bins_[i], 1 / ToSeconds(point.width));
    points.push_back(point);
  }
  return points;
}

}  // namespace divvy::simulate
