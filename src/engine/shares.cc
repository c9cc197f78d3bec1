#include "engine/shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace divvy {
namespace {

__extension__ using Wide = unsigned __int128;  // For products of two 64-bit numbers.

/// A team that wants more, and at most how much.
struct Open {
  std::size_t claim;
  std::int64_t room;
  std::uint64_t weight;
};

/// Divides `amount` by weight, in whole units, and gives no team more than its room. Returns what is left over.
std::int64_t ByWeight(std::int64_t amount, std::vector<Open> open, std::vector<std::int64_t>& shares,
                      std::int64_t unit) {
  std::erase_if(open, [](const Open& o) { return o.room <= 0 || o.weight == 0; });
  while (amount > 0 && !open.empty()) {
    Wide weights = 0;
    for (const Open& o : open) weights += o.weight;
    const Wide pot = static_cast<Wide>(amount);
    // Teams whose part is at least what they can still use get that, and the rest is divided again among the others.
    bool is_anyone_content = false;
    for (Open& o : open) {
      if (pot * o.weight < static_cast<Wide>(o.room) * weights) continue;
      is_anyone_content = true;
      shares[o.claim] += o.room;
      amount -= o.room;
      o.room = 0;
    }
    std::erase_if(open, [](const Open& o) { return o.room == 0; });
    if (is_anyone_content) continue;
    std::vector<Wide> rests;
    std::int64_t given = 0;
    for (Open& o : open) {
      const Wide part = pot * o.weight;
      const std::int64_t whole = static_cast<std::int64_t>(part / weights) / unit * unit;
      shares[o.claim] += whole;
      given += whole;
      o.room -= whole;
      rests.push_back(part - static_cast<Wide>(whole) * weights);
    }
    std::vector<std::size_t> order(open.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rests[a] > rests[b]; });
    std::int64_t left = amount - given;
    // No team gets all that it can use from its part, so each can use some of what is left after rounding.
    while (left > 0) {
      for (const std::size_t i : order) {
        const std::int64_t more = std::min({unit, left, open[i].room});
        shares[open[i].claim] += more;
        open[i].room -= more;
        left -= more;
      }
    }
    return 0;
  }
  return amount;
}

double UsageOf(const ShareNode& node) {
  if (node.is_user) return node.usage;
  return std::accumulate(node.children.begin(), node.children.end(), 0.0,
                         [](double sum, const ShareNode& child) { return sum + UsageOf(child); });
}

/// A node with its Level FS among its siblings, before ranks are assigned.
struct Placed {
  const ShareNode* node;
  std::string path;  // Path of the account that it is in.
  double level;
};

std::vector<Placed> ChildrenOf(const ShareNode& account, const std::string& path) {
  double shares = 0;
  double usage = 0;
  for (const ShareNode& child : account.children) {
    shares += static_cast<double>(child.shares);
    usage += UsageOf(child);
  }
  std::vector<Placed> children;
  for (const ShareNode& child : account.children) {
    const double own_shares = shares == 0 ? 0 : static_cast<double>(child.shares) / shares;
    const double own_usage = usage == 0 ? 0 : UsageOf(child) / usage;
    const double level = child.shares == 0 ? 0
                         : own_usage == 0  ? std::numeric_limits<double>::infinity()
                                           : own_shares / own_usage;
    children.push_back({&child, path, level});
  }
  return children;
}

class FairTreeWalk {
 public:
  void Visit(std::vector<Placed> siblings) {
    std::ranges::stable_sort(siblings, [](const Placed& a, const Placed& b) { return a.level > b.level; });
    for (auto at = siblings.begin(); at != siblings.end();) {
      const auto end = std::find_if(at, siblings.end(), [&](const Placed& other) { return other.level != at->level; });
      // Users that tie share one rank, also with the highest user of accounts that they tie with. The users of tied
      // accounts are ranked together as if the accounts were one.
      const std::size_t rank = ranks_.size();
      std::vector<Placed> merged;
      for (; at != end; ++at) {
        if (at->node->is_user) {
          ranks_.push_back({{at->path, at->node->name, 0, at->level}, rank});
          continue;
        }
        const auto children = ChildrenOf(*at->node, at->path + "/" + at->node->name);
        merged.insert(merged.end(), children.begin(), children.end());
      }
      const bool ties_with_users = ranks_.size() > rank && !merged.empty();
      const std::size_t first_below = ranks_.size();
      if (!merged.empty()) Visit(std::move(merged));
      if (!ties_with_users || first_below == ranks_.size()) continue;
      const std::size_t highest = ranks_[first_below].second;
      for (std::size_t i = first_below; i < ranks_.size() && ranks_[i].second == highest; ++i) ranks_[i].second = rank;
    }
  }

  std::vector<ShareRank> Take() {
    std::vector<ShareRank> out;
    const auto users = static_cast<double>(ranks_.size());
    for (auto& [rank, place] : ranks_) {
      rank.factor = (users - static_cast<double>(place)) / users;
      out.push_back(std::move(rank));
    }
    return out;
  }

 private:
  std::vector<std::pair<ShareRank, std::size_t>> ranks_;  // With the number of users ranked before.
};

}  // namespace

std::vector<std::int64_t> Divide(std::int64_t total, std::span<const TeamDemand> claims, std::int64_t unit) {
  std::vector<std::int64_t> shares(claims.size(), 0);
  std::vector<std::int64_t> wants;
  std::int64_t rights = 0;
  std::vector<Open> by_right;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    wants.push_back(std::max<std::int64_t>(0, std::min(claims[i].demand, claims[i].limit)));
    if (claims[i].quota == kNoBound) continue;
    const std::int64_t right = std::min(wants[i], std::max<std::int64_t>(0, claims[i].quota));
    rights += right;
    by_right.push_back({i, right, static_cast<std::uint64_t>(right)});
  }
  if (rights > total) {
    ByWeight(total, std::move(by_right), shares, unit);
    return shares;
  }
  for (const Open& o : by_right) shares[o.claim] = o.room;
  std::int64_t surplus = total - rights;
  const auto divide_surplus = [&](bool has_quota) {
    std::map<int, std::vector<Open>, std::greater<>> by_priority;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if ((claims[i].quota != kNoBound) != has_quota) continue;
      by_priority[claims[i].priority].push_back({i, wants[i] - shares[i], claims[i].weight});
    }
    for (auto& [priority, open] : by_priority) {
      surplus = ByWeight(surplus, open, shares, unit);
      // No team with a weight wants it: a team without weight gets it, rather than one of lower priority or none.
      for (Open& o : open) o = {o.claim, wants[o.claim] - shares[o.claim], 1};
      surplus = ByWeight(surplus, std::move(open), shares, unit);
    }
  };
  // A team without a quota may get all of its demand before other teams exceed their quotas.
  divide_surplus(false);
  divide_surplus(true);
  return shares;
}

void DecayedUsage::Add(double amount, Time now) {
  value_ = At(now) + amount;
  as_of_ = std::max(as_of_, now);
}

double DecayedUsage::At(Time now) const {
  if (half_life_ <= Duration(0) || now <= as_of_) return value_;
  return value_ * std::exp2(-static_cast<double>((now - as_of_).count()) / static_cast<double>(half_life_.count()));
}

std::vector<ShareRank> FairTree(const ShareNode& root) {
  FairTreeWalk walk;
  walk.Visit(ChildrenOf(root, root.name));
  return walk.Take();
}

double DominantShare(std::span<const double> used, std::span<const double> total) {
  double share = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i] <= 0) continue;
    share = std::max(share, total[i] > 0 ? used[i] / total[i] : std::numeric_limits<double>::infinity());
  }
  return share;
}

}  // namespace divvy
