// What the first process of a job on several machines finds in its environment about them: for scripts, for programs
// that start one process on each machine themselves, and for MPI, which finds machines and the way to them by it. A
// step's tasks get their own (ranks, cli/steps/step_plan.h) on top.
#pragma once

#include <string>
#include <vector>

#include "model/steps/gang_file.h"

namespace divvy {

/// NAME=value, without Slurm's names. `steps`: the job's DIVVY_STEPS on this machine.
std::vector<std::string> GangEnvironment(const GangFile& gang, const std::string& steps);

/// A port at the head for the tasks of a step to meet at: the same on all machines, most likely no other step's, below
/// the ports that the kernel gives out. 10000 to 29999.
int GangPort(std::uint64_t job, std::uint64_t step);

/// STEPS.hosts: "NAME slots=N", as OpenMPI reads it.
std::string OpenMpiHosts(const GangFile& gang);
/// STEPS.machines: "NAME:N", as Hydra reads it.
std::string HydraHosts(const GangFile& gang);

}  // namespace divvy
