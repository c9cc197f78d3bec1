// The samples of one second, for any kind of subject.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samples/metric.h"

namespace divvy::samples {

/// Whole seconds since 1970; the time unit of this folder.
using Second = std::int64_t;

enum class Of : std::uint8_t { kGpu, kSlice, kNode, kJob, kCluster, kTeam };

/// Returns e.g. "gpu"; OfByName is the inverse.
std::string_view Name(Of of);
std::optional<Of> OfByName(std::string_view name);

/// The subject of a sample: a GPU, a MIG instance, a node, a job's part on a node, the cluster, or a team.
struct Subject {
  Of of = Of::kGpu;
  std::string node;       // Empty for the cluster. For kTeam: the team's name.
  int gpu = -1;           // Set for kGpu and kSlice.
  int instance = -1;      // Set for kSlice: the driver's number.
  std::uint64_t job = 0;  // Set for kJob.

  friend auto operator<=>(const Subject&, const Subject&) = default;
};

/// Returns the text stored on disk: "gpu/3/n1", "slice/3/1/n1", "node/n1", "job/17/n1", "cluster", "team/vision". A
/// name may contain any character.
std::string ToText(const Subject& subject);
/// Returns std::nullopt for text that ToText never writes.
std::optional<Subject> SubjectFromText(std::string_view text);

/// One value. If `name` is set, it is a job's own metric (without kOwnPrefix), and `metric` is ignored.
struct Reading {
  Metric metric = Metric::kGpuUtilization;
  double value = 0;
  std::string name = "";

  friend bool operator==(const Reading&, const Reading&) = default;
};

/// A process on a GPU, for live queries; no history is stored.
struct ProcessUse {
  std::int64_t pid = 0;
  std::uint64_t job = 0;  // 0: not a job of divvy.
  int gpu = -1;
  double memory_bytes = 0;
  double utilization = -1;  // -1: unknown; the same applies below.
  // For processes of jobs only, measured over the last second.
  double cpu_cores = -1;
  double host_memory_bytes = -1;  // Resident memory, including shared pages.
  double read_bytes_per_second = -1;
  double written_bytes_per_second = -1;

  friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

/// Exact counters of a GPU, for live queries; no history is stored. std::nullopt: unknown.
struct GpuCounters {
  int gpu = -1;
  std::optional<std::uint64_t> energy_millijoules;  // Since the driver was loaded.
  std::optional<std::uint64_t> xid_errors;          // Since this node's daemon or agent started to listen.

  friend bool operator==(const GpuCounters&, const GpuCounters&) = default;
};

struct Sample {
  Subject subject;
  std::vector<Reading> readings;  // Sorted by metric; a job's own metrics follow.

  friend bool operator==(const Sample&, const Sample&) = default;
};

/// All samples of a node in one second.
struct Snapshot {
  Second at = 0;
  std::vector<Sample> samples;
  std::vector<ProcessUse> processes;
  std::vector<GpuCounters> counters;  // Sorted by GPU.

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

/// The summary of several seconds; NaN if there were none.
struct Point {
  float mean;
  float least;
  float greatest;
};
/// Returns a point without any second: all of its values are NaN.
Point NoPoint();
bool IsPoint(const Point& point);
inline Point PointOf(double value) {
  const auto one = static_cast<float>(value);
  return {one, one, one};
}
/// Combines `a` with the later `b`; the weights are their lengths in seconds.
Point FoldPoints(Fold fold, const Point& a, double a_weight, const Point& b, double b_weight);

}  // namespace divvy::samples
