// sinfo's listing and scontrol's views of the node and the partition, as text: this server is one node in one
// partition.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shims/slurm_view.h"
#include "wire/messages.h"

namespace divvy::cli::slurm {

struct NodeRow {
  wire::StatusView status;
  std::vector<wire::GpuView> gpus;
  std::vector<wire::JobView> jobs;  // Those that run.
  Scene scene;
  std::string partition;  // Empty: the one that there is. Any other is a label, and has this server in it.
};

inline constexpr std::string_view kInfoDefault = "%9P %.5a %.10l %.6D %.6t %N";
inline constexpr std::string_view kInfoLong = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
inline constexpr std::string_view kInfoNode = "%9N %.6D %.9P %6t";
inline constexpr std::string_view kInfoNodeLong = "%9N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
inline constexpr std::string_view kInfoSummary = "%9P %.5a %.10l %.16F %N";
inline constexpr std::string_view kInfoReasons = "%20E %9u %19H %N";

/// "idle", "mixed", "allocated", "drained".
std::string NodeState(const NodeRow& row);
Result<std::string> FormatNodes(const NodeRow& row, std::string_view letters, const std::string& names,
                                bool has_header);
std::string NodesJson(const NodeRow& row);

/// scontrol show node | partition | config. `is_one_line` as with -o.
std::string ShowNode(const NodeRow& row, bool is_one_line);
std::string ShowPartition(const NodeRow& row, bool is_one_line);
std::string ShowConfig(const NodeRow& row);

/// Asks the daemon for all of it.
Result<NodeRow> FetchNode();

}  // namespace divvy::cli::slurm
