// The caps and the bounds of teams that a line of waiting jobs comes up against: each is a stock (estimate_stock.h) of
// jobs or of parts of GPUs, from which one takes for as long as it runs.
//
// A bound with room for everybody who is expected is left out: most are, and then nothing is asked of running jobs.
//
// Cost: a look at the caps and teams of every class that is expected; for those bounds that are asked for, one pass
// over running jobs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/core/estimate/estimate_stock.h"
#include "engine/core/place/explain_view.h"

namespace divvy::core {

class EndTimes;

class Limits {
 public:
  /// What one job takes of which.
  struct Use {
    std::uint32_t limit = 0;
    std::int64_t amount = 0;
    friend bool operator==(const Use&, const Use&) = default;
  };

  explicit Limits(const Cluster::State& state);

  /// So many of such jobs may want to run at once. Before anybody is asked for.
  void Expect(const ClassKey& key, std::int64_t parts, std::uint64_t members);
  /// Of those that have not room for all that is expected; they are numbered from 0 as they are asked for.
  std::vector<Use> UsesOf(const ClassKey& key, std::int64_t parts);

  std::size_t size() const { return bounds_.size(); }
  /// The group whose jobs it counts: "team vision", "group user ada", "array 10".
  std::string NameOf(std::uint32_t limit) const;
  /// Once all have been asked for: who that runs holds what of them.
  void FindHolders();
  /// What each has, and will have as running jobs end. After FindHolders.
  std::vector<Stock> Stocks(const EndTimes& ends, Time now) const;

 private:
  struct Held {
    std::uint32_t limit = 0;
    std::int64_t amount = 0;
    const Run* run = nullptr;
  };

  /// visit(bound, amount) for everything that counts such a job.
  template <typename Visit>
  void ForEachBound(const ClassKey& key, std::int64_t parts, Visit visit) const;
  std::int64_t RoomOf(std::size_t bound) const;

  const Cluster::State& state_;
  // Bounds by number: of each cap its jobs and its GPUs, then of each team its limit and its quota.
  std::vector<std::int64_t> wanted_;  // Empty: nothing here bounds anybody.
  std::vector<std::int32_t> limits_;  // By bound; -1: not asked for.
  std::vector<std::size_t> bounds_;   // By limit.
  std::vector<Held> held_;            // By running jobs.
};

/// Why such a job can never start, whoever else ends; null: it may.
const char* WhyNeverAllowed(const Cluster::State& state, const ClassKey& key, std::int64_t parts);

/// A limit is in both.
bool Share(std::span<const Limits::Use> a, std::span<const Limits::Use> b);

}  // namespace divvy::core
