// A job's use of GPUs and CPUs over a period, computed from its track.
#pragma once

#include <functional>
#include <string_view>

#include "samples/block.h"

namespace divvy::samples {

/// Use on all nodes of the job; seconds are summed over the nodes.
struct JobUse {
  int machines = 0;         // Nodes with known use.
  double seconds = 0;       // Seconds with known GPU use.
  double use_seconds = 0;   // Integral of the mean GPU use (0..1 of whole GPUs) over these seconds.
  double idle_seconds = 0;  // Seconds at exactly 0% on all its GPUs.
  double idle_tail = 0;    // Idle seconds at the end of the observation, without a gap; with several nodes, the lowest.
  double memory_peak = 0;  // In bytes: sum over the GPUs of the node where it was highest.
  double memory_most = 0;  // In bytes: most on one GPU, for a job with several GPUs of its own; 0: unknown.
  double cpu_seconds = 0;  // Seconds with known CPU use.
  double core_seconds = 0;  // CPU time in these seconds.

  friend bool operator==(const JobUse&, const JobUse&) = default;
};

/// Adds to `use` what a job used on one node from `since` (inclusive) to `until` (exclusive), computed from its samples
/// there (`track`). A point holds until the job is sampled again, at most one minute.
void AddUse(const Block& track, Second since, Second until, JobUse& use);
/// Like AddUse, by hour of the clock (UTC). `use_of` returns the accumulated use of the hour that starts at its
/// argument.
void AddUseByHour(const Block& track, Second since, Second until, const std::function<JobUse&(Second hour)>& use_of);
/// Returns true for the columns that AddUse reads.
bool IsOfUse(Metric metric, std::string_view own_name);

}  // namespace divvy::samples
