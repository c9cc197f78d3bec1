// NVIDIA's Multi-Process Service (MPS) for tenants that requested it. Each GPU has one server, started for its first
// client and ended after its last. MPS limits memory and the share of multiprocessors. It does not isolate faults and
// cannot save a process, so its tenants are neither moved nor parked.
//
// The control program needs up to seconds to start or end a server; the keeper's loop does not wait for it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "keeper/drivers/event_loop.h"
#include "model/gpus/gpu.h"
#include "platform/os/unique_fd.h"
#include "sharing/share.h"

namespace divvy::keeper {

class MpsServers {
 public:
  /// Callback of Join. It gets the environment variables that make a process a client of the GPU's MPS server, with
  /// memory limited to the share's request and compute to its limit. Or it gets kFailedPrecondition with the reason why
  /// there is no server.
  using Joined = std::function<void(const Result<std::vector<std::string>>&)>;

  /// `program`: path of nvidia-cuda-mps-control; empty if not installed. `directory`: where the servers keep their
  /// pipes and logs. `timeout`: the maximum time of one run of the program.
  MpsServers(EventLoop& loop, std::string program, std::string directory, Duration timeout = 30s)
      : loop_(loop), program_(std::move(program)), directory_(std::move(directory)), timeout_(timeout) {}
  ~MpsServers();
  MpsServers(const MpsServers&) = delete;
  MpsServers& operator=(const MpsServers&) = delete;

  /// Starts the GPU's MPS server for the tenant, unless one runs already, which an earlier keeper may have started.
  /// Calls `joined` once, either immediately or from the loop.
  void Join(sharing::TenantId id, GpuIndex gpu, const std::string& uuid, const sharing::Share& share, Joined joined);
  /// Removes the tenant from its MPS servers, and ends those that have no other tenant. If a Join of the tenant still
  /// waits, it fails with "the job is over".
  void Leave(sharing::TenantId id);

 private:
  enum class State { kDown, kStarting, kUp, kEnding };
  struct Waiting {
    sharing::TenantId id;
    sharing::Share share;
    Joined joined;
  };
  struct Server {
    State state = State::kDown;
    std::string uuid;
    std::set<sharing::TenantId> clients;
    std::vector<Waiting> waiting;
    // The control program, while it runs.
    pid_t pid = 0;
    Descriptor life;
    EventLoop::TimerId alarm;
  };

  std::string PipesOf(GpuIndex gpu) const;
  std::vector<std::string> EnvironmentOf(GpuIndex gpu, const sharing::Share& share) const;
  bool IsRunning(GpuIndex gpu) const;
  void Settle(GpuIndex gpu);
  Status Run(GpuIndex gpu, Server& server, bool is_start);
  void OnEnded(GpuIndex gpu);
  void Answer(GpuIndex gpu, const Status& status);

  EventLoop& loop_;
  std::string program_;
  std::string directory_;
  Duration timeout_;
  std::map<GpuIndex, Server> servers_;
};

/// Returns the path of the control program, or "" if it is not installed.
std::string FindMpsProgram();

}  // namespace divvy::keeper
