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
// It communicates with the supervising process through files next to the list of the job's steps, in the user's own
// folder:
//
//   STEPS.seat   written by the first process: "port=N", or "failure=why".
//   STEPS.going  written by the daemon: all nodes of the job (model/steps/gang_file.h).
//   STEPS.go     the same file, renamed: the signal to start. Once it exists, the job's program may run.
//
// Files allow daemon, launcher, supervisor and guard to be killed at any time, and make a repeated signal harmless.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/steps/gang_file.h"
#include "platform/records/gang_files.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/supervisor_job.h"

namespace divvy {

/// The descriptor from which the first process of a node allocation reads the job's key, up to the end of file. It
/// closes the descriptor when it has written its report.
constexpr int kAllocationKeyDescriptor = 3;

/// Returns the program that the supervisor starts. It wraps `program`, whose argv is empty if none of the user's
/// programs is started on this node.
JobProgram NodeAllocationProgram(const LaunchAllocation& seat, const std::string& steps, int stop_signal,
                                 JobProgram program);

struct AllocationReport {
  std::uint16_t port = 0;
  std::string failure;  // Not empty: the node allocation has failed and ends.
};
/// Returns nullopt if there is no report yet.
std::optional<AllocationReport> ReadAllocationReport(const std::string& steps);

/// Prepares the signal to start. `gang`: GangFileText(). `uid`, `gid`: the file's owner, if we may choose it.
Status StageGo(const std::string& steps, std::string_view gang, std::int64_t uid, std::int64_t gid);
/// Sends the signal to start. Does nothing if it was sent already. Returns false if it was not prepared.
bool SayGo(const std::string& steps);
/// Returns when the signal was sent, or nullopt if it was not.
std::optional<Time> WentAt(const std::string& steps);
/// Removes the files of an earlier attempt, or of one that is over.
void RemoveAllocationFiles(const std::string& steps);

/// Returns further NAME=value entries for the environment of the job's processes, now that all nodes are known. Called
/// as the user; may write files. Existing variables are not changed.
using AllocationEnvironment = std::function<std::vector<std::string>(const GangFile& gang, const std::string& steps)>;
/// Runs the first process of a node allocation. `words`: the arguments made by NodeAllocationProgram, from argv[0] on.
/// `steps`: the main function of the job's step process.
int RunNodeAllocation(const std::vector<std::string>& words, const AllocationEnvironment& surroundings,
                      const GangStepsMain& steps);

}  // namespace divvy
