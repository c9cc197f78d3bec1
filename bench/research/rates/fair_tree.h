// Slurm's Fair Tree and dominant resource fairness, as docs/results-replays.md compares them with their sources. No
// scheduler uses them.
//
// Sources: Slurm's fair_tree.html; Ghodsi et al., NSDI 2011.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace divvy::rates {

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

}  // namespace divvy::rates
