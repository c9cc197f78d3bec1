// Whether a run that is over wasted its GPUs, by what is kept of it as a whole, and what it should have asked for: the
// rules of samples/waste.h, held against all of it and not against its last hour.
#pragma once

#include <optional>
#include <vector>

#include "samples/job_use.h"
#include "samples/waste.h"

namespace divvy::samples {

/// The most that it had on one of its GPUs, bytes; where that is not known, the mean of them.
double MemoryPeakOf(const JobUse& use, int gpus);

/// What GPUs and machines of a run showed, beside its own track, from the end of the grace after its start.
struct RunDetail {
  int gpus_unused = 0;                 // That it had whole and that did nothing.
  std::optional<double> machine_cpus;  // As WasteWatch::Look has it, in the mean.
};

/// `use`: from the end of the grace after its start. Nothing: it used what it had, or less was seen of it than
/// rules.idle_after. The worst first.
std::vector<Waste> WasteOfRun(const WasteWatch::Shape& shape, const JobUse& use, const WasteRules& rules,
                              const RunDetail& detail = {});

/// What a run that lasted so long lost is worth telling people: it outlived the grace, and what it lost does not round
/// to nothing. Sums have the rest as well.
bool IsWorthTelling(double lost_gpu_hours, Duration ran, const WasteRules& rules);

}  // namespace divvy::samples
