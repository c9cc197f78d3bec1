// How the GPUs of a cluster are divided among teams. Pure arithmetic on whole GPUs; integers where a remainder decides,
// and ties go to the team that is listed first.
//
// Source: KAI's queues (quota first, then the surplus by priority and weight, whole units, largest remainder).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/time.h"

namespace divvy {

inline constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

/// One team among its siblings.
struct TeamDemand {
  std::int64_t demand = 0;        // GPUs that it runs on or waits for.
  std::int64_t quota = 0;         // Its guaranteed GPUs; kNoBound: as many as the quotas of others leave.
  std::int64_t limit = kNoBound;  // Upper bound.
  std::uint64_t weight = 1;       // Its weight for the surplus; 0: it gets surplus only after others of its priority
                                  // are satisfied.
  int priority = 0;               // The surplus goes to the highest priority first.
};

/// Returns how many of `total` GPUs each team gets. The sum is min(total, demand within limits); no team gets more
/// than its demand or its limit. Each team gets its quota; if the quotas together exceed `total`, each gets less, by
/// largest remainder without weights. The surplus then goes by priority, and within one priority in proportion to the
/// weights: first to teams without a quota, up to their demand, then to teams that want more than their quota.
/// Amounts may be in parts of a GPU: then `unit` is the number of parts in a whole GPU. Satisfied teams get exactly
/// their demand; the rest is divided in whole units.
std::vector<std::int64_t> Divide(std::int64_t total, std::span<const TeamDemand> claims, std::int64_t unit = 1);

/// Usage that decays: it halves every half-life.
class DecayedUsage {
 public:
  /// `half_life`: the time in which past usage loses half its weight; 0: it never does.
  explicit DecayedUsage(Duration half_life) : half_life_(half_life) {}

  /// Adds `amount` (for example GPU-seconds) of usage as of `now`. If `now` is before the time of the previous call,
  /// that time is used.
  void Add(double amount, Time now);
  double At(Time now) const;

 private:
  Duration half_life_;
  double value_ = 0;
  Time as_of_ = kNoTime;
};

}  // namespace divvy
