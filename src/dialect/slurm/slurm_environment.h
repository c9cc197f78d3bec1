// The SLURM_* variables of a started job, for scripts written for Slurm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job.h"
#include "model/job_record.h"

namespace divvy::dialect {

/// The names of the cluster and of its default partition, as Slurm's commands and variables show them.
inline constexpr std::string_view kSlurmCluster = "divvy";
inline constexpr std::string_view kSlurmPartition = "main";

/// All nodes of a job, in rank order.
struct SlurmNodes {
  std::vector<std::string> names;
  std::vector<int> tasks;  // Tasks on each node.
  std::vector<int> cpus;   // CPUs on each node.
  /// For a heterogeneous job: the components on each node.
  std::vector<std::vector<ComponentAllocation>> parts = {};
  std::size_t own = 0;  // Index of this node.
};

/// NAME=value, sorted. `gpus`: physical indices of the job's GPUs on this node. The batch process is task 0 of the job.
/// `nodes`: for a job on several nodes. As in Slurm, variables for options are set only if the option was given,
/// because programs take SLURM_NTASKS as a sign that srun started them. Source: man pages of sbatch and srun, and the
/// behaviour of Slurm 22.05.
std::vector<std::string> SlurmEnvironment(const JobRecord& record, const JobSpec& spec, const std::vector<int>& gpus,
                                          std::string_view hostname, Time now, const SlurmNodes& nodes = {});

/// Removes variables that describe an outer job or allocation: SLURM_*, SLURMD_*, SRUN_*, PMI*. Keeps the user's
/// settings (SLURM_CONF, SQUEUE_FORMAT, SBATCH_*).
std::vector<std::string> ScrubInherited(std::vector<std::string> environment);

}  // namespace divvy::dialect
