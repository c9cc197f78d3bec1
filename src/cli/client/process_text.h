// A job's processes on GPUs and the usage of each. Combines the latest samples with the list of GPUs, which knows the
// owners.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/client/api.h"
#include "cli/client/table.h"
#include "wire/messages/messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

struct GpuProcess {
  std::string node;
  std::int64_t gpu = 0;
  std::int64_t pid = 0;
  std::string user;     // Empty, like `command`, if the process has just begun or just ended.
  std::string command;  // As its node reports it.
  double memory_bytes = 0;
  std::optional<double> utilization;  // 0..1; absent if the driver does not report it.
  // Host usage; absent if not known (yet).
  std::optional<double> cpu_cores;
  std::optional<double> host_memory_bytes;
  std::optional<double> read_bytes_per_second;
  std::optional<double> written_bytes_per_second;
};

/// Returns the latest sample of everything; empty if no samples are taken.
wire::LatestAnswer AskLatest(Api& api);

/// Returns the last values of the metrics that the job reported itself, by name. Empty if it reported none, or if the
/// caller may not see them.
std::map<std::string, double> AskLastOwn(Api& api, const wire::JobDetail& job);

/// The processes of one job, ordered by node, GPU and pid.
std::vector<GpuProcess> ProcessesOf(JobId id, const wire::LatestAnswer& latest, const std::vector<wire::GpuView>& gpus);

/// One line per process: "pid 4711 python3 on GPU n1:0: 71%, 4 GiB". After `most` processes, one more line counts the
/// rest.
std::vector<std::string> ProcessLines(const std::vector<GpuProcess>& processes, std::size_t most);

/// Returns a table of the processes, or CSV. `own`: the name of the controller's machine if a column shows the node,
/// else "".
Result<std::string> ProcessTable(const std::vector<GpuProcess>& processes, const std::string& own,
                                 const ListingOptions& options);

/// Returns `latest` reduced to the processes of job `id` and to the GPUs on which it has processes, in the API's
/// format.
wire::LatestAnswer OnlyProcessesOf(JobId id, wire::LatestAnswer latest);

}  // namespace divvy::cli
