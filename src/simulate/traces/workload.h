// What a replay needs of a trace: who asked for what, when, and how long it ran; and, where the trace tells, of which
// cluster. Plain values, the same whatever format they were read from (readers: trace_formats.h).
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

/// Into Workload::jobs.
using JobIndex = std::uint32_t;

struct TraceJob {
  std::string id;       // As the trace has it; its line number where it names none.
  std::string user;     // Empty: not told; so are the next three.
  std::string team;     // Virtual cluster, account or project.
  std::string name;     // Or what it trained.
  std::string kind;     // Of its end, or of its training mode, in the trace's own words.
  Time submit{};        // Since 1970, or since the trace's own beginning.
  Duration runtime{0};  // While it holds all of its GPUs at full speed. 0 where Workload::knows_runtimes is false.
  Duration limit{0};    // 0: none.
  int gpus = 0;
  GpuShare share{GpuShare::kWhole};  // Of each of the GPUs.
  int nodes = 0;                     // That it was spread over; 0: not told.
  int cpus = 0;                      // 0: not told.
  Bytes memory;
  std::string gpu_type;  // Alternatives joined by '|'; empty: any.
  int priority = 0;      // Higher goes first.
  double weight = 1;     // Of its share, in traces about fairness.
  double steps = 0;      // Of training; 0: not told.
  // As it went on the cluster that the trace comes from.
  std::optional<Time> published_start;
  std::optional<Time> published_end;

  friend bool operator==(const TraceJob&, const TraceJob&) = default;
};

struct NodeGroup {
  int count = 0;
  int gpus = 0;  // Of each node; so are the next three.
  std::string model;
  int cpus = 0;  // 0: not told.
  Bytes memory;
  std::string rack;
  std::string team;  // Only this team's jobs run there; empty: everyone's.

  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

struct TraceCluster {
  std::vector<NodeGroup> groups;

  std::int64_t nodes() const;
  std::int64_t gpus() const;

  friend bool operator==(const TraceCluster&, const TraceCluster&) = default;
};

/// Invariant (Arrange): jobs are in the order of their submission; at one moment by id, ids that are numbers as
/// numbers; equal ones as the trace has them. So the lower JobIndex is the earlier job wherever a tie has to be broken.
struct Workload {
  std::vector<TraceJob> jobs;
  std::optional<TraceCluster> cluster;  // Where the trace tells.
  bool knows_runtimes = true;           // False: they follow from `steps` and a table of throughputs.
  std::vector<std::string> notes;       // What was left out and how values were read; for people.
};

void Arrange(Workload& workload);

/// "96x8", "36x4:v100,2x8:a100": nodes x GPUs of each : model.
Result<TraceCluster> ParseCluster(std::string_view text);

/// Keeps the jobs with from <= submit < to.
void CutTo(Workload& workload, Time from, Time to);
/// Submissions follow each other `factor` times as fast from the first one on; nothing else changes. Requires: > 0.
void ScaleLoad(Workload& workload, double factor);

}  // namespace divvy::simulate
