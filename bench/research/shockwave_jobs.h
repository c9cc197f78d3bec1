// The jobs of Shockwave's traces (Zheng et al., NSDI 2023). Each job trains for a number of epochs on a fixed number of
// GPUs. Two of the three modes change its batch size on the way, so that later epochs are faster than the first ones:
//   static     the batch size stays the same.
//   accordion  the largest batch size, except in epochs that matter for the accuracy (Agarwal et al., MLSys 2021).
//   gns        doubles at epochs found by profiling (gradient noise scale; McCandlish et al., 2018).
// The epochs are those of the published simulator (uw-mad-dash/shockwave, scheduler/utils.py and scheduler.py). It
// defines them twice, with differences. The profile, by which fairness is measured, keeps an accordion job at the small
// batch size for its first 30 % of epochs, and a gns job's last epoch at the first size. The simulated jobs do neither.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "research/gavel_throughputs.h"

namespace divvy::research {

enum class BatchMode { kStatic, kAccordion, kGns };

struct ShockwaveJob {
  std::string family;  // For example "ResNet-18".
  int batch = 0;       // The initial batch size.
  int gpus = 1;
  BatchMode mode = BatchMode::kStatic;
  double steps = 0;  // In steps of the initial batch size.
  double arrival_s = 0;
};

/// Reads a "<n>jobs_*.trace.tsv" file, plain or gzip-compressed. Returns jobs sorted by arrival. Errors name the file
/// and the line.
Result<std::vector<ShockwaveJob>> ReadShockwaveTrace(const std::string& path);

/// Returns the job's model at batch size `batch` as the file of throughputs names it, such as "ResNet-18 (batch size
/// 64)", with the job's number of GPUs.
JobKind KindAt(const ShockwaveJob& job, int batch);

/// Returns the number of samples in one epoch; 0 if the family is unknown.
int EpochSamples(const ShockwaveJob& job);
/// Returns the number of whole steps in one epoch at `batch`.
double EpochSteps(const ShockwaveJob& job, int batch);
/// Returns the number of epochs of the whole job.
int Epochs(const ShockwaveJob& job);

/// Returns the batch size of each epoch according to the job's published profile, from the first epoch on.
std::vector<int> ProfiledBatches(const ShockwaveJob& job);
/// Returns the batch size that a job at `batch` in `epoch` changes to; `batch` itself if it stays.
int NextBatch(const ShockwaveJob& job, int batch, int epoch);

/// Returns the seconds that each epoch takes as profiled, alone on the job's GPUs. Fails if the throughputs lack one of
/// its batch sizes on "v100".
Result<std::vector<double>> ProfiledEpochSeconds(const ShockwaveJob& job, const GavelThroughputs& throughputs);

}  // namespace divvy::research
