// On which nodes a job is, as listings show it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/client/api.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// Returns the name of the controller's own machine in a cluster of several nodes. Returns "" if it is the only node or
/// if the controller cannot be asked.
std::string NameAmongSeveral(Api& api);
/// Like NameAmongSeveral, but returns "localhost" instead of "".
std::string OwnName(Api& api);

/// "n1", or "n1+3" for several nodes: the first, and how many more. "" before the job has started. `own`: the name of
/// the controller's own machine; "" if nodes need not be shown.
std::string NodeText(const wire::JobView& job, const std::string& own);

/// A job's resources on each node: "n1: ranks 0-3, GPUs 0-7". Empty for a job on a single-node server.
std::vector<std::string> AllocationLines(const wire::JobDetail& job, const std::string& own);

/// Returns how many GPUs a request, or one component of it (wire::ComponentView), asks for on all nodes together; the
/// minimum for an elastic job.
template <typename Part>
std::int64_t GpusOnAllNodes(const Part& part) {
  return part.gpus * std::max<std::int64_t>(part.nodes, 1) - part.short_nodes;
}

/// "2x4" for GPUs on each of several nodes; "2+1" if one of them gives fewer; "2..8" for an elastic job.
std::string GpuCount(const wire::RequestView& request);

/// Returns one component of a heterogeneous job, counted from 0, as its own request. Requires: it exists.
wire::RequestView ComponentOf(const wire::RequestView& request, std::size_t component);

/// Returns true if the job's deadline ends this run earlier than its requested time limit. Then `request.time_limit_s`
/// is the time from the start to the deadline.
bool EndsByDeadline(const wire::RequestView& request, std::optional<double> start_time);
/// "2 nodes with 4 GPUs each of type h100, 8 CPUs each, where ib": what a job requests.
std::string AsksFor(const wire::RequestView& request);
/// Returns the AsksFor text of each component of a heterogeneous job.
std::vector<std::string> ComponentLines(const wire::RequestView& request);

}  // namespace divvy::cli
