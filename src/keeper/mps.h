// NVIDIA's Multi-Process Service for GPUs whose tenants asked for it: one server for each GPU, started with its first
// and ended with its last. It bounds memory and the part of the multiprocessors, shares no faults out, and saves
// nothing: its tenants are neither moved nor parked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/gpu.h"
#include "sharing/share.h"

namespace divvy::keeper {

class MpsServers {
 public:
  /// `program`: nvidia-cuda-mps-control; empty: there is none. `directory`: where the pipes and logs of the servers go.
  MpsServers(std::string program, std::string directory)
      : program_(std::move(program)), directory_(std::move(directory)) {}

  /// Starts the server of the GPU where there is none. The environment that a process needs to be its client, bounded
  /// by the share's limits. Fails with kFailedPrecondition and the reason.
  Result<std::vector<std::string>> Join(sharing::TenantId id, GpuIndex gpu, const std::string& uuid,
                                        const sharing::Share& share);
  /// Ends the servers that nobody needs any more.
  void Leave(sharing::TenantId id);

 private:
  std::string PipesOf(GpuIndex gpu) const;
  Status Command(GpuIndex gpu, const std::string& uuid, bool is_start) const;

  std::string program_;
  std::string directory_;
  std::map<GpuIndex, std::set<sharing::TenantId>> clients_;
};

/// Where the program is; "" where it is not.
std::string FindMpsProgram();

}  // namespace divvy::keeper
