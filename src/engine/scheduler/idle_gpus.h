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

  /// GPUs that take new work of any job.
  GpuSet free(NodeIndex node) const { return nodes_[node].free; }
  /// GPUs that take new work only of the owner of an advance reservation.
  GpuSet reserved(NodeIndex node) const { return nodes_[node].reserved; }
  /// Idle GPUs of a node that one job has exclusively.
  GpuSet unused(NodeIndex node) const { return nodes_[node].unused; }
  /// The active advance reservation that keeps a reserved GPU.
  std::optional<std::uint64_t> AdvanceReservationOf(NodeIndex node, GpuIndex gpu) const;
  /// The job that has the node exclusively because of its pool.
  std::optional<JobId> AloneOn(NodeIndex node) const;
  /// The number of free (reserved) GPUs on all nodes.
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

/// The GPUs of an advance reservation; they may still change before it begins. Empty if there is no such reservation.
std::vector<NodeResources> PlacesOfReservation(const Scheduler& scheduler, std::uint64_t advance);

}  // namespace divvy
