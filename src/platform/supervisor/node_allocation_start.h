// A gang's node allocation, from its preparation to its end.
//
// Its first process is a fork of the supervisor (internal-seat) that is started like any job's program: as the user, in
// the job's session, cgroup and mounts, named in the run record, and without the supervisor's descriptors. It is not
// executed, because exec and the initialisation of libraries cost more than everything else that a node allocation
// needs. The launcher ensures that no data of another user is in its memory. After it has changed user, the kernel does
// not let the job's user read its memory.
//
// It starts the job's step process, reports the port on which that listens for the other nodes, and waits. When all
// nodes are ready, it becomes the job's program on the first node. On the other nodes it stays with the step process
// and ends after it.
//
// It communicates with the supervising process through files in the user's own folder (platform/records/gang_files.h).
// Files allow daemon, launcher, supervisor and guard to be killed at any time, and make a repeated signal harmless.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/steps/gang_file.h"
#include "platform/records/gang_files.h"
#include "platform/supervisor/launch_request.h"
#include "platform/supervisor/supervisor_job.h"

namespace divvy {

/// Returns the program that the supervisor starts. It wraps `program`, whose argv is empty if none of the user's
/// programs is started on this node.
JobProgram NodeAllocationProgram(const LaunchAllocation& allocation, const std::string& steps, int stop_signal,
                                 JobProgram program);

/// Returns further NAME=value entries for the environment of the job's processes, now that all nodes are known. Called
/// as the user; may write files. Existing variables are not changed.
using AllocationEnvironment = std::function<std::vector<std::string>(const GangFile& gang, const std::string& steps)>;
/// Runs the first process of a node allocation. `words`: the arguments made by NodeAllocationProgram, from argv[0] on.
/// `steps`: the main function of the job's step process.
int RunNodeAllocation(const std::vector<std::string>& words, const AllocationEnvironment& surroundings,
                      const GangStepsMain& steps);

}  // namespace divvy
