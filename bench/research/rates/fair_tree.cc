#include "research/rates/fair_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace divvy::rates {
namespace {

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

}  // namespace divvy::rates
