// Whether a job with whole GPUs is on its GPUs, or parked in host memory. docs/time-sharing.md.
#pragma once

#include <cstdint>
#include <string>

#include "model/gpus/gpu_set.h"
#include "model/job.h"

namespace divvy {

/// Stored as numbers: add new values at the end.
enum class Presence {
  kHere,       // It has its GPUs. Also after a park that failed.
  kLeaving,    // It is being parked. It has its GPUs until it is away.
  kAway,       // Parked: its processes are stopped and nothing of it is on a GPU, so other jobs may have its GPUs.
  kReturning,  // It takes GPUs and wakes there, once other jobs have left them.
};

/// A node's report on a job that was launched with LaunchCommand::is_parkable.
struct PresenceReport {
  JobId job;
  std::uint32_t attempt = 0;
  Presence presence = Presence::kHere;
  GpuSet gpus;            // The GPUs that it has, or takes if it is kReturning. Empty if it is kAway.
  bool can_park = false;  // For kHere: as far as the node knows, it can be parked now.
  std::string why;        // Why it cannot be parked ("it uses NCCL"), or why the last command failed. Optional.

  friend bool operator==(const PresenceReport&, const PresenceReport&) = default;
};

}  // namespace divvy
