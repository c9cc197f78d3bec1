// The settings of a keeper.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keeper/drivers/host_memory.h"
#include "sharing/settings.h"

namespace divvy::keeper {

struct KeeperOptions {
  /// Bytes assumed for the first process on a GPU until the driver has reported one. A context on a data-centre GPU
  /// takes 300 to 500 MiB.
  std::uint64_t first_residual = std::uint64_t{512} << 20;
  std::string directory;            // Holds the tenants' folders, the records and the socket.
  std::int64_t node_uid = -1;       // This user may connect, besides root and our own user; -1: none.
  std::string interposer;           // Path of libdivvy_cuda.so, which jobs preload. Empty: not available.
  std::string nvml;                 // A stand-in for libnvidia-ml.so.1; empty: the driver's own.
  std::string cuda;                 // A stand-in for libcuda.so.1; empty: the driver's own.
  std::string mps_program;          // Path of nvidia-cuda-mps-control. Empty: not installed.
  std::vector<std::string> helper;  // Starts a helper (see CheckpointHelperCommand).
  Duration lingers = 30s;           // The keeper exits after this time without tenants and node.
  HostMemory host;
  sharing::Settings rules;
};

}  // namespace divvy::keeper
