// The expected ends and lengths of jobs, by one of three estimates (estimate.h).
#pragma once

#include <cstdint>
#include <optional>

#include "engine/core/estimate/run_spread.h"
#include "engine/core/state/state.h"

namespace divvy::core {

enum class Outcome : std::uint8_t { kEarliest, kTypical, kLatest };

/// An expected end as of `now`, never before it. kNever: unknown.
class EndTimes {
 public:
  EndTimes(const Rules& rules, Time now, Outcome outcome, const SpreadOf* spread)
      : rules_(rules), now_(now), outcome_(outcome), spread_(spread) {}

  Time Of(JobId job, Time started, Time end, Time predicted_end) const;
  Time Of(const RunningTask& placed) const { return Of(placed.job, placed.started, placed.end, placed.predicted_end); }
  Time Of(const Run& run) const { return Of(run.id, run.started, run.end, run.predicted_end); }
  /// Returns the expected run time of a waiting job, by this estimate; nullopt if unknown.
  std::optional<Duration> Length(JobId entry, const ClassKey& key) const;

 private:
  std::optional<RunSpread> Spread(JobId job) const { return spread_ && *spread_ ? (*spread_)(job) : std::nullopt; }

  const Rules& rules_;
  Time now_;
  Outcome outcome_;
  const SpreadOf* spread_;
};

}  // namespace divvy::core
