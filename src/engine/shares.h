// How the GPUs of a cluster are divided among teams, and who among users is served first. Pure arithmetic: whole GPUs,
// integers where a remainder decides, ties to the team that is named first.
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
struct Claim {
  std::int64_t demand = 0;        // GPUs that it runs on or waits for.
  std::int64_t quota = 0;         // Its own by right; kNoBound: as many as the quotas of others leave.
  std::int64_t limit = kNoBound;  // Never more.
  std::uint64_t weight = 1;       // Of the surplus; 0: none of it while another of its priority wants it.
  int priority = 0;               // The surplus goes to the highest first.
};

/// How many of `total` GPUs each claim may have. Sums to min(total, what is asked within limits); no claim gets more
/// than its demand or its limit. Everyone has their quota, or less by weight-free largest remainder if the quotas
/// together exceed `total`; then the surplus goes by priority, within one priority in proportion to the weights: first
/// to claims without a quota, up to their demand, then to claims that want more than their quota.
/// Everything may be counted in parts of a GPU: then `unit` is how many make a whole one. Who is content has exactly
/// what they want; the rest is divided in whole units.
std::vector<std::int64_t> Divide(std::int64_t total, std::span<const Claim> claims, std::int64_t unit = 1);

/// What somebody used, halving every half-life.
class DecayedUsage {
 public:
  /// half_life 0: never decays.
  explicit DecayedUsage(Duration half_life) : half_life_(half_life) {}

  /// `amount` (GPU-seconds, say) used up to `now`. A time before the last one counts as the last one.
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
  double usage = 0;  // Of a user; an account's is the sum of what is below it.
  std::vector<ShareNode> children;
};

struct ShareRank {
  std::string account;  // The account that the user is in, as a path: "root/physics".
  std::string user;
  double factor = 0;  // rank / users: 1 is served first.
  double level = 0;   // Shares by usage among siblings; infinity without usage.
};

/// Fair Tree: users in the order in which they are served. Users of one rank are in the order of the tree.
std::vector<ShareRank> FairTree(const ShareNode& root);

/// The largest of used[i] / total[i]; a resource that the cluster does not have counts only if it is used (infinity).
double DominantShare(std::span<const double> used, std::span<const double> total);

}  // namespace divvy
