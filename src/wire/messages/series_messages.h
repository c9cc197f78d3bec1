// The messages of samples: how GPUs, machines and jobs are used, now and over time. See messages.h for the conventions.
// Metrics and their units are those of samples/metric.h; docs/samples.md lists them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// One metric of one GPU, MIG instance, machine, job, or of all. Equally many values each; null: none was seen.
struct SeriesView {
  std::string of;    // "gpu" | "slice" | "node" | "job" | "cluster"
  std::string node;  // Empty where there is one machine alone, and for jobs and the cluster.
  std::optional<std::int64_t> gpu;
  std::optional<std::int64_t> instance;  // Of a slice: the driver's number of the GPU instance.
  std::optional<JobId> id;               // Of a job.
  std::string metric;                    // "gpu_utilization"; a job's own: "own.loss".
  std::string unit;                      // "ratio", "bytes", "watts", ...; empty for a job's own.
  std::vector<std::optional<double>> mean;
  std::vector<std::optional<double>> min;
  std::vector<std::optional<double>> max;
  std::vector<std::optional<double>> step;  // Of a job's own, where it says `step` beside them.
};
struct SeriesAnswer {
  double step_s = 1;  // Seconds of each value.
  double begin = 0;   // Of the first.
  std::vector<SeriesView> series;
};

/// A process on a GPU.
struct LatestProcess {
  std::int64_t pid = 0;
  std::optional<JobId> id;  // The job that it belongs to.
  double memory_bytes = 0;
  std::optional<double> utilization;
  // Of a job's process: its own time of processors, in cores; what of it is resident in the machine's memory; disks.
  std::optional<double> cpu_cores;
  std::optional<double> host_memory_bytes;
  std::optional<double> read_bytes_per_second;
  std::optional<double> written_bytes_per_second;
};
/// `values`: by metric.
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
  std::map<std::string, double> values;  // Of all its machines together.
  std::map<std::string, double> own;     // What it said last of itself: "loss".
};
/// What was seen last of everything that is seen now, and when (`time` of each). Left out is what a machine that goes
/// on says nothing of any more, a machine that is away, and one that has said nothing for half a minute.
struct LatestAnswer {
  double time = 0;
  bool is_on = true;  // Samples are taken.
  std::vector<LatestGpu> gpus;
  std::vector<LatestSlice> slices;
  std::vector<LatestNode> nodes;
  std::vector<LatestJob> jobs;
  std::map<std::string, double> cluster;
};

/// POST /v1/jobs/ID/metrics, by the job itself or for it: numbers of its own, by name ("loss"), as a line of its output
/// would say them. `attempt`: which run says so, as DIVVY_ATTEMPT has it; 0: the one that there is.
struct OwnMetricsRequest {
  std::map<std::string, double> values;
  std::int64_t attempt = 0;
  // By who reads a job's output and has its numbers from there: what it left out since it told last.
  std::int64_t lines_left_out = 0;
  std::int64_t names_left_out = 0;
};

}  // namespace divvy::wire
