// Requests (errands) of a daemon that is not root to the launcher service: one message, one answer.
//
// Messages have a fixed layout and limits, because the launcher trusts nothing that the daemon sends. Work on a user's
// files is done by a child that has become that user, and only with the user's right (platform/users/user_right.h).
// Work on a job relies on the job's run record, which only root can have written.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "platform/gpu/use_target.h"
#include "platform/isolation/isolation.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/run_record.h"
#include "platform/users/read_log.h"
#include "platform/users/user_right.h"

namespace divvy {

/// The user as whom something is done, and the right to do so.
struct UserWithRight {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  UserRight right = {};
};

/// Selects which processes of a job without supervisor and guard get a signal.
enum class OrphanReach : std::uint32_t {
  kTree,        // The first process and all its descendants.
  kFirst,       // Only the first process.
  kLeftBehind,  // Processes left in its session after the first process has ended.
};

/// divvy's own programs that are started as a user.
enum class UserProgram : std::uint32_t {
  // Reads a message's order on standard input (daemon/notify/deliver.h); argument: its time limit in seconds.
  kDeliver,
  kContainerRemoval,  // Removes a job's containers; argument: the path of their list.
};

struct StartedProgram {
  std::int64_t pid = 0;
  Descriptor pidfd;  // Readable when it has ended. It is not our child.
};

struct ErrandHeader;

/// A user's file that the launcher is reading for the daemon. Destroying it ends the wait, not the read.
class LogRead {
 public:
  LogRead(Descriptor socket, std::int64_t at) : socket_(std::move(socket)), at_(at) {}

  /// Waits for the answer, at most until `until`, and returns what was read; nullopt: no answer yet. Call again only
  /// after nullopt.
  std::optional<LogPiece> Take(std::chrono::steady_clock::time_point until = {});

 private:
  Descriptor socket_;
  std::int64_t at_;
};

/// The daemon's side. Thread-safe. Each call waits for its answer for at most a minute, and reconnects if the launcher
/// was restarted. Errors: kUnreachable if there is no launcher; kTimedOut if a file system or a name service hangs.
class RootErrands {
 public:
  /// `socket`: the path on which the launcher listens for errands.
  explicit RootErrands(std::string socket) : socket_(std::move(socket)) {}

  Result<IsolationFacts> Isolation();
  /// Returns the right to run jobs as the user at the other end of this connection (see CallerOf): a signature of the
  /// launcher.
  Result<UserRight> RightOf(int connection);
  /// Returns the right to run jobs as this user on other machines, which know the user only by name. `user` must come
  /// with a valid right for this machine.
  Result<UserRight> RightByName(const UserWithRight& user);
  /// Has a piece of a user's file read, with the user's rights; only of a regular file. The launcher's child reads,
  /// because the user's file system may never answer, and no signal ends a process that waits for it.
  Result<LogRead> StartReadLog(const UserWithRight& user, const std::string& path, const LogRange& range);
  /// Does the same and waits for the answer. LogPiece::error: ETIMEDOUT after kLongestRead, or if earlier reads
  /// of this user hang; EACCES without a right or a launcher; EAGAIN if too many reads are under way; else errno of the
  /// read.
  LogPiece ReadLog(const UserWithRight& user, const std::string& path, const LogRange& range);
  static constexpr std::chrono::seconds kLongestRead{5};
  Status WriteGpus(JobId job, GpuSet gpus);
  /// Calls StageGo, and SayGo if `says` (platform/records/gang_files.h), for a gang's node allocation on this machine.
  /// `gang`: GangFileText.
  Status StageGang(const UserWithRight& user, JobId job, const std::string& gang, bool says);
  /// Signals a job whose supervisor and guard are gone. Returns how many processes the signal reached.
  Result<int> SignalOrphans(JobId job, int signal, OrphanReach reach);
  /// Returns the wait status of the first process of a job without supervisor and guard, between its end and its
  /// reaping; nullopt at any other time.
  std::optional<int> ExitOf(JobId job);
  /// Sends a command (SendCommandText) to a supervisor that accepts commands only from root. kPermissionDenied if the
  /// run record does not say that its supervisor is one of these.
  Status Command(JobId job, std::string_view text, std::span<const int> fds);
  /// Returns how often a running job was denied a device (JobCgroup::RefusedDevices).
  std::optional<std::int64_t> RefusedDevices(JobId job);
  /// Starts a program as the user. The program and all its descendants are ended some seconds after its time limit,
  /// which is one minute for a container removal. It cannot open GPUs. Both rules are enforced only if cgroups are
  /// available. `input`: its standard input and output; -1: none.
  Result<StartedProgram> Start(const UserWithRight& user, UserProgram program, const std::string& argument, int input);
  /// Starts the daemon of shared GPUs (the keeper). `is_emulated`: on the stand-in GPUs that root has described.
  Result<std::int64_t> StartKeeper(bool is_emulated);
  /// Returns the I/O counters of these processes, without processes that do not exist any more. At most 1,000 pids.
  std::vector<IoCounts> ReadIo(std::span<const std::int64_t> pids);

 private:
  friend class LogRead;
  struct Answer;
  static std::optional<Answer> Receive(int socket);
  /// Sends a request and returns the socket for its answer.
  Result<Descriptor> Begin(ErrandHeader header, std::string_view text, std::span<const int> given = {});
  Result<Answer> Ask(ErrandHeader header, std::string_view text = {}, std::span<const int> given = {});
  bool Send(const ErrandHeader& header, std::string_view text, std::span<const int> fds);

  std::string socket_;
  std::mutex mutex_;  // Guards link_.
  Descriptor link_;
};

/// The settings with which the launcher does errands.
struct ErrandSetup {
  std::string run_directory;
  std::string emulation;         // Folder of the stand-in GPUs' libraries; empty: the GPUs are real.
  std::int64_t daemon_uid = -1;  // The user that may send errands.
  std::int64_t daemon_gid = -1;
  std::int64_t lowest_uid = 1000;
  bool runs_root_jobs = false;
  std::string container_engine = "auto";  // [container] engine; removals use no other engine.
  /// Device files, as glob(7) patterns, that users' programs outside of jobs may not open; empty: none.
  std::vector<std::string> closed_devices;
  std::string sendmail;  // The mail program of the daemon's user; nothing else is started as that user.
  /// The public key of the launcher on the controller's machine, as root stored it; empty: none.
  std::string controllers_key;
};

/// The reads of users' files that have not ended yet. They are bounded for each user, because no signal ends a process
/// that waits for a file system.
class RunningReads {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  /// Returns 0 if another read for the user may start. EAGAIN: kMost have not ended. ETIMEDOUT: kMostStuck have been
  /// running for longer than kSlow.
  int Refuses(std::int64_t uid, SteadyTime now);
  /// `pid`: a child of this process that was started at `now`.
  void Add(std::int64_t uid, pid_t pid, SteadyTime now);

 private:
  static constexpr int kMost = 64;
  static constexpr int kMostStuck = 4;
  static constexpr std::chrono::seconds kSlow{5};
  struct One {
    std::int64_t uid = 0;
    Descriptor process;
    SteadyTime since;
  };
  std::vector<One> reads_;
};

/// The launcher's side: receives one message from `link`, does it (or lets a child do it) and answers. Returns false if
/// the peer closed the connection or sent an invalid message. `issuer` signs rights to run jobs as a user
/// (platform/users/user_right.h). Its key is wiped in every child, except in one that signs a right for other machines
/// (RightByName). `checker` checks the rights in messages.
/// `reads`: the reads that the launcher has started for all links.
bool DoErrand(int link, const ErrandSetup& setup, RightIssuer& issuer, RightChecker& checker, RunningReads& reads);

/// Checks whether jobs may run as this user at all. kPermissionDenied says why not and what root can do.
Status CheckUid(std::int64_t uid, std::int64_t lowest_uid, bool runs_root_jobs);

}  // namespace divvy
