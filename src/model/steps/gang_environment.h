// The environment of the first process of a job on several nodes, which describes these nodes. It serves scripts,
// programs that start one process on each node themselves, and MPI, which uses it to reach the nodes. The tasks of a
// step get further variables (ranks, cli/steps/step_plan.h).
#pragma once

#include <string>
#include <vector>

#include "model/steps/gang_file.h"

namespace divvy {

/// Returns the variables (NAME=value) that describe the nodes of a job to its processes, without those that Slurm sets.
/// `steps`: the path of the job's list of steps on this node, as in DIVVY_STEPS.
std::vector<std::string> GangEnvironment(const GangFile& gang, const std::string& steps);

/// A port on the first node where the tasks of a step can rendezvous. It is the same on all nodes, and most likely
/// different from those of other steps. The range 10000 to 29999 is below the kernel's ephemeral ports.
int GangPort(std::uint64_t job, std::uint64_t step);

/// Returns the hosts file for OpenMPI: a line "NAME slots=N" for each node, where N is the number of tasks.
std::string OpenMpiHosts(const GangFile& gang);
/// Returns the hosts file for Hydra (MPICH, Intel MPI): a line "NAME:N" for each node, where N is the number of tasks.
std::string HydraHosts(const GangFile& gang);

}  // namespace divvy
