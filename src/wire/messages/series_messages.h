// The messages of samples: how GPUs, nodes and jobs are used, now and over time. See messages.h for the conventions.
// samples/metric.h defines the metrics and their units; docs/samples.md lists them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// The error that answers a request for samples if they are disabled. The web page recognizes
/// it by its first clause.
inline constexpr std::string_view kSamplesDisabled =
    "samples are disabled: set on = true in [samples] of divvy.toml and restart";

/// One metric of a GPU, MIG instance, node, job, or the cluster. All lists have the same length; null: no sample.
struct SeriesView {
  std::string of;    // "gpu" | "slice" | "node" | "job" | "cluster"
  std::string node;  // Empty on a single-node server, and for jobs and the cluster.
  std::optional<std::int64_t> gpu;
  std::optional<std::int64_t> instance;  // For a slice: the driver's number of the GPU instance.
  std::optional<JobId> id;               // For a job.
  std::string metric;                    // "gpu_utilization"; a metric that a job reports itself: "own.loss".
  std::string unit;                      // "ratio", "bytes", "watts", ... Empty for metrics that a job reports itself.
  std::vector<std::optional<double>> mean;
  std::vector<std::optional<double>> min;
  std::vector<std::optional<double>> max;
  std::vector<std::optional<double>> step;  // For metrics that a job reports itself: the `step` that it reported with
                                            // each value.
};
struct SeriesAnswer {
  double step_s = 1;  // Seconds covered by each value.
  double begin = 0;   // Begin of the first value.
  std::vector<SeriesView> series;
};

/// A process on a GPU.
struct LatestProcess {
  std::int64_t pid = 0;
  std::optional<JobId> id;  // The job that the process belongs to.
  double memory_bytes = 0;
  std::optional<double> utilization;
  // Only for processes of jobs: CPU time in cores, resident host memory, and disk traffic.
  std::optional<double> cpu_cores;
  std::optional<double> host_memory_bytes;
  std::optional<double> read_bytes_per_second;
  std::optional<double> written_bytes_per_second;
};
/// `values`: by metric name.
struct LatestGpu {
  std::string node;
  std::int64_t gpu = 0;
  double time = 0;
  std::map<std::string, double> values;
  std::vector<LatestProcess> processes;
};
struct LatestSlice {
  std::string node;
  std::int64_t gpu = 0;
  std::int64_t instance = 0;
  double time = 0;
  std::map<std::string, double> values;
};
struct LatestNode {
  std::string node;
  double time = 0;
  std::map<std::string, double> values;
};
struct LatestJob {
  JobId id;
  double time = 0;
  std::map<std::string, double> values;  // Totals over all its nodes.
  std::map<std::string, double> own;     // The last values that it reported itself: "loss".
};
/// The latest sample of everything that is sampled now, and its time. Leaves out nodes that are disconnected or were
/// silent for half a minute, and whatever a connected node no longer reports.
struct LatestAnswer {
  double time = 0;
  bool is_on = true;  // Sampling is enabled.
  std::vector<LatestGpu> gpus;
  std::vector<LatestSlice> slices;
  std::vector<LatestNode> nodes;
  std::vector<LatestJob> jobs;
  std::map<std::string, double> cluster;
};

/// POST /v1/jobs/ID/metrics, by the job itself or for it: its own metrics by name ("loss"), as a line of its output
/// would report them. `attempt`: the run that reports, from DIVVY_ATTEMPT; 0: the current one.
struct OwnMetricsRequest {
  std::map<std::string, double> values;
  std::int64_t attempt = 0;
  // Set by a reader of the job's output: lines and names that it dropped since its last report.
  std::int64_t lines_left_out = 0;
  std::int64_t names_left_out = 0;
};

}  // namespace divvy::wire
