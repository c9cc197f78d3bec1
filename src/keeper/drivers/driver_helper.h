// Runs the driver's checkpoint calls on tenants' processes in separate helper processes ("divvy keeper
// --checkpoint-helper"). Helpers keep CUDA initialised, because starting CUDA takes seconds. A call may also hang or
// crash the process that makes it. Up to kMostHelpers helpers run. One that does not answer in time is killed, and the
// next call starts another.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "keeper/drivers/event_loop.h"
#include "platform/os/unique_fd.h"

namespace divvy::keeper {

/// The state of a process in the driver's checkpoint API. kGone: it has ended, or has never used CUDA.
enum class DriverState { kRunning, kLocked, kCheckpointed, kFailed, kGone };

struct DriverAbilities {
  bool can_checkpoint = false;  // From driver R570 on.
  bool can_map = false;         // From driver R580 on: can restore a process on another GPU.
  std::string reason;           // Why a capability is missing.
};

class DriverHelpers {
 public:
  static constexpr std::size_t kMostHelpers = 4;

  /// `command` starts a helper process, which makes the driver calls and is connected by its standard input
  /// (CheckpointHelperMain). `place` is a file that helpers keep locked while they live. Helpers that an earlier keeper
  /// started may still be in their last driver call, so no new call starts before they have ended. An empty `place`
  /// skips this wait.
  DriverHelpers(EventLoop& loop, std::vector<std::string> command, std::string place = "")
      : loop_(loop), command_(std::move(command)), place_(std::move(place)) {}
  ~DriverHelpers();

  using Ended = std::function<void(Status)>;
  /// Call this once, before anything else. Passes the driver's capabilities to `then`.
  void Probe(std::function<void(DriverAbilities)> then);
  /// Queries the checkpoint state of a process. This and the following functions return at once, and call `then`
  /// exactly once later. An error has the driver's message and the pid.
  void Ask(std::int64_t pid, std::function<void(Result<DriverState>)> then);
  /// Locks a process for a checkpoint: waits until its work on the GPU is done; from then on, calls of the process that
  /// submit work block.
  void Lock(std::int64_t pid, Duration timeout, Ended then);
  /// Returns the timeout for a call that moves this many bytes: twice the time that the slowest link needs.
  static Duration TimeoutFor(std::uint64_t bytes);
  /// Moves the memory of a locked process to the host and frees its GPUs. `bytes` estimates the amount, for the
  /// timeout.
  void Checkpoint(std::int64_t pid, std::uint64_t bytes, Ended then);
  /// Copies the memory of a checkpointed process back to GPUs; the process is locked afterwards. `map`: pairs of the
  /// UUIDs ("GPU-...") of an old GPU and the one that replaces it. `bytes` estimates the amount, for the timeout.
  void Restore(std::int64_t pid, const std::vector<std::pair<std::string, std::string>>& map, std::uint64_t bytes,
               Ended then);
  void Unlock(std::int64_t pid, Ended then);

  /// For tests: the number of helpers started so far, and the pids of the running ones.
  int started() const { return started_; }
  std::vector<pid_t> pids() const;

 private:
  struct Call {
    std::string line;
    std::int64_t pid = 0;
    Duration timeout{0};
    std::function<void(Result<std::string>)> then;
  };
  struct Helper {
    Descriptor link;
    pid_t pid = 0;
    std::string read;
    std::unique_ptr<Call> call;  // The call in progress, if any.
    EventLoop::TimerId alarm;
  };
  void Make(Call call);
  bool HasPlace();
  void Next();
  Status StartOne();
  void OnReadable(Helper& helper);
  void End(Helper& helper, const std::string& why);
  void Answer(Helper& helper, Result<std::string> answer);

  EventLoop& loop_;
  std::vector<std::string> command_;
  std::string place_;
  Descriptor held_;  // The lock file, locked. Helpers inherit it as standard output and so keep the lock.
  Time waits_since_ = kNoTime;
  bool is_waiting_for_place_ = false;
  std::deque<Call> waiting_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  int started_ = 0;
};

/// Returns the command line of a helper process. `library`: the path of a stand-in for libcuda.so.1; empty: the
/// driver's own library.
std::vector<std::string> CheckpointHelperCommand(const std::string& library);
/// Entry point of the helper process. Reads one driver call per line from the socket `fd` and answers each with "ok
/// VALUE" or "error TEXT", until the keeper closes it.
int CheckpointHelperMain(int fd, const std::string& library);

}  // namespace divvy::keeper
