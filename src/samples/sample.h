// What was seen in one second, of whatever it was seen of.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samples/metric.h"

namespace divvy::samples {

/// Whole seconds since 1970, as everything here counts time.
using Second = std::int64_t;

enum class Of : std::uint8_t { kGpu, kSlice, kNode, kJob, kCluster, kTeam };

/// "gpu"; and back.
std::string_view Name(Of of);
std::optional<Of> OfByName(std::string_view name);

/// A GPU of a machine, a MIG instance of one, a machine, a job's part on a machine, all together, or a team.
struct Subject {
  Of of = Of::kGpu;
  std::string node;       // Empty: of the cluster. Of kTeam: the team's name.
  int gpu = -1;           // Of kGpu and kSlice.
  int instance = -1;      // Of kSlice: by the driver's number.
  std::uint64_t job = 0;  // Of kJob.

  friend auto operator<=>(const Subject&, const Subject&) = default;
};

/// "gpu/3/n1", "slice/3/1/n1", "node/n1", "job/17/n1", "cluster", "team/vision": as kept on disk. A name may hold
/// anything.
std::string ToText(const Subject& subject);
/// Nothing for what ToText never writes.
std::optional<Subject> SubjectFromText(std::string_view text);

/// One quantity. `name`, where it is set, is a job's own (without kOwnPrefix), and `metric` means nothing.
struct Reading {
  Metric metric = Metric::kGpuUtilization;
  double value = 0;
  std::string name = "";

  friend bool operator==(const Reading&, const Reading&) = default;
};

/// A process on a GPU, for those who look right now; no history is kept of it.
struct ProcessUse {
  std::int64_t pid = 0;
  std::uint64_t job = 0;  // 0: not divvy's.
  int gpu = -1;
  double memory_bytes = 0;
  double utilization = -1;  // -1: not known, as below.
  // Of a job's process alone, since the second before.
  double cpu_cores = -1;
  double host_memory_bytes = -1;  // Resident, with what it shares.
  double read_bytes_per_second = -1;
  double written_bytes_per_second = -1;

  friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

/// What a GPU has counted, for those who ask right now; exact, and no history is kept of it. Nothing: not known.
struct GpuCounters {
  int gpu = -1;
  std::optional<std::uint64_t> energy_millijoules;  // Since its driver was loaded.
  std::optional<std::uint64_t> xid_errors;          // Since somebody listens: this machine's daemon or agent began.

  friend bool operator==(const GpuCounters&, const GpuCounters&) = default;
};

struct Sample {
  Subject subject;
  std::vector<Reading> readings;  // By metric, ascending; a job's own after them.

  friend bool operator==(const Sample&, const Sample&) = default;
};

/// All that a machine showed in one second.
struct Snapshot {
  Second at = 0;
  std::vector<Sample> samples;
  std::vector<ProcessUse> processes;
  std::vector<GpuCounters> counters;  // By GPU, ascending.

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

/// What seconds became: NaN where there was none.
struct Point {
  float mean;
  float least;
  float greatest;
};
/// Of no second at all.
Point NoPoint();
bool IsPoint(const Point& point);
inline Point PointOf(double value) {
  const auto one = static_cast<float>(value);
  return {one, one, one};
}
/// Of `a`, `a_weight` seconds long, and `b`, which is later: what both are together.
Point FoldPoints(Fold fold, const Point& a, double a_weight, const Point& b, double b_weight);

}  // namespace divvy::samples
