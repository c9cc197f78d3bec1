// The SLURM_* variables of a started job, so that scripts written for Slurm find what they look for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job.h"
#include "model/job_record.h"

namespace divvy::dialect {

/// What every job of this dialect calls the cluster, and its one partition.
inline constexpr std::string_view kSlurmCluster = "divvy";
inline constexpr std::string_view kSlurmPartition = "main";

/// All machines of a job, in the order of its ranks.
struct SlurmNodes {
  std::vector<std::string> names;
  std::vector<int> tasks;  // On each.
  std::vector<int> cpus;   // On each.
  /// Of a heterogeneous job: which components are on each.
  std::vector<std::vector<SeatPart>> parts = {};
  std::size_t own = 0;  // Which of them this is.
};

/// NAME=value, sorted. `gpus` are the physical indices that the job holds here. The batch process is task 0 of the job.
/// `nodes`: of a job on several machines. Variables about an option appear only when it was given, as in Slurm:
/// programs take SLURM_NTASKS as a sign that srun started them. Source: sbatch's and srun's man pages, and what
/// Slurm 22.05 sets.
std::vector<std::string> SlurmEnvironment(const JobRecord& record, const JobSpec& spec, const std::vector<int>& gpus,
                                          std::string_view hostname, Time now, const SlurmNodes& nodes = {});

/// `environment` without what describes an outer job or allocation: SLURM_*, SLURMD_*, SRUN_*, PMI*; settings of the
/// user (SLURM_CONF, SQUEUE_FORMAT, SBATCH_*) stay.
std::vector<std::string> ScrubInherited(std::vector<std::string> environment);

}  // namespace divvy::dialect
