// Reports over a stretch of time: who had how many GPU-hours, how long jobs waited for them, and how evenly both fell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/messages/waste_messages.h"

namespace divvy::wire {

/// What one group of runs comes to, as far as it lies in the stretch.
struct UsageRow {
  std::string group;         // A user, team, job name, GPU model, pool or machine; of hours "2026-03-01T16"; or a job.
  std::int64_t jobs = 0;     // That ran in the stretch, or waited there and were never started.
  std::int64_t running = 0;  // Of these, still.
  std::int64_t failed = 0;   // Of these: failed, timed out or lost.
  double gpu_hours = 0;      // A part of a GPU counts as the part.
  double failed_gpu_hours = 0;  // Of them in runs that failed, timed out or were lost.
  double share = 0;             // Of all rows' GPU-hours, 0..1.
  // Of those that started in the stretch, in seconds; nothing where none did.
  std::optional<double> wait_mean_s;
  std::optional<double> wait_median_s;
  std::optional<double> wait_p95_s;
  std::optional<RowJob> job;  // By job.
};
struct UsageReport {
  double since = 0;
  double until = 0;
  std::string by;
  double gpu_hours = 0;           // Of all.
  double capacity_gpu_hours = 0;  // Of the GPUs that are here now, over the stretch; 0: none.
  bool is_cut = false;            // There are more runs than are read at once; the oldest are left out.
  /// Most GPU-hours first; hours in their order; jobs by those that failed runs had, the first 1,000.
  std::vector<UsageRow> rows;
};

/// How one user or team fared.
struct FairnessRow {
  std::string group;
  std::int64_t jobs = 0;  // That started in the stretch.
  double gpu_hours = 0;
  double share = 0;  // Of all GPU-hours, 0..1.
  double wait_median_s = 0;
  double wait_longest_s = 0;
  double slowdown_median = 0;  // (waiting + running) / running; runs below 10 s count as 10 s. 1: never waited.
  double slowdown_p95 = 0;
};
struct FairnessReport {
  double since = 0;
  double until = 0;
  std::string by;
  double evenness_of_share = 0;     // Jain's index over GPU-hours: 1: all alike; 1/n: one has all.
  double evenness_of_slowdown = 0;  // The same over median slowdowns.
  bool is_cut = false;
  std::vector<FairnessRow> rows;  // Who waited longest for what they ran first.
};

}  // namespace divvy::wire
