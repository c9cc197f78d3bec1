// Whether a run that is over wasted its GPUs, by what is kept of it as a whole, and what it should have asked for: the
// rules of samples/waste.h, held against all of it and not against its last hour.
#pragma once

#include <vector>

#include "samples/job_use.h"
#include "samples/waste.h"

namespace divvy::samples {

/// The most that it had on one of its GPUs, bytes; where that is not known, the mean of them.
double MemoryPeakOf(const JobUse& use, int gpus);

/// `use`: from the end of the grace after its start. Nothing: it used what it had, or less was seen of it than
/// rules.idle_after. The worst first.
std::vector<Waste> WasteOfRun(const WasteWatch::Shape& shape, const JobUse& use, const WasteRules& rules);

/// What a run that lasted so long lost is worth telling people: it outlived the grace, and what it lost does not round
/// to nothing. Sums have the rest as well.
bool IsWorthTelling(double lost_gpu_hours, Duration ran, const WasteRules& rules);

}  // namespace divvy::samples
