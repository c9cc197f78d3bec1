// Idle GPUs as of the last decision, grouped by the jobs that may use them: any job, only jobs of the owner of an
// active advance reservation, or no other job because one job has the node exclusively.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace divvy {

class IdleGpus {
 public:
  IdleGpus(const Scheduler& scheduler, Time now);

  /// Idle GPUs of the node that any job may use.
  GpuSet free(NodeIndex node) const { return nodes_[node].free; }
  /// Idle GPUs of the node that only the owner of an advance reservation may use now.
  GpuSet reserved(NodeIndex node) const { return nodes_[node].reserved; }
  /// Idle GPUs of the node that no other job may use, because one job has the node exclusively.
  GpuSet unused(NodeIndex node) const { return nodes_[node].unused; }
  /// Returns the advance reservation that keeps this GPU for its owner now; nullopt if there is none.
  std::optional<std::uint64_t> AdvanceReservationOf(NodeIndex node, GpuIndex gpu) const;
  /// Returns the job that has the node exclusively because of its pool; nullopt if there is none.
  std::optional<JobId> AloneOn(NodeIndex node) const;
  /// Returns the number of GPUs of free(), or of reserved(), on all nodes.
  int free_count() const;
  int reserved_count() const;

 private:
  struct OnNode {
    GpuSet free;
    GpuSet reserved;
    GpuSet unused;
  };
  std::vector<OnNode> nodes_;
  std::map<std::pair<NodeIndex, GpuIndex>, std::uint64_t> reserved_;
  std::map<NodeIndex, JobId> alone_;
};

/// Returns the GPUs of an advance reservation, by node. They may still change before it begins. Empty if there is no
/// such reservation.
std::vector<NodeResources> PlacesOfReservation(const Scheduler& scheduler, std::uint64_t advance);

}  // namespace divvy
