// What a job used of its GPUs and CPUs over a stretch of time, by its track.
#pragma once

#include <functional>
#include <string_view>

#include "samples/block.h"

namespace divvy::samples {

/// Of all its machines: seconds are those of each of them.
struct JobUse {
  int machines = 0;         // On which something of it is known.
  double seconds = 0;       // In which the use of its GPUs was known.
  double use_seconds = 0;   // Sum over them of the mean use of its GPUs, 0..1 of whole ones.
  double idle_seconds = 0;  // At exactly 0% on all of its GPUs.
  double idle_tail = 0;     // Those of them at the end of what was seen, without a gap.
  double memory_peak = 0;   // Bytes, on all GPUs of the machine where it was greatest.
  double memory_most = 0;   // On one GPU, of a job that had several to itself; 0: not known.
  double cpu_seconds = 0;   // In which the use of its CPUs was known.
  double core_seconds = 0;  // CPU time in them.

  friend bool operator==(const JobUse&, const JobUse&) = default;
};

/// Adds what the track of a job on one machine has from `since` until before `until`. A point holds until
/// something of the job is seen again, a minute at most.
void AddUse(const Block& track, Second since, Second until, JobUse& use);
/// The same by hours of the clock (UTC): `use_of` has what is known so far of the hour that begins then.
void AddUseByHour(const Block& track, Second since, Second until, const std::function<JobUse&(Second hour)>& use_of);
/// Columns that AddUse reads.
bool IsOfUse(Metric metric, std::string_view own_name);

}  // namespace divvy::samples
