// The caps and team bounds that a queue of waiting jobs may reach. Each is modelled as a stock (estimate_stock.h) of
// jobs or GPU parts, and a job takes from it while it runs.
//
// Bounds that the expected jobs cannot reach are skipped. Usually that is all of them, which avoids a scan of the
// running jobs.
//
// Cost: one look at the caps and teams of every expected class. If any bound remains, one pass over the running jobs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/estimate/end_times.h"
#include "engine/core/estimate/estimate_stock.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {

class Limits {
 public:
  /// How much one job takes of one limit.
  struct Use {
    std::uint32_t limit = 0;
    std::int64_t amount = 0;
    friend bool operator==(const Use&, const Use&) = default;
  };

  explicit Limits(const ClusterState& state);

  /// Declares that up to `members` jobs of the class `key`, with `parts` ten-thousandths of GPUs each, may want to run
  /// at once. All such calls must precede UsesOf.
  void Expect(const ClassKey& key, std::int64_t parts, std::uint64_t members);
  /// Returns how much one job of the class `key` takes of each limit that may be reached. Limits are numbered from 0 in
  /// the order in which they are first returned.
  std::vector<Use> UsesOf(const ClassKey& key, std::int64_t parts);

  std::size_t size() const { return bounds_.size(); }
  /// Returns the group whose jobs the limit with this number counts: "team vision", "group user ada", "array 10".
  std::string NameOf(std::uint32_t limit) const;
  /// Finds the running jobs that count in the limits. Call after all UsesOf calls.
  void FindHolders();
  /// Returns how much of each limit is free now, and becomes free as running jobs end. Call after FindHolders.
  std::vector<Stock> Stocks(const EndTimes& ends, Time now) const;

 private:
  struct Held {
    std::uint32_t limit = 0;
    std::int64_t amount = 0;
    const Run* run = nullptr;
  };

  /// Calls visit(bound, amount) for each limit (see `wanted_`) in which jobs of this class count. `amount`: how much
  /// one such job adds, which is 1 for a limit on jobs and its GPUs for a limit on GPUs.
  template <typename Visit>
  void ForEachBound(const ClassKey& key, std::int64_t parts, Visit visit) const;
  std::int64_t RoomOf(std::size_t bound) const;

  const ClusterState& state_;
  // Bounds by number: for each cap its jobs and its GPUs, then for each team its limit and its quota.
  std::vector<std::int64_t> wanted_;  // Empty: there are no bounds at all.
  std::vector<std::int32_t> limits_;  // Indexed by bound; -1: not used.
  std::vector<std::size_t> bounds_;   // Indexed by limit.
  std::vector<Held> held_;            // One entry per limit and running job.
};

/// Returns why the limits never allow a job of the class `key` to start, even if all running jobs end; null if they do.
const char* WhyNeverAllowed(const ClusterState& state, const ClassKey& key, std::int64_t parts);

/// Returns true if some limit is in both lists.
bool Share(std::span<const Limits::Use> a, std::span<const Limits::Use> b);

}  // namespace divvy::core
