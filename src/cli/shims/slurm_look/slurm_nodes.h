// sinfo's listing and scontrol's views of nodes and partitions, as text. Every node is in the partition "main", and in
// one partition for each of its pools.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli::slurm {

/// One node.
struct NodeRow {
  wire::StatusView status;  // The controller's status.
  wire::NodeView view;      // Unnamed on a single-node server, which is called scene.hostname.
  std::vector<wire::GpuView> gpus;
  std::vector<wire::JobView> jobs;                           // Running jobs with an allocation on this node.
  Scene scene;                                               // With this node's cores and memory; < 0: not known.
  std::string partition;                                     // The partition to show it in. Empty: "main".
  wire::PoolView pool;                                       // The pool of that partition. Unnamed: no limits.
  std::shared_ptr<const std::vector<wire::PoolView>> pools;  // All pools; null: none.
};

inline constexpr std::string_view kInfoDefault = "%9P %.5a %.10l %.6D %.6t %N";
inline constexpr std::string_view kInfoLong = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
inline constexpr std::string_view kInfoNode = "%9N %.6D %.9P %6t";
inline constexpr std::string_view kInfoNodeLong = "%9N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
inline constexpr std::string_view kInfoSummary = "%9P %.5a %.10l %.16F %N";
inline constexpr std::string_view kInfoReasons = "%20E %9u %19H %N";
inline constexpr std::string_view kInfoReasonsLong = "%20E %12U %19H %6t %N";

/// The node's name: "n1".
std::string HostOf(const NodeRow& row);
/// "idle", "mixed", "allocated", "reserved", "draining", "drained", "down*", "unknown*". "*" means not responding.
std::string NodeState(const NodeRow& row);
/// "mix", "alloc", "resv", "drng", "drain", "down*" ...
std::string CompactState(const NodeRow& row);
/// True if the node is in this state, as `sinfo -t` defines it: a name or its beginning, or several joined by '&' that
/// must all apply. Fails if Slurm has no such state.
Result<bool> IsInState(const NodeRow& row, std::string_view state);
/// True if the node accepts new jobs: the daemon accepts work, and the node is not cordoned, draining, drained or
/// unfit.
bool IsTakingWork(const NodeRow& row);
/// Returns the reason why the node accepts no new jobs. Empty if it accepts jobs, or if no reason was given.
std::string ReasonOf(const NodeRow& row);
/// Returns the reason with its user and time, if known: "disk [root@2024-05-01T08:30:00]".
std::string ReasonWithMoment(const NodeRow& row);
std::int64_t CpusInUse(const NodeRow& row);
std::int64_t MemoryInUse(const NodeRow& row);  // MiB.
/// Returns the node's features, as names for --constraint, in ascending order: "ib", "ib=yes", "rack", "rack=a".
std::vector<std::string> FeaturesOf(const NodeRow& row);

std::string VersionOf(const NodeRow& row);
std::string AddressOf(const NodeRow& row);

/// Returns the pools of the node, except "main".
std::vector<std::string> PoolsOf(const NodeRow& row);
/// Returns the names of all partitions: the pools of all nodes, preceded by "main" unless another pool is the default.
std::vector<std::string> PartitionsOf(const std::vector<NodeRow>& rows);
std::string PartitionOf(const NodeRow& row);
/// The nodes in a partition; "" means "main". If no pools are configured, a partition without nodes is only a label and
/// contains all nodes.
std::vector<NodeRow> NodesIn(const std::vector<NodeRow>& rows, const std::string& partition);
/// The nodes with these names; all nodes if `names` is empty.
std::vector<NodeRow> NodesNamed(const std::vector<NodeRow>& rows, const std::vector<std::string>& names);

/// One line per group of equal nodes, or per node (`is_by_node`). Nodes are equal if the columns show the same.
Result<std::string> FormatNodes(const std::vector<NodeRow>& rows, std::string_view letters, const std::string& names,
                                bool has_header, bool is_by_node = false);
std::string NodesJson(const std::vector<NodeRow>& rows);

/// True if the row's partition is the default one, which jobs without --partition get.
bool IsDefaultPartition(const NodeRow& row);
/// "1-00:00:00", as scontrol shows it; `none` if the partition has no limit.
std::string PartitionTime(const std::optional<double>& seconds, std::string_view none);

/// scontrol show node | partition | config. `is_one_line` as with -o.
std::string ShowNode(const NodeRow& row, bool is_one_line);
/// Requires: at least one row, and all in one partition.
std::string ShowPartition(const std::vector<NodeRow>& rows, bool is_one_line);
/// Returns the path of the controller's configuration file, on the controller's machine.
std::string ConfigPathOf(const NodeRow& row);
std::string ShowConfig(const NodeRow& row);
/// Returns the partitions as JSON, {"partitions": [...]}: one for each list of rows. ConfigJson returns {"config":
/// {...}}.
std::string PartitionsJson(const std::vector<std::vector<NodeRow>>& partitions);
std::string ConfigJson(const NodeRow& row);

/// Fetches the nodes with their GPUs, jobs and pools from the daemon. The controller's own machine comes first.
Result<std::vector<NodeRow>> FetchNodes();
/// Refuses a job for several nodes on a single-node server, as the daemon would. Queries the daemon only for such a
/// job.
Status CheckSeveral(const JobSpec& spec);

}  // namespace divvy::cli::slurm
