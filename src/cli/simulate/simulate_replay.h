// The replay modes of divvy simulate: a published trace, or this server's own history.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/simulate/simulate_flags.h"
#include "simulate/report.h"
#include "simulate/traces/workload.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// Runs the policies and prints or writes the requested output. Returns the exit code. `title`: "helios venus.csv".
int ReplayAndShow(simulate::Workload workload, const simulate::TraceCluster& cluster, const std::string& title,
                  const SimulateFlags& flags);

/// divvy simulate FORMAT --jobs FILE ...
int SimulateTrace(const std::string& format, const SimulateFlags& flags);

/// divvy simulate history: jobs and GPUs come from the daemon.
int SimulateHistory(const SimulateFlags& flags);

/// Converts the daemon's ended jobs to the workload for a replay.
simulate::Workload WorkloadOf(const std::vector<wire::JobView>& jobs);
/// The server as one node, or as one node per GPU model.
simulate::TraceCluster ClusterOf(const std::vector<wire::GpuView>& gpus);

}  // namespace divvy::cli
