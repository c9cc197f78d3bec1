// Looking at processes through /proc, and signalling all of a job's at once.
//
// A job's processes are the descendants of its supervisor: it is a subreaper, so a process that forks twice and takes a
// session of its own stays below it. Where the supervisor has been killed they are what still descends from the job's
// first process or shares its session.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"

namespace divvy {

struct ProcessStat {
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';  // As ps shows it; 'Z' has ended and waits to be reaped.
  int threads = 0;
  bool is_exiting = false;  // Ends; its files may be open for another moment.
  std::uint64_t start_ticks = 0;
  int exit_status = 0;  // As waitpid() gives it; only for 'Z', and 0 where we may not look at the process.
};

/// Nothing when there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

/// Start ticks are 0 when there is no such process.
ProcessIdentity IdentifyProcess(pid_t pid);

/// True while the very process runs; false once it has ended, reaped or not.
bool IsAlive(const ProcessIdentity& process);

/// True if `pid` is a child of ours, ended or not.
bool IsChild(pid_t pid);

/// The name of the process that starts a job's container and passes signals on to its engine, as /proc/PID/comm has it.
inline constexpr char kContainerStarter[] = "divvy-container";

/// Sends `signal` to every process below `root`, not to `root` itself, nor to the engines of containers, unless it is
/// SIGKILL, SIGSTOP or SIGCONT: the container's own processes get it. Returns how many it reached. One pass: a process
/// that forks meanwhile needs another. Costs a look at each of them twice. `spared` is left out; its children
/// are not.
int SignalDescendants(pid_t root, int signal, pid_t spared = 0);
/// The same, and SIGCONT to all of them afterwards, to engines where they are paused: one that is cannot end by itself.
int EndDescendants(pid_t root, int signal);

/// True if `pid` has said that the signal is to do nothing.
bool IgnoresSignal(pid_t pid, int signal);

/// For a job without supervisor: `root`, its descendants and its session. `root` itself may have ended already.
int SignalOrphans(pid_t root, int signal);

/// To what `first` left in its session, and to itself where it lives; as long as they were started with `variable`
/// ("NAME=value") in their environment, for the session's number may be another's by now.
int SignalLeftBehind(const ProcessIdentity& first, const std::string& variable, int signal);

/// SIGSTOP to every process below `root`, again until a pass finds nobody that still runs.
void StopDescendants(pid_t root);

}  // namespace divvy
