// NVIDIA's Multi-Process Service for GPUs whose tenants asked for it: one server for each GPU, started with its first
// and ended with its last. It bounds memory and the part of the multiprocessors, shares no faults out, and saves
// nothing: its tenants are neither moved nor parked.
//
// The control program starts and ends a server; that takes it up to seconds, and the keeper's loop waits for none of
// them.
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
#include "platform/os/launch_descriptor.h"
#include "sharing/share.h"

namespace divvy::keeper {

class MpsServers {
 public:
  /// The environment that a process needs to be a client, bounded by the share's limits; kFailedPrecondition and why
  /// there is no server.
  using Joined = std::function<void(const Result<std::vector<std::string>>&)>;

  /// `program`: nvidia-cuda-mps-control; empty: there is none. `directory`: where the pipes and logs of the servers go.
  /// `patience`: for one run of the program.
  MpsServers(EventLoop& loop, std::string program, std::string directory, Duration patience = 30s)
      : loop_(loop), program_(std::move(program)), directory_(std::move(directory)), patience_(patience) {}
  ~MpsServers();
  MpsServers(const MpsServers&) = delete;
  MpsServers& operator=(const MpsServers&) = delete;

  /// Starts the server of the GPU where there is none, of an earlier keeper either. `joined` is called once, at once or
  /// from the loop.
  void Join(sharing::TenantId id, GpuIndex gpu, const std::string& uuid, const sharing::Share& share, Joined joined);
  /// Ends the servers that nobody needs any more. Who still waits for one is told that the job is over.
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
  Duration patience_;
  std::map<GpuIndex, Server> servers_;
};

/// Where the program is; "" where it is not.
std::string FindMpsProgram();

}  // namespace divvy::keeper
