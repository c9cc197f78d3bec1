// Inspects processes through /proc and signals all processes of a job at once.
//
// A job's processes are the descendants of its supervisor. The supervisor is a subreaper, so a process that forks twice
// and starts its own session stays below it. If the supervisor was killed, the job's processes are those that descend
// from the job's first process or share its session.
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
  char state = '?';  // As in ps; 'Z': has ended and waits to be reaped.
  int threads = 0;
  bool is_exiting = false;      // The process is exiting; its files may stay open for another moment.
  std::uint64_t cpu_ticks = 0;  // CPU time of all its threads.
  std::uint64_t start_ticks = 0;
  int exit_status = 0;  // As waitpid() returns it. Set only for 'Z'; 0 if we may not inspect the process.
};

/// Reads the state of a process from /proc. Returns nullopt if there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

/// Returns the pid and the start time of a process, which identify it even if pids are reused. The start time
/// (start_ticks) is 0 if there is no such process.
ProcessIdentity IdentifyProcess(pid_t pid);

/// True while exactly this process runs; false once it has ended, reaped or not.
bool IsAlive(const ProcessIdentity& process);

/// True if `pid` is our child, running or ended.
bool IsChild(pid_t pid);

/// The command name (/proc/PID/comm) of the process that starts a job's container and forwards signals to its engine.
inline constexpr char kContainerStarter[] = "divvy-container";

/// Returns the pids of all processes below `root`, ended ones that are not reaped included.
std::vector<pid_t> DescendantsOf(pid_t root);

/// Sends `signal` to every process below `root`, but not to `root` itself. Skips container engines unless the signal is
/// SIGKILL, SIGSTOP or SIGCONT, because the container's own processes get it. Returns how many processes it reached.
/// Makes one pass: a process that forks meanwhile needs another. Cost: reads each of these processes twice.
int SignalDescendants(pid_t root, int signal);
/// Signals all processes below `root` like SignalDescendants. Then sends SIGCONT to all of them, because a stopped
/// process cannot end by itself. A container engine gets SIGCONT only if it is stopped.
int EndDescendants(pid_t root, int signal);
/// Signals only tasks of steps and their descendants: the processes below a step process (kStepProcess). If there are
/// none and `spared` is set, signals all descendants of `root` except `spared` and step processes.
int SignalTasks(pid_t root, int signal, std::optional<pid_t> spared);

/// True if `pid` ignores the signal.
bool IgnoresSignal(pid_t pid, int signal);

/// Signals a job without a supervisor: `root`, its descendants and its session. `root` itself may have ended already.
int SignalOrphans(pid_t root, int signal);

/// Signals `first`, if it is alive, its descendants, and the processes left in its session. Skips processes that were
/// not started with `variable` ("NAME=value") in their environment, because the session number may have been reused.
int SignalLeftBehind(const ProcessIdentity& first, const std::string& variable, int signal);

/// Sends SIGSTOP to every process below `root`, repeatedly, until none of them runs any more.
void StopDescendants(pid_t root);

}  // namespace divvy
