// sinfo's listing and scontrol's views of nodes and partitions, as text. Each machine is a node; every node is in the
// partition "main", and in one for each of its pools.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli::slurm {

/// One machine.
struct NodeRow {
  wire::StatusView status;  // Of the controller.
  wire::NodeView view;      // Without a name: a server that is alone, whose name is scene.hostname.
  std::vector<wire::GpuView> gpus;
  std::vector<wire::JobView> jobs;                           // Those that run, and have a part on it.
  Scene scene;                                               // Its cores and memory; below 0: not known.
  std::string partition;                                     // In which it is shown; empty: "main".
  wire::PoolView pool;                                       // That partition; without a name: it bounds nothing.
  std::shared_ptr<const std::vector<wire::PoolView>> pools;  // All there are; null: none.
};

inline constexpr std::string_view kInfoDefault = "%9P %.5a %.10l %.6D %.6t %N";
inline constexpr std::string_view kInfoLong = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
inline constexpr std::string_view kInfoNode = "%9N %.6D %.9P %6t";
inline constexpr std::string_view kInfoNodeLong = "%9N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
inline constexpr std::string_view kInfoSummary = "%9P %.5a %.10l %.16F %N";
inline constexpr std::string_view kInfoReasons = "%20E %9u %19H %N";
inline constexpr std::string_view kInfoReasonsLong = "%20E %12U %19H %6t %N";

/// "n1".
std::string HostOf(const NodeRow& row);
/// "idle", "mixed", "allocated", "reserved", "draining", "drained", "down*", "unknown*"; "*": not heard from.
std::string NodeState(const NodeRow& row);
/// "mix", "alloc", "resv", "drng", "drain", "down*" ...
std::string CompactState(const NodeRow& row);
/// In this state, as `sinfo -t` has it: a name or the beginning of one, several joined by '&' for all of them at once.
/// Fails for what is no state of Slurm's.
Result<bool> IsInState(const NodeRow& row, std::string_view state);
/// Neither drained nor about to be.
bool IsTakingWork(const NodeRow& row);
/// Why it takes no work; empty: it does, or nobody said.
std::string ReasonOf(const NodeRow& row);
/// "disk [root@2024-05-01T08:30:00]", where it is known who said it when.
std::string ReasonWithMoment(const NodeRow& row);
std::int64_t CpusInUse(const NodeRow& row);
std::int64_t MemoryInUse(const NodeRow& row);  // MiB.
/// "ib", "ib=yes", "rack", "rack=a": what --constraint can name, ascending.
std::vector<std::string> FeaturesOf(const NodeRow& row);

std::string VersionOf(const NodeRow& row);
std::string AddressOf(const NodeRow& row);

/// Its pools, but for "main".
std::vector<std::string> PoolsOf(const NodeRow& row);
/// "main", unless another is that of jobs that name none, and the pools there are.
std::vector<std::string> PartitionsOf(const std::vector<NodeRow>& rows);
std::string PartitionOf(const NodeRow& row);
/// Those in it. Empty: "main". Where no pools were made, a partition that no machine is in is a label, and has all of
/// them.
std::vector<NodeRow> NodesIn(const std::vector<NodeRow>& rows, const std::string& partition);
/// Those of these names; all without names.
std::vector<NodeRow> NodesNamed(const std::vector<NodeRow>& rows, const std::vector<std::string>& names);

/// A line for each kind of node, or for each node (`is_by_node`). Kinds differ in what the columns show.
Result<std::string> FormatNodes(const std::vector<NodeRow>& rows, std::string_view letters, const std::string& names,
                                bool has_header, bool is_by_node = false);
std::string NodesJson(const std::vector<NodeRow>& rows);

/// Jobs that name none go there.
bool IsDefaultPartition(const NodeRow& row);
/// "1-00:00:00", as scontrol has it; `none` where the partition does not bound it.
std::string PartitionTime(const std::optional<double>& seconds, std::string_view none);

/// scontrol show node | partition | config. `is_one_line` as with -o.
std::string ShowNode(const NodeRow& row, bool is_one_line);
/// Requires: one row at least, all of one partition.
std::string ShowPartition(const std::vector<NodeRow>& rows, bool is_one_line);
std::string ShowConfig(const NodeRow& row);
/// The same as JSON: {"partitions": [...]}, one for each list of rows; {"config": {...}}.
std::string PartitionsJson(const std::vector<std::vector<NodeRow>>& partitions);
std::string ConfigJson(const NodeRow& row);

/// Asks the daemon for all of it; the controller's own machine first.
Result<std::vector<NodeRow>> FetchNodes();
/// Refuses a job for several machines where there is but one, as the daemon would; asks it only of such a job.
Status CheckSeveral(const JobSpec& spec);

}  // namespace divvy::cli::slurm
