// How the GPUs of a cluster are divided among teams, and the fair-share order of users. Pure arithmetic on whole GPUs;
// integers where a remainder decides, and ties go to the team that is listed first.
//
// Sources: the division (quota first, then the surplus by priority and weight, whole units, largest remainder) as KAI's
// queues document it; the ranking as Slurm's Fair Tree documents it; the dominant share from Ghodsi et al., NSDI 2011.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
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

/// A node of the tree of accounts and users.
struct ShareNode {
  std::string name;
  bool is_user = false;
  std::uint64_t shares = 1;
  double usage = 0;  // Set for users only; an account's usage is the sum over its subtree.
  std::vector<ShareNode> children;
};

struct ShareRank {
  std::string account;  // Path of the account that the user belongs to: "root/physics".
  std::string user;
  double factor = 0;  // rank / users; 1 is served first.
  double level = 0;   // Ratio of shares to usage among siblings; infinity without usage.
};

/// Returns the users in the order in which they are served by Slurm's Fair Tree algorithm. Users of equal rank are in
/// the order of the tree.
std::vector<ShareRank> FairTree(const ShareNode& root);

/// Returns the largest part used[i] / total[i] of any resource. For a resource with total 0 it is infinity if it is
/// used; otherwise the resource does not count.
double DominantShare(std::span<const double> used, std::span<const double> total);

}  // namespace divvy
