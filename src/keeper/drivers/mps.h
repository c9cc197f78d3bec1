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
  /// Receives the environment variables that make a process a client: memory limited to the share's request, compute to
  /// its limit. Receives kFailedPrecondition with the reason if there is no server.
  using Joined = std::function<void(const Result<std::vector<std::string>>&)>;

  /// `program`: path of nvidia-cuda-mps-control; empty if not installed. `directory`: for the servers' pipes and logs.
  /// `timeout`: timeout for one run of the program.
  MpsServers(EventLoop& loop, std::string program, std::string directory, Duration timeout = 30s)
      : loop_(loop), program_(std::move(program)), directory_(std::move(directory)), timeout_(timeout) {}
  ~MpsServers();
  MpsServers(const MpsServers&) = delete;
  MpsServers& operator=(const MpsServers&) = delete;

  /// Starts the GPU's server unless one runs, possibly started by an earlier keeper. Calls `joined` once, either
  /// immediately or from the loop.
  void Join(sharing::TenantId id, GpuIndex gpu, const std::string& uuid, const sharing::Share& share, Joined joined);
  /// Ends servers without remaining clients. A Join of this tenant that still waits fails with "the job is over".
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
