// GPUs that nobody uses, by who may have them: whoever comes, the owner of a booking in force, or the job that has
// their machine to itself. As of the server's last decision.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/server/server.h"

namespace divvy {

class IdleGpus {
 public:
  IdleGpus(const Server& server, Time now);

  /// Take new work, and whoever comes may have them.
  GpuSet free(NodeIndex node) const { return nodes_[node].free; }
  /// Take new work, that of a booking's owner.
  GpuSet reserved(NodeIndex node) const { return nodes_[node].reserved; }
  /// Idle beside a job that has the machine to itself.
  GpuSet unused(NodeIndex node) const { return nodes_[node].unused; }
  /// The booking in force that keeps a reserved GPU.
  std::optional<std::uint64_t> BookingOf(NodeIndex node, GpuIndex gpu) const;
  /// The job that has the machine to itself, by its pool.
  std::optional<JobId> AloneOn(NodeIndex node) const;
  /// On all machines.
  int free_count() const;
  int reserved_count() const;

 private:
  struct OnNode {
    GpuSet free;
    GpuSet reserved;
    GpuSet unused;
  };
  std::vector<OnNode> nodes_;
  std::map<std::pair<NodeIndex, GpuIndex>, std::uint64_t> bookings_;
  std::map<NodeIndex, JobId> alone_;
};

/// Where a booking keeps GPUs; before it begins they may still become others. Empty: there is no such booking.
std::vector<NodePlace> PlacesOfBooking(const Server& server, std::uint64_t booking);

}  // namespace divvy
