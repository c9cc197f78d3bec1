// Starts jobs so that they outlive the daemon.
//
//   daemon --(stream socket)--> launcher --fork--> guard --fork--> supervisor of job 17 --vfork, exec--> the job
//     ^------------------------(datagrams: started, exited, detached)--------------'
//
// The daemon never forks: a large process forks slowly, and its children would be its own. It starts one small launcher
// (this same executable, LauncherMain in launcher.h), which starts one supervisor for every running job. A supervisor
// depends on no other process while it watches a job, so the daemon and the launcher may be killed at any time. After
// its job has ended, a supervisor takes the next one, because creating and ending a process costs more than everything
// else that a launch does here. The parent of each supervisor is its guard, which takes over if the supervisor is
// killed. docs/supervisor.md describes the life of a supervisor.
//
// A launch happens at most once: the run record is created exclusively, and only while the launcher that forwarded the
// job is alive. So a launch that was not confirmed may be repeated.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/launch_request.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_control.h"  // Launches are answered by its reports.

namespace divvy {

struct LaunchFrame;  // An encoded request: launch_message.h.

/// Starts jobs. The real implementation is below; the simulator and tests have their own.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  /// Hands a job to the launcher, which starts it. The result arrives as reports: kStarted and then kExited, or only
  /// kExited if the job could not be started (exit.failure says why). kDelayed comes before these if a directory is
  /// missing. kPrepared comes before kStarted for a node allocation of a gang.
  virtual Status Launch(const LaunchRequest& request) = 0;
  /// Call this for each received report, before the run record is removed. It says that this launch has happened and
  /// need not be repeated.
  virtual void Confirm(JobId job, std::uint32_t attempt) = 0;
  /// True if this launcher was told to launch this attempt of the job, and no report has confirmed that yet. Either a
  /// report will arrive, or the launch is repeated.
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
  /// Ends the launcher; the supervisors of the jobs keep running. A launch that was not confirmed may or may not have
  /// happened; the run directory shows which.
  ~ProcessLauncher() override;

  Status Launch(const LaunchRequest& request) override;
  void Confirm(JobId job, std::uint32_t attempt) override;
  bool IsPending(JobId job, std::uint32_t attempt) const override { return unconfirmed_.contains({job, attempt}); }
  void RemoveRecord(const RunRecord& record) override;
  /// Repeats lost launches. A launch is lost if the launcher or supervisor that had it is dead and no run record shows
  /// that the job began.
  void RepeatLost() override;

  /// The socket to the launcher. Poll it for reading always, and for writing while WantsWrite() returns true.
  int fd() const { return socket_.get(); }
  bool WantsWrite() const { return !to_send_.empty(); }
  void OnWritable() { Flush(); }
  /// Call this when fd() is readable. There are two cases. If the launcher has died, starts another one, and fd()
  /// changes. Otherwise the launcher reports that a supervisor has died. Repeats lost launches in both cases.
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

}  // namespace divvy
