// A launch: a job, or this node's part of one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "model/job.h"
#include "platform/isolation/isolation.h"
#include "platform/os/pty.h"
#include "platform/supervisor/run_record.h"
#include "platform/users/directory_watch.h"
#include "platform/users/user_right.h"

namespace divvy {

/// This node's allocation of a gang. It is prepared and then waits for SendGo (node_allocation_start.h).
struct LaunchAllocation {
  std::string starter;      // Absolute path of this executable. Empty: the job runs on one node.
  std::uint32_t index = 0;  // Index of the node allocation.
  std::string key;          // The job's key, by which its nodes authenticate each other: 64 hexadecimal digits.
  Duration go_within = std::chrono::minutes(10);  // Fails if SendGo does not arrive in time.

  bool is_set() const { return !starter.empty(); }
};

/// All that a supervisor needs. Exactly one of `argv` and `script` is not empty. In a node allocation that starts none
/// of the user's programs both are empty.
struct LaunchRequest {
  JobId job;
  std::uint32_t attempt = 0;  // Increases with each launch of the same job.
  std::vector<std::string> argv;
  std::string script;                    // The script's text; run by its "#!" line, else by /bin/sh.
  std::string script_name;               // Used as $0 and in errors, such as "train.sh". Empty: "script".
  std::vector<std::string> arguments;    // Arguments of the script.
  std::vector<std::string> environment;  // The complete environment, NAME=value; its PATH finds argv[0].
  std::string directory;                 // Empty: "/".
  int umask = 022;
  // Soft limits by name, such as "nofile", cut to the user's hard limits; -1: unlimited.
  std::map<std::string, std::int64_t> limits;
  std::string input;            // Empty: /dev/null. Relative paths start at `directory`.
  std::string output;           // Empty: /dev/null.
  std::string error;            // Empty: the same as the output.
  bool appends_output = false;  // If false, output and error are truncated.
  /// `output` is a log that divvy keeps, in a folder that the user may not be able to enter. The supervisor creates it
  /// with divvy's rights and gives it to the user (0600). If false, every file is opened with the user's rights.
  bool is_own_log = false;
  std::int64_t uid = -1;  // -1: the daemon's own. Only root can choose another.
  std::int64_t gid = -1;
  UserRight right = {};  // The right to run jobs as that user, if the daemon is not root.
  /// The job gets its own terminal, and its output also goes to `output`. If streams[0] and streams[1] are set, they
  /// are the first client attached to the terminal.
  bool wants_pty = false;
  WindowSize window;
  /// Standard input, output and error of a foreground job, instead of files; -1: none. The caller owns them and may
  /// close them when Launch() has returned.
  std::array<int, 3> streams = {-1, -1, -1};
  /// Descriptors that the supervisor of a foreground job keeps if an agent reads the job's outputs (HeldOutputs). They
  /// are the read ends of output and error, and the other end of a stream that closes with the agent. All are set or
  /// none; owned like `streams`.
  std::array<int, 3> held = {-1, -1, -1};
  std::string held_log;    // The file that gets these outputs when the agent is gone.
  Duration time_limit{0};  // 0: no limit.
  Time started = kNoTime;  // Start of the time limit; kNoTime: the actual start.
  WarnSignal warn;
  /// A batch script of Slurm's. Unless the warning is for the script itself, it goes to the tasks of its steps; and a
  /// line in its errors reports that the time limit ended it.
  bool is_slurm_script = false;
  int stop_signal = 15;                       // Sent at the time limit, and to processes that outlive the first one.
  Duration grace = std::chrono::seconds(30);  // From the stop signal to SIGKILL.
  Duration leftover_grace = std::chrono::seconds(2);  // The same for processes that outlive the first one.
  /// How long the start waits for missing directories of the job's files: a client may create them a moment after it
  /// has submitted the job.
  Duration directory_timeout = kDirectoryTimeout;
  Bytes memory_limit;  // 0: no limit. Enforced if CanEnforceMemory().
  JobIsolation isolation;
  LeasePlace lease;
  LaunchAllocation gang;
  /// One line that the run record stores unchanged: the job's owner and resources, for a daemon that finds the record
  /// and does not know the job.
  std::string about;
};

/// Runs the first process of a gang's node allocation from its start on (RunNodeAllocation); returns its exit code.
/// `words`: the arguments made by NodeAllocationProgram (node_allocation_start.h), from argv[0] on.
using AllocationEntry = std::function<int(const std::vector<std::string>& words)>;

}  // namespace divvy
