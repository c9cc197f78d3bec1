// The jobs of Shockwave's traces (Zheng et al., NSDI 2023): each trains for a number of epochs on a fixed number of
// GPUs, and two of three modes change its batch size on the way, so that later epochs go faster than the first ones:
//   static     the batch size stays.
//   accordion  the largest batch size outside of the epochs that matter for the accuracy (Agarwal et al., MLSys 2021).
//   gns        doubles at epochs found by profiling (gradient noise scale; McCandlish et al., 2018).
// The epochs are those of the published simulator (uw-mad-dash/shockwave, scheduler/utils.py and scheduler.py), which
// has them twice, not quite alike: the profile, by which fairness is measured, keeps an accordion job's first 30 % of
// epochs at the small batch size and a gns job's last epoch at the first one; the jobs that it runs do neither.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "research/gavel_throughputs.h"

namespace divvy::research {

enum class BatchMode { kStatic, kAccordion, kGns };

struct ShockwaveJob {
  std::string family;  // "ResNet-18".
  int batch = 0;       // At the start.
  int gpus = 1;
  BatchMode mode = BatchMode::kStatic;
  double steps = 0;  // At the first batch size.
  double arrival_s = 0;
};

/// Reads "<n>jobs_*.trace.tsv", plain or gzip-packed; fails with the file and the line. Jobs come by arrival.
Result<std::vector<ShockwaveJob>> ReadShockwaveTrace(const std::string& path);

/// "ResNet-18 (batch size 64)" on its GPUs.
JobKind KindAt(const ShockwaveJob& job, int batch);

/// Samples of one epoch; 0: the family is not known.
int EpochSamples(const ShockwaveJob& job);
/// Whole steps of one epoch at `batch`.
double EpochSteps(const ShockwaveJob& job, int batch);
/// Epochs of the whole job.
int Epochs(const ShockwaveJob& job);

/// The batch size of each epoch as the profile has it.
std::vector<int> ProfiledBatches(const ShockwaveJob& job);
/// What a running job, now at `batch` in `epoch`, goes to next; `batch` itself: it stays.
int NextBatch(const ShockwaveJob& job, int batch, int epoch);

/// Seconds alone on its GPUs, each epoch as profiled. Fails when the throughputs lack one of its batch sizes on "v100".
Result<std::vector<double>> ProfiledEpochSeconds(const ShockwaveJob& job, const GavelThroughputs& throughputs);

}  // namespace divvy::research
