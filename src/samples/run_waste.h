// Decides after a run whether it wasted its GPUs, and what it should have requested. Applies the rules of
// samples/waste.h to the stored totals of the whole run instead of the last hour.
#pragma once

#include <optional>
#include <vector>

#include "samples/job_use.h"
#include "samples/waste.h"

namespace divvy::samples {

/// Returns a run's peak of GPU memory, in bytes, on the GPU where it used most. If that is unknown, returns its peak on
/// one node divided by its GPUs there.
double MemoryPeakOf(const JobUse& use, int gpus);

/// Data about a run's GPUs and nodes that the samples of the job itself do not contain. It covers the run from the end
/// of the grace period on.
struct RunDetail {
  int gpus_unused = 0;                 // GPUs that it had exclusively and never used.
  std::optional<double> machine_cpus;  // Mean of WasteWatch::Look::machine_cpus.
};

/// Returns the findings, worst first. `use` covers the run from the end of the grace period. Empty if the GPUs were
/// used, or if less than rules.idle_after was observed.
std::vector<Waste> WasteOfRun(const WasteShape& shape, const JobUse& use, const WasteRules& rules,
                              const RunDetail& detail = {});

/// Returns true if a run's loss is worth reporting: the run exceeded the grace period, and the loss does not round to
/// zero. Totals also include runs for which this returns false.
bool IsWorthTelling(double lost_gpu_hours, Duration ran, const WasteRules& rules);

}  // namespace divvy::samples
