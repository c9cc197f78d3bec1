// How jobs are started so that they outlive the daemon.
//
//   daemon --(stream socket)--> launcher --fork--> guard --fork--> supervisor of job 17 --vfork, exec--> the job
//     ^------------------------(datagrams: started, exited, detached)--------------'
//
// The daemon never forks: a large process forks slowly, and its children would be its own. It starts one small launcher
// (this same executable, LauncherMain) which has one supervisor for every running job: a process that belongs to nobody
// while it watches, so that the daemon and the launcher may be killed at any time. A supervisor whose job has ended
// takes the next one, because making and tearing down a process costs more than all else that a launch does here. Above
// each stands its guard, which takes over when the supervisor is killed.
// docs/supervisor.md tells a supervisor's life.
//
// A launch happens at most once: the run record is made exclusively, and only while the launcher that passed the job on
// lives. So a launch that nobody has confirmed may be repeated.
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
#include "platform/os/launch_descriptor.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_control.h"
#include "platform/users/directory_watch.h"
#include "platform/users/user_right.h"

namespace divvy {

/// Of a job on several machines: this machine's part. It is prepared, and waits for SendGo (supervisor_seat.h).
struct LaunchSeat {
  std::string starter;                            // This executable, absolute. Empty: the job is on one machine.
  std::uint32_t seat = 0;                         // Which part.
  std::string key;                                // By which the parts know each other: 64 hexadecimal digits.
  Duration go_within = std::chrono::minutes(10);  // Then it gives up.

  bool is_set() const { return !starter.empty(); }
};

/// Everything a supervisor has to know. Exactly one of `argv` and `script` is not empty; in a part
/// where nothing of the user's is to be started neither is.
struct LaunchRequest {
  JobId job;
  std::uint32_t attempt = 0;  // Grows with each launch of the same job.
  std::vector<std::string> argv;
  std::string script;                    // The text; run by its "#!" line, else by /bin/sh.
  std::string script_name;               // For $0 and for errors: "train.sh". Empty: "script".
  std::vector<std::string> arguments;    // After the script.
  std::vector<std::string> environment;  // All of it, NAME=value; PATH in it finds argv[0].
  std::string directory;                 // Empty: "/".
  int umask = 022;
  std::map<std::string, std::int64_t> limits;  // "nofile": soft, cut at the user's hard one; -1: unlimited.
  std::string input;                           // Empty: /dev/null. Relative paths start at `directory`.
  std::string output;                          // Empty: /dev/null.
  std::string error;                           // Empty: joins the output.
  bool appends_output = false;                 // Else output and error are emptied.
  /// `output` is a log that divvy keeps, in a folder that the user may not be able to enter: it is made by the
  /// supervisor with divvy's rights and given to the user (0600). Else every file is opened with the user's rights.
  bool is_own_log = false;
  std::int64_t uid = -1;  // -1: the daemon's own. Only root can choose.
  std::int64_t gid = -1;
  UserRight right = {};  // To run jobs as that user, where the daemon is not root.
  /// The job gets a terminal of its own; what it prints goes to `output` as well. Then streams[0] and streams[1],
  /// where set, are the first client attached to it.
  bool wants_pty = false;
  WindowSize window;
  /// Standard input, output and error of a foreground job, in place of files; -1: none. Owned by the caller, who may
  /// close them when Launch() has returned.
  std::array<int, 3> streams = {-1, -1, -1};
  /// What the supervisor of a foreground job holds whose outputs an agent reads (HeldOutputs): the ends that are read,
  /// of output and error, and the other end of what closes with the agent. All or none, owned as `streams` are.
  std::array<int, 3> held = {-1, -1, -1};
  std::string held_log;    // Where those outputs go when the agent is gone.
  Duration time_limit{0};  // 0: none.
  Time started = kNoTime;  // The time limit counts from here; kNoTime: from the real start.
  WarnSignal warn;
  int stop_signal = 15;                       // At the time limit, and for what the first process leaves behind.
  Duration grace = std::chrono::seconds(30);  // From the stop signal to SIGKILL.
  Duration leftover_grace = std::chrono::seconds(2);  // The same for what the first process leaves behind.
  /// How long the start waits for directories of its files that do not exist yet: a client may make them a moment after
  /// it has submitted the job.
  Duration directory_patience = kDirectoryPatience;
  Bytes memory_limit;  // 0: none. Enforced where CanEnforceMemory().
  JobIsolation isolation;
  LeasePlace lease;
  LaunchSeat gang;
  /// One line that the run record keeps as it is: who the job belongs to and what it has, for a daemon that finds the
  /// record and does not know the job.
  std::string about;
};

struct LaunchFrame;  // A request on its way: launch_message.h.

/// Starts jobs. The real one is below; the simulator and tests have their own.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  /// Hands the job over. What comes of it arrives as reports: kStarted then kExited, or only kExited when it could
  /// not be started (exit.failure says why); kDelayed before both, where a directory is missing; kPrepared before
  /// kStarted where it is a part of a gang.
  virtual Status Launch(const LaunchRequest& request) = 0;
  /// To be called for each report received, and before its run record is removed: this launch need not be repeated.
  virtual void Confirm(JobId job, std::uint32_t attempt) = 0;
  /// Launched by this launcher and not confirmed: it comes to a report, or is repeated.
  virtual bool IsPending(JobId job, std::uint32_t attempt) const = 0;
  /// Removes the record of a run that is over, and what belongs to it, once that is durable elsewhere; a record of a
  /// later attempt stays.
  virtual void RemoveRecord(const RunRecord& record) = 0;
  /// To be called now and then: repeats the launches that got lost with whoever had them.
  virtual void RepeatLost() = 0;
};

struct ProcessLauncherOptions {
  /// Absolute. Made if absent (0711: jobs read their scripts in it). One daemon at a time.
  std::string run_directory;
  /// What runs LauncherMain(3).
  std::vector<std::string> command = {"/proc/self/exe", "internal-launcher", "3"};
  /// Where a launcher with more rights than ours serves (platform/supervisor/launcher_service.h); empty: we start our
  /// own.
  std::string served_at;
};

/// Used by one thread. Never blocks but in Start(), for the milliseconds in which an earlier launcher leaves.
class ProcessLauncher final : public Launcher {
 public:
  /// Waits until the launcher of an earlier daemon has gone, then starts one. ScanRunDirectory comes after this.
  static Result<std::unique_ptr<ProcessLauncher>> Start(ProcessLauncherOptions options);
  /// The launcher leaves, supervisors live on. A launch that was not confirmed may not have happened: the run
  /// directory says which.
  ~ProcessLauncher() override;

  Status Launch(const LaunchRequest& request) override;
  void Confirm(JobId job, std::uint32_t attempt) override;
  bool IsPending(JobId job, std::uint32_t attempt) const override { return unconfirmed_.contains({job, attempt}); }
  void RemoveRecord(const RunRecord& record) override;
  /// One is lost when the launcher or the supervisor that had it is dead and no record says that it began.
  void RepeatLost() override;

  /// To be watched for reading always, and for writing while WantsWrite().
  int fd() const { return socket_.get(); }
  bool WantsWrite() const { return !to_send_.empty(); }
  void OnWritable() { Flush(); }
  /// Readable means that the launcher has died, and then starts another (fd() is a new one afterwards), or that it
  /// says of a supervisor that it has. Repeats what got lost.
  Status OnReadable();
  std::int64_t launcher_pid() const { return launcher_pid_; }
  /// Launches that the launcher has refused since the last call: the right to run jobs as their users is missing or of
  /// another key.
  std::vector<std::pair<JobId, std::uint32_t>> TakeRefused() { return std::exchange(refused_, {}); }
  /// Where supervisors report. The caller closes it. Of a launcher that serves us: opened by it, each time anew.
  Result<int> OpenReports();

 private:
  using Key = std::pair<JobId, std::uint32_t>;

  explicit ProcessLauncher(ProcessLauncherOptions options) : options_(std::move(options)) {}
  /// A launch that nobody has confirmed.
  struct Pending {
    std::shared_ptr<const LaunchFrame> frame;
    std::uint64_t sequence = 0;
    bool is_stranded = false;  // Whoever had it is dead.
  };
  Status Spawn();
  Status Connect();
  void TakeReturned();
  void Flush();

  ProcessLauncherOptions options_;
  Descriptor socket_;
  Descriptor reports_;  // Of a launcher that serves us.
  std::int64_t launcher_pid_ = 0;
  std::map<Key, Pending> unconfirmed_;
  std::vector<Key> refused_;
  std::uint64_t last_sequence_ = 0;
  std::string returned_;  // Sequence numbers from the launcher, the last one perhaps in part.
  std::deque<std::shared_ptr<const LaunchFrame>> to_send_;
  std::size_t sent_of_first_ = 0;  // Bytes of to_send_.front() that are on their way.
};

/// The first process of a part of a job on several machines, from its start on (RunSeat); returns its exit code.
/// `words`: as SeatProgram has them (supervisor_seat.h), from argv[0] on.
using SeatEntry = std::function<int(const std::vector<std::string>& words)>;

/// The launcher's whole life; returns its exit code when the daemon has closed the other end of `socket_fd`. Only in
/// a process of its own, before any thread is started.
int LauncherMain(int socket_fd, SeatEntry seat);

}  // namespace divvy
