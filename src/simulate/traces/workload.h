// The data of a trace that a replay needs: each job's user, request, submission and run time, and, if known, the
// cluster. Plain values, the same for every source format (readers: trace_formats.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"

namespace divvy::simulate {

/// Index into Workload::jobs.
using JobIndex = std::uint32_t;

struct TraceJob {
  std::string id;       // The id in the trace, or the line number if there is none.
  std::string user;     // Empty: not known; the same for the next three.
  std::string team;     // Virtual cluster, account or project.
  std::string name;     // Job name, or the trained model.
  std::string kind;     // How it ended, or its training mode, in the trace's own words.
  Time submit{};        // Since 1970, or since the start of the trace.
  Duration runtime{0};  // With all of its GPUs at full speed. 0 if Workload::knows_runtimes is false.
  Duration limit{0};    // 0: no limit.
  int gpus = 0;
  GpuShare share{GpuShare::kWhole};  // The fraction that it uses of each GPU.
  int nodes = 0;                     // Number of nodes in the original run. 0: not known.
  int cpus = 0;                      // 0: not known.
  Bytes memory;
  std::string gpu_type;  // Alternatives joined by '|'; empty: any.
  int priority = 0;      // Higher goes first.
  double weight = 1;     // Weight of its share, in traces about fairness.
  double steps = 0;      // Number of training steps. 0: not known.
  // The original run on the cluster of the trace.
  std::optional<Time> published_start;
  std::optional<Time> published_end;

  friend bool operator==(const TraceJob&, const TraceJob&) = default;
};

struct NodeGroup {
  int count = 0;
  int gpus = 0;  // Per node; the same for the next three.
  std::string model;
  int cpus = 0;  // 0: not known.
  Bytes memory;
  std::string rack;
  std::string team;  // Only this team's jobs run there. Empty: all jobs.

  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

struct TraceCluster {
  std::vector<NodeGroup> groups;

  std::int64_t nodes() const;
  std::int64_t gpus() const;

  friend bool operator==(const TraceCluster&, const TraceCluster&) = default;
};

/// Invariant (Arrange): jobs are sorted by submission, then by id (numeric ids as numbers), then by their order in the
/// trace. So ties can always be broken in favour of the lower JobIndex.
struct Workload {
  std::vector<TraceJob> jobs;
  std::optional<TraceCluster> cluster;  // Set if the trace has it.
  bool knows_runtimes = true;           // False: run times follow from `steps` and a table of throughputs.
  std::vector<std::string> notes;       // For people: what was left out, and how values were interpreted.
};

void Arrange(Workload& workload);

/// Parses the description of a cluster: nodes x GPUs per node : model, such as "96x8" or "36x4:v100,2x8:a100".
Result<TraceCluster> ParseCluster(std::string_view text);

/// Removes all jobs that were submitted before `from`, or at `to` or later.
void CutTo(Workload& workload, Time from, Time to);
/// Multiplies the load by `factor`: divides the times between submissions by it, from the first submission on.
/// Requires: `factor` > 0.
void ScaleLoad(Workload& workload, double factor);

}  // namespace divvy::simulate
