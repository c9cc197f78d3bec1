// What a served machine's daemon, which is not root, has the launcher do: one message, one answer.
//
// Messages have a fixed layout and bounds, because the launcher believes nothing of what the daemon sends. What
// concerns a user's files is done by a child that has become that user, and only with the user's right
// (platform/users/user_right.h); what concerns a job is done by the job's own run record, which only root can have
// written.
#pragma once

#include <array>
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
#include "platform/gpu/use_probe.h"
#include "platform/isolation/isolation.h"
#include "platform/os/launch_descriptor.h"
#include "platform/supervisor/run_record.h"
#include "platform/users/user_right.h"

namespace divvy {

/// Whom something is done as, and the right to it.
struct UserWithRight {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  UserRight right = {};
};

/// Which processes of a job that has neither supervisor nor guard any more get a signal.
enum class OrphanReach : std::uint32_t {
  kTree,        // All that descend from its first process, and it.
  kFirst,       // The first process alone.
  kLeftBehind,  // What is left of its session when the first process has gone.
};

/// Programs of divvy's own that are started as a user.
enum class UserProgram : std::uint32_t {
  kDeliver,  // Takes a message's order on standard input (daemon/notify/deliver.h); argument: its limit in seconds.
  kContainerRemoval,  // Removes a job's containers; argument: the path of their list.
};

struct StartedProgram {
  std::int64_t pid = 0;
  Descriptor pidfd;  // Readable when it has ended. It is not our child.
};

struct ErrandHeader;

/// The daemon's side. From any thread; each call waits for its answer, for a minute at most, and connects anew where
/// the launcher has been started again. kUnreachable: there is no launcher; kTimedOut: a file system or a name service
/// hangs.
class RootErrands {
 public:
  /// `socket`: where the launcher listens for errands.
  explicit RootErrands(std::string socket) : socket_(std::move(socket)) {}

  Result<IsolationFacts> Isolation();
  /// For the user at the other end of this connection (CallerOf).
  Result<UserRight> RightOf(int connection);
  /// The right by name, for other machines, of a user whose right this is.
  Result<UserRight> RightByName(const UserWithRight& user);
  /// A user's file, for reading, with the user's rights. `error`: errno where it cannot be opened.
  Result<Descriptor> OpenLog(const UserWithRight& user, const std::string& path, int& error);
  Status WriteGpus(JobId job, GpuSet gpus);
  /// StageGo, and SayGo where `says` (supervisor_seat.h), for a part of a gang that runs here. `gang`: GangFileText.
  Status StageGang(const UserWithRight& user, JobId job, const std::string& gang, bool says);
  /// How many processes it reached.
  Result<int> SignalOrphans(JobId job, int signal, OrphanReach reach);
  /// The wait status of the first process of a job without supervisor and guard, in the moment between its end and its
  /// reaping; nothing at any other time.
  std::optional<int> ExitOf(JobId job);
  /// A command (SendCommandText) to a supervisor that takes them from root alone; kPermissionDenied where the record
  /// does not say that.
  Status Command(JobId job, std::string_view text, std::span<const int> fds);
  /// How often a job that runs was refused a device (JobCgroup::RefusedDevices).
  std::optional<std::int64_t> RefusedDevices(JobId job);
  /// It ends, with all that it has started, some seconds after its limit of time at the latest: a container removal's
  /// is a minute. GPUs are closed to it. Both where there are cgroups. `input`: its standard input and output; -1:
  /// none.
  Result<StartedProgram> Start(const UserWithRight& user, UserProgram program, const std::string& argument, int input);
  /// The keeper of shared GPUs. `is_emulated`: on the stand-in GPUs that root has described.
  Result<std::int64_t> StartKeeper(bool is_emulated);
  /// Of those that exist; 1,000 pids at most.
  std::vector<IoCounts> ReadIo(std::span<const std::int64_t> pids);

 private:
  struct Answer;
  Result<Answer> Ask(ErrandHeader header, std::string_view text = {}, std::span<const int> given = {});
  bool Send(const ErrandHeader& header, std::string_view text, std::span<const int> fds);

  std::string socket_;
  std::mutex mutex_;  // Of link_.
  Descriptor link_;
};

/// What the launcher does errands with.
struct ErrandSetup {
  std::string run_directory;
  std::string emulation;         // Folder of the stand-in GPUs' libraries; empty: the GPUs are real.
  std::int64_t daemon_uid = -1;  // Who may ask.
  std::int64_t daemon_gid = -1;
  std::int64_t lowest_uid = 1000;
  bool runs_root_jobs = false;
  std::string container_engine = "auto";  // [container] engine; removals run no other.
  /// The device files that are closed to users' programs outside of jobs, as glob(7) patterns; empty: none are.
  std::vector<std::string> closed_devices;
  std::string sendmail;  // With which the daemon's user sends mail; nothing else is started as that user.
  /// The public key of the launcher on the machine of this machine's controller, as root has stored it; empty: none.
  std::string controllers_key;
};

/// The launcher's side: takes one message off `link`, does it, or lets a child do it, and answers. False: the other end
/// is closed, or sends what is no errand. `issuer` signs, and is forgotten in every child; `checker` checks.
bool DoErrand(int link, const ErrandSetup& setup, RightIssuer& issuer, RightChecker& checker);

/// Whether jobs may run as this user at all: kPermissionDenied says why not and what root can do.
Status CheckUid(std::int64_t uid, std::int64_t lowest_uid, bool runs_root_jobs);

}  // namespace divvy
