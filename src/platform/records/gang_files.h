// The files through which a job's processes on one node know the job's other nodes. They are next to the list of the
// job's steps (DIVVY_STEPS, platform/records/step_list_file.h), in a folder that only the job's user can enter. Each
// belongs to the user and has mode 0600.
//
//   STEPS.key    the job's key, 64 hexadecimal digits: a peer that knows it is a node of this job. Written before
//                the step process is started; if it exists, the step process listens for other nodes.
//   STEPS.seat   written by the first process of the node: "port=N", or "failure=why".
//   STEPS.going  written by the daemon: all nodes of the job (model/steps/gang_file.h).
//   STEPS.go     the same file, renamed: the signal to start. Once it exists, the job's program may run.
//   STEPS.hosts  the nodes and their tasks for OpenMPI; STEPS.machines is the same for Hydra. STEPS.rsh is a link
//                to this executable: the command with which MPI starts its daemons on another node.
//
// The first process of the job on a node (as the job's user, in the job's cgroup and environment) uses them like this:
//   1. WriteGangKey(), StartGangSteps(): the step process listens; its port is sent to the other nodes.
//   2. When all nodes have prepared: WriteMpiFiles(). Then, on the first node only, it becomes the job's program.
//   3. RemoveStepList() (platform/records/step_list_file.h) removes them together with the list.
// If a step process dies, the next step on that node starts it again, at the port that STEPS.go names.
//
// The key is in a file and not in a descriptor, so that a step process can be restarted without the process that
// prepared the job. It is never on a command line or in an environment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/steps/gang_file.h"

namespace divvy {

inline std::string GangKeyPath(const std::string& steps) { return steps + ".key"; }
inline std::string GangFilePath(const std::string& steps) { return steps + ".go"; }

/// Writes the secret by which the nodes of a multi-node job (gang) recognise each other: 64 hexadecimal digits. Call it
/// with only the rights of the job's user, because the folder belongs to the user.
Status WriteGangKey(const std::string& steps, const std::string& key);
/// Reads the secret that WriteGangKey() wrote. Errors: kNotFound if the job has only one node; kCorruptData if the file
/// is not a valid key or other users may read it.
Result<std::string> ReadGangKey(const std::string& steps);

/// Writes the files with which MPI (OpenMPI or Hydra) starts its daemons on the job's other nodes: STEPS.hosts,
/// STEPS.machines and STEPS.rsh (see the top of this file). `divvy`: absolute path of the divvy executable, to which
/// STEPS.rsh links. Call it with only the rights of the job's user, because the folder belongs to the user.
Status WriteMpiFiles(const std::string& steps, const GangFile& gang, const std::string& divvy);
/// Reads the list of the gang's nodes. kNotFound: the file is not written yet.
Result<GangFile> ReadGangFile(const std::string& steps);

struct AllocationReport {
  std::uint16_t port = 0;
  std::string failure;  // Not empty: the node allocation has failed and ends.
};
/// Reads the report of this node's part of the gang: the port where it listens, or why it failed. Returns nullopt if
/// there is no report yet.
std::optional<AllocationReport> ReadAllocationReport(const std::string& steps);

/// Prepares the file that tells this node's part of the gang to start. `gang`: the text of GangFileText(). `uid`,
/// `gid`: the owner of the file, if this process may choose it.
Status StageGo(const std::string& steps, std::string_view gang, std::int64_t uid, std::int64_t gid);
/// Tells this node's part of the gang to start, by publishing the file that StageGo() prepared. Does nothing if that
/// was done already. Returns false if the file was not prepared.
bool SayGo(const std::string& steps);
/// Returns when SayGo() told this node's part of the gang to start, or nullopt if that has not happened.
std::optional<Time> WentAt(const std::string& steps);
/// Removes the gang's files on this node, when an attempt of the job is over or before a new one.
void RemoveAllocationFiles(const std::string& steps);

/// The main function of the step process. `words`: "--listen=HOST:PORT" ("0.0.0.0:0" is any port of every address),
/// "--stay" (it serves in this process; without it, in a child) and STEPS, the path of the job's list of steps. It
/// prints its TCP port and a line feed on standard output once it listens for local callers and for other nodes. On
/// failure it prints one line on standard error and returns 1.
using GangStepsMain = std::function<int(const std::vector<std::string>& words)>;

struct GangSteps {
  pid_t pid = -1;  // The step process. It runs until SIGTERM arrives and no step is left.
  std::uint16_t port = 0;
};
/// Starts the step process and waits, for at most `timeout`, until it listens. It runs as the job's user, in the job's
/// cgroup and session. It is a fork of this program without exec, because exec costs more than everything else here. It
/// becomes a child of this process's parent: this process will execute the job's program, which must have no child that
/// it does not know. On failure no process is left. Requires: one thread.
Result<GangSteps> StartGangSteps(const GangStepsMain& main, const std::string& steps, const std::string& listen,
                                 Duration timeout);

}  // namespace divvy
