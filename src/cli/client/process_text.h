// The processes that a job has on GPUs, with what each uses of them: from what was sampled last, and from the list of
// GPUs, which knows whose they are.
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
  std::string user;     // Empty, as the command: it has just begun, or just ended.
  std::string command;  // Of its own machine.
  double memory_bytes = 0;
  std::optional<double> utilization;  // A part of 1; absent: the driver does not tell.
  // Of the machine; absent: not known (yet).
  std::optional<double> cpu_cores;
  std::optional<double> host_memory_bytes;
  std::optional<double> read_bytes_per_second;
  std::optional<double> written_bytes_per_second;
};

/// What was seen last of everything; nothing where no samples are taken.
wire::LatestAnswer AskLatest(Api& api);

/// The last of a job's own numbers, by name; none where it said none, or where they are not shown to the caller.
std::map<std::string, double> AskLastOwn(Api& api, const wire::JobDetail& job);

/// Of one job, by machine, GPU and pid.
std::vector<GpuProcess> ProcessesOf(JobId id, const wire::LatestAnswer& latest, const std::vector<wire::GpuView>& gpus);

/// "pid 4711 python3 on n1:0: 71%, 4 GiB", one each; of more than `most` the last says how many more there are.
std::vector<std::string> ProcessLines(const std::vector<GpuProcess>& processes, std::size_t most);

/// A table of them, or CSV; `own`: the name of the controller's machine where machines have a column, else empty.
Result<std::string> ProcessTable(const std::vector<GpuProcess>& processes, const std::string& own,
                                 const ListingOptions& options);

/// As the API answers, with nothing but the processes of that job, and the GPUs on which there are any.
wire::LatestAnswer OnlyProcessesOf(JobId id, wire::LatestAnswer latest);

}  // namespace divvy::cli
