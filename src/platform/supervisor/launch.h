// Starts jobs so that they outlive the daemon.
//
//   daemon --(stream socket)--> launcher --fork--> guard --fork--> supervisor of job 17 --vfork, exec--> the job
//     ^------------------------(datagrams: started, exited, detached)--------------'
//
// The daemon never forks: a large process forks slowly, and its children would be its own. It starts one small launcher
// (this same executable, LauncherMain), which starts one supervisor for every running job. A supervisor depends on no
// other process while it watches a job, so the daemon and the launcher may be killed at any time. After its job has
// ended, a supervisor takes the next one, because creating and ending a process costs more than everything else that a
// launch does here. The parent of each supervisor is its guard, which takes over if the supervisor is killed.
// docs/supervisor.md describes the life of a supervisor.
//
// A launch happens at most once: the run record is created exclusively, and only while the launcher that forwarded the
// job is alive. So a launch that was not confirmed may be repeated.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "model/job.h"
#include "platform/isolation/isolation.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_control.h"
#include "platform/users/directory_watch.h"
#include "platform/users/user_right.h"

namespace divvy {

/// This node's allocation of a gang. It is prepared and then waits for SendGo (node_allocation_start.h).
struct LaunchAllocation {
  std::string starter;     // Absolute path of this executable. Empty: the job runs on one node.
  std::uint32_t seat = 0;  // Index of the node allocation.
  std::string key;         // The job's key, by which its nodes authenticate each other: 64 hexadecimal digits.
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

struct LaunchFrame;  // An encoded request: launch_message.h.

/// Starts jobs. The real implementation is below; the simulator and tests have their own.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  /// Hands the job over. The result arrives as reports: kStarted and then kExited, or only kExited if the job could not
  /// be started (exit.failure says why). kDelayed comes before these if a directory is missing. kPrepared comes before
  /// kStarted for a node allocation of a gang.
  virtual Status Launch(const LaunchRequest& request) = 0;
  /// Call it for each report received, before the run record is removed: this launch need not be repeated.
  virtual void Confirm(JobId job, std::uint32_t attempt) = 0;
  /// True if this launcher launched it and it is not confirmed yet. Either a report will arrive, or the launch is
  /// repeated.
  virtual bool IsPending(JobId job, std::uint32_t attempt) const = 0;
  /// Removes the record of a finished run and the files that belong to it. Call it once the result is stored durably
  /// elsewhere. Keeps the record of a later attempt.
  virtual void RemoveRecord(const RunRecord& record) = 0;
  /// Repeats launches that were lost with the process that had them. Call it periodically.
  virtual void RepeatLost() = 0;
};

struct ProcessLauncherOptions {
  /// Absolute path. Created if absent (0711, because jobs read their scripts in it). Used by one daemon at a time.
  std::string run_directory;
  /// The command that runs LauncherMain(3).
  std::vector<std::string> command = {"/proc/self/exe", "internal-launcher", "3"};
  /// Socket of a launcher service with more rights than ours (platform/supervisor/launcher_service.h). Empty: we start
  /// our own launcher.
  std::string served_at;
};

/// Single-threaded. Blocks only in Start(), while an earlier launcher exits.
class ProcessLauncher final : public Launcher {
 public:
  /// Waits until the launcher of an earlier daemon has exited, then starts one. Call ScanRunDirectory after this.
  static Result<std::unique_ptr<ProcessLauncher>> Start(ProcessLauncherOptions options);
  /// The launcher exits; the supervisors keep running. An unconfirmed launch may or may not have happened; the run
  /// directory shows which.
  ~ProcessLauncher() override;

  Status Launch(const LaunchRequest& request) override;
  void Confirm(JobId job, std::uint32_t attempt) override;
  bool IsPending(JobId job, std::uint32_t attempt) const override { return unconfirmed_.contains({job, attempt}); }
  void RemoveRecord(const RunRecord& record) override;
  /// A launch is lost if the launcher or supervisor that had it is dead and no record shows that the job began.
  void RepeatLost() override;

  /// Poll it for reading always, and for writing while WantsWrite().
  int fd() const { return socket_.get(); }
  bool WantsWrite() const { return !to_send_.empty(); }
  void OnWritable() { Flush(); }
  /// Handles two cases. Either the launcher has died: then starts another one, and fd() changes. Or the launcher
  /// reports the death of a supervisor. Repeats lost launches in both cases.
  Status OnReadable();
  std::int64_t launcher_pid() const { return launcher_pid_; }
  /// Returns the launches that the launcher has refused since the last call, because the right to run jobs as that user
  /// is missing or was signed with another key.
  std::vector<std::pair<JobId, std::uint32_t>> TakeRefused() { return std::exchange(refused_, {}); }
  /// Opens the socket on which supervisors report; the caller closes it. With a launcher service it is a duplicate of
  /// the socket that the service sent at this connection.
  Result<int> OpenReports();

 private:
  using Key = std::pair<JobId, std::uint32_t>;

  explicit ProcessLauncher(ProcessLauncherOptions options) : options_(std::move(options)) {}
  /// An unconfirmed launch.
  struct Pending {
    std::shared_ptr<const LaunchFrame> frame;
    std::uint64_t sequence = 0;
    bool is_stranded = false;  // The process that had it is dead.
  };
  Status Spawn();
  Status Connect();
  void TakeReturned();
  void Flush();

  ProcessLauncherOptions options_;
  Descriptor socket_;
  Descriptor reports_;  // Received from a launcher service.
  std::int64_t launcher_pid_ = 0;
  std::map<Key, Pending> unconfirmed_;
  std::vector<Key> refused_;
  std::uint64_t last_sequence_ = 0;
  std::string returned_;  // Sequence numbers from the launcher; the last one may be incomplete.
  std::deque<std::shared_ptr<const LaunchFrame>> to_send_;
  std::size_t sent_of_first_ = 0;  // How many bytes of to_send_.front() were sent.
};

/// Runs the first process of a gang's node allocation from its start on (RunNodeAllocation); returns its exit code.
/// `words`: the arguments made by NodeAllocationProgram (node_allocation_start.h), from argv[0] on.
using AllocationEntry = std::function<int(const std::vector<std::string>& words)>;

/// The launcher's main function. Returns its exit code after the daemon has closed the other end of `socket_fd`. Call
/// it only in a process of its own, before any thread is started.
int LauncherMain(int socket_fd, AllocationEntry seat);

}  // namespace divvy
