// The driver's checkpoint calls on processes of tenants, made by processes of our own with CUDA initialised ("divvy
// keeper --checkpoint-helper"): starting CUDA takes seconds, and a call may hang or end the process that makes it. Up
// to kMostHelpers stand by; one that does not answer in time is killed, and the next call starts another.
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
#include "platform/os/launch_descriptor.h"

namespace divvy::keeper {

/// As the driver tells of a process; kGone: there is none, or it has never used CUDA.
enum class DriverState { kRunning, kLocked, kCheckpointed, kFailed, kGone };

struct DriverAbilities {
  bool can_checkpoint = false;  // R570
  bool can_map = false;         // R580: a process comes back on another GPU.
  std::string reason;           // Why it cannot.
};

class DriverHelpers {
 public:
  static constexpr std::size_t kMostHelpers = 4;

  /// `command`: starts a helper, which speaks on its standard input (CheckpointHelperMain). `place`: a file that the
  /// helpers hold as long as they live; those that an earlier keeper left there are at their last call still, and
  /// nothing is asked of the driver before they have ended. Empty: there were none.
  DriverHelpers(EventLoop& loop, std::vector<std::string> command, std::string place = "")
      : loop_(loop), command_(std::move(command)), place_(std::move(place)) {}
  ~DriverHelpers();

  using Ended = std::function<void(Status)>;
  /// Once, first. Calls `then` with what the driver can.
  void Probe(std::function<void(DriverAbilities)> then);
  /// Each of these calls `then` exactly once, later. An error says what the driver said, and names the process.
  void Ask(std::int64_t pid, std::function<void(Result<DriverState>)> then);
  /// Its work on the GPU is waited for; submitting more blocks from then on.
  void Lock(std::int64_t pid, Duration patience, Ended then);
  /// How long a call that moves so many bytes is waited for: twice as long as it takes on the slowest way.
  static Duration PatienceFor(std::uint64_t bytes);
  /// A locked one: its memory goes to the host, its GPUs are free of it. `bytes`: about so many, for how long to wait.
  void Checkpoint(std::int64_t pid, std::uint64_t bytes, Ended then);
  /// A checkpointed one, on the GPUs that `map` (old and new "GPU-...") says; it is locked then.
  void Restore(std::int64_t pid, const std::vector<std::pair<std::string, std::string>>& map, std::uint64_t bytes,
               Ended then);
  void Unlock(std::int64_t pid, Ended then);

  /// For tests: how many were started so far, and the ones there are.
  int started() const { return started_; }
  std::vector<pid_t> pids() const;

 private:
  struct Call {
    std::string line;
    std::int64_t pid = 0;
    Duration patience{0};
    std::function<void(Result<std::string>)> then;
  };
  struct Helper {
    Descriptor link;
    pid_t pid = 0;
    std::string read;
    std::unique_ptr<Call> call;  // That it is at.
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
  Descriptor held_;  // The place, locked: helpers have it as their standard output, and so keep the lock.
  Time waits_since_ = kNoTime;
  bool is_waiting_for_place_ = false;
  std::deque<Call> waiting_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  int started_ = 0;
};

/// `library`: a stand-in for libcuda.so.1; empty: the driver's own.
std::vector<std::string> CheckpointHelperCommand(const std::string& library);
/// The process itself: lines on `fd`, one answer each ("ok VALUE" or "error TEXT"), until the other end closes.
int CheckpointHelperMain(int fd, const std::string& library);

}  // namespace divvy::keeper
