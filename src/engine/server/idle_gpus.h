// GPUs that nobody uses, by who may have them: whoever comes, the owner of a booking in force, or the job that has
// their machine to itself. As of the server's last decision.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/server/server.h"

namespace divvy {

class IdleGpus {
 public:
  /// What bookings keep that `is_open` says yes to counts as free; null: none.
  IdleGpus(const Server& server, Time now, const std::function<bool(std::uint64_t booking)>& is_open = {});

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

/// What of these is to a job that waits for whole GPUs, as of the last decision: "2 free, 4 reserved", "0 free, 4 of
/// another model". Free are only those that it may use.
std::string IdleGpusText(const Server& server, const WaitingEntry& entry,
                         const std::function<bool(std::uint64_t booking)>& is_open);

/// What IdleGpusText and IdleNodesText say, for many jobs at one moment: made once for all that ask for the same.
/// Requires: nothing changes in the server meanwhile.
class IdleTexts {
 public:
  explicit IdleTexts(const Server& server) : server_(server) {}

  /// `is_open`: of bookings, as above.
  const std::string& OfGpus(const WaitingEntry& entry, const std::function<bool(std::uint64_t booking)>& is_open);
  const std::string& OfNodes(const WaitingEntry& entry);

 private:
  /// All that the texts depend on, but for bookings.
  using Wish = std::tuple<Request, std::string, PlacementStrategy>;
  struct Texts {
    std::optional<std::string> nodes;
    std::map<std::vector<std::uint64_t>, std::string> gpus;  // By the bookings that are open.
  };
  Texts& Of(const WaitingEntry& entry);

  const Server& server_;
  std::map<Wish, Texts, std::less<>> texts_;
  std::map<std::vector<std::uint64_t>, IdleGpus> idle_;  // The same.
};

/// Where a booking keeps GPUs; before it begins they may still become others. Empty: there is no such booking.
std::vector<NodePlace> PlacesOfBooking(const Server& server, std::uint64_t booking);

}  // namespace divvy
