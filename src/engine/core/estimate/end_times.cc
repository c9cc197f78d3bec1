#include "engine/core/estimate/end_times.h"

#include <algorithm>

namespace divvy::core {

Time EndTimes::Of(JobId job, Time started, Time end, Time predicted_end) const {
  const Time soon = now_ + std::chrono::seconds(1);
  const Time limit = end == kNever ? kNever : std::max(end, soon);
  switch (outcome_) {
    case Outcome::kLatest: {
      if (limit != kNever) return limit;
      const std::optional<RunSpread> spread = Spread(job);
      const Time high = spread ? AddSaturating(started, spread->high) : kNever;
      return high > now_ ? high : kNever;  // It has already run longer than that.
    }
    case Outcome::kEarliest: {
      const std::optional<RunSpread> spread = Spread(job);
      return spread ? std::min(limit, std::max(AddSaturating(started, spread->low), soon)) : soon;
    }
    case Outcome::kTypical:
      break;
  }
  if (!rules_.uses_predictions || predicted_end == kNever) return limit;
  if (predicted_end > now_) return std::min(limit, predicted_end);
  return std::min(limit, now_ + std::max<Duration>(std::chrono::minutes(1), (now_ - started) / 10));
}

std::optional<Duration> EndTimes::Length(JobId entry, const ClassKey& key) const {
  const std::optional<Duration> limit = key.limit > Duration(0) ? std::optional(key.limit) : std::nullopt;
  const auto within = [&](Duration length) { return limit ? std::min(*limit, length) : length; };
  switch (outcome_) {
    case Outcome::kLatest:
      if (limit) return limit;
      if (const auto spread = Spread(entry)) return spread->high;
      return std::nullopt;
    case Outcome::kEarliest: {
      const auto spread = Spread(entry);
      return spread ? within(spread->low) : Duration(0);
    }
    case Outcome::kTypical:
      break;
  }
  if (rules_.uses_predictions && key.predicted > Duration(0)) return within(key.predicted);
  return limit;
}

}  // namespace divvy::core
