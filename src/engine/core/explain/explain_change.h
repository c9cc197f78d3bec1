// Finds the cheapest change of a request with which a waiting job would start at once. Changes are tried in this order,
// from those that do not affect the job's work to those that make it a different job:
//
//   preemptible     may exceed its team's quota, if only the quota blocks it
//   time limit      ends before reservations of others begin; not shorter than its predicted run time
//   locality        a wider domain than required, then none
//   topology        the best set of GPUs that is available
//   host            fewer CPUs, less memory; not below a quarter
//   model           GPUs of other node classes
//   GPUs            fewer on a node, as many as possible; for an elastic job a smaller minimum
//   tasks           fewer tasks
//   share           a smaller fraction of one GPU, not below a quarter
//
// Each change is checked as the next decision would check it (JobPerspective::WouldStart). If the cluster is small
// enough to copy, the change is also applied to a copy that then decides, because that decision may place reservations
// elsewhere.
#pragma once

#include <optional>

#include "engine/core/explain/explanation.h"
#include "engine/core/place/job_perspective.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

/// The largest cluster that is copied to verify a change, in nodes, jobs and classes together.
inline constexpr std::size_t kMostCopied = 4'000;

/// Returns the cheapest change of the job's request with which it would start at once; nullopt if there is none. The
/// cluster is the same afterwards. Requires: the job waits, and the next scheduling cycle does not start it.
std::optional<Change> FindChange(const Cluster& cluster, const Seeker& seeker, Time now, const Names& names);

/// Returns the node on which the waiting job would start at once with this change of its request; nullopt if it would
/// not.
std::optional<NodeIndex> WouldStartWith(ClusterState& state, const Seeker& seeker, const Change& change, Time now);

/// Whether and where a changed job would start at once.
struct ChangeTrial {
  bool starts = false;
  NodeIndex node = 0;                     // The node of its first task, from a trial on the cluster itself.
  std::vector<TaskPlacement> placements;  // From a decision on a copy; empty if the cluster is too large to copy.
};
/// Returns whether, and where, the waiting job would start at once with this change of its request. The cluster is the
/// same afterwards.
ChangeTrial TryChange(const Cluster& cluster, const Seeker& seeker, const Change& change, Time now);

}  // namespace divvy::core
