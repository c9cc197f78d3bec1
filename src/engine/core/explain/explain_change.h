// The cheapest change of a request with which a waiting job would start at once. Tried in this order, from what costs
// the work nothing to what makes it another job:
//
//   preemptible     may use more than its team's quota, where that alone is in the way
//   time limit      ends before what is kept for others begins; not below what it is predicted to run
//   apart           a wider domain than required, then none
//   topology        the best set there is
//   host            fewer CPUs, less memory; not below a quarter
//   model           another kind of node
//   GPUs            fewer on a node, the most that it can have; of an elastic job, its least
//   tasks           fewer of them
//   share           less of one GPU; not below a quarter
//
// Each is tried as the next decision would (View::WouldStart) before it is named. Where the cluster is small enough to
// copy it is applied to a copy as well, which then decides: promises that are made anew meanwhile may lie otherwise.
#pragma once

#include <optional>

#include "engine/core/explain/explain.h"
#include "engine/core/place/explain_view.h"

namespace divvy::core {

/// Nodes, jobs and classes of a cluster that is copied to be sure of a change.
inline constexpr std::size_t kMostCopied = 4'000;

/// Requires: `seeker` waits in line and will not start at once. The cluster is the same before and after.
std::optional<Change> FindChange(const Cluster& cluster, const Seeker& seeker, Time now, const Names& names);

/// Where the job of the view would start with the change; nothing: it would not.
std::optional<NodeIndex> WouldStartWith(Cluster::State& state, const Seeker& seeker, const Change& change, Time now);

/// What would become of the job at once.
struct ChangeTrial {
  bool starts = false;
  NodeIndex node = 0;         // Of its first task, as a view of the cluster has it.
  std::vector<Piece> pieces;  // As a copy of the cluster decides; empty where it was too large to copy.
};
/// Requires: `seeker` waits in line. The cluster is the same before and after.
ChangeTrial TryChange(const Cluster& cluster, const Seeker& seeker, const Change& change, Time now);

}  // namespace divvy::core
