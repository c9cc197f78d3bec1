// Reports over a period: GPU-hours by group, waiting times, and how evenly both are distributed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/messages/waste_messages.h"

namespace divvy::wire {

/// The usage of one group of runs within the period.
struct UsageRow {
  std::string group;            // A user, team, job name, GPU model, pool, node, hour ("2026-03-01T16") or job.
  std::int64_t jobs = 0;        // Jobs that ran in the period, plus jobs that waited and never started.
  std::int64_t running = 0;     // The number of these that still run.
  std::int64_t failed = 0;      // The number of these that failed, timed out or were lost.
  double gpu_hours = 0;         // A GPU fraction counts as that fraction.
  double failed_gpu_hours = 0;  // GPU-hours of runs that failed, timed out or were lost.
  double share = 0;             // Share of the GPU-hours of all rows, 0..1.
  // Waiting times of the runs that started in the period, in seconds. Absent if none did.
  std::optional<double> wait_mean_s;
  std::optional<double> wait_median_s;
  std::optional<double> wait_p95_s;
  std::optional<RowJob> job;  // Only in reports by job.
  /// The jobs' part of the price of nodes of providers, in the unit of the prices. Absent if no such node existed.
  std::optional<double> nodes_cost;
  std::optional<double> nodes_share;  // That part of what these nodes cost while the jobs were there, 0..1.
};
struct UsageReport {
  double since = 0;
  double until = 0;
  std::string by;
  double gpu_hours = 0;              // The total of all runs.
  double capacity_gpu_hours = 0;     // GPU-hours that the current GPUs offer over the period. 0: there are no GPUs.
  bool is_cut = false;               // Only the newest runs were read, because there are too many.
  std::optional<double> nodes_cost;  // The cost of all nodes of providers in the period. Absent if none existed.
  std::optional<double> unused_nodes_cost;  // The part of it that no job had. Absent too if `is_cut`.
  /// Most GPU-hours first. By hour: in order of time. By job: the first 1,000, most GPU-hours of failed runs first.
  std::vector<UsageRow> rows;
};

/// The GPU-hours and waiting times of one user or team.
struct FairnessRow {
  std::string group;
  std::int64_t jobs = 0;  // Jobs that started in the period.
  double gpu_hours = 0;
  double share = 0;  // Share of all GPU-hours, 0..1.
  double wait_median_s = 0;
  double wait_longest_s = 0;
  double slowdown_median = 0;  // (waiting + running) / running; runs below 10 s count as 10 s. 1: never waited.
  double slowdown_p95 = 0;
};
struct FairnessReport {
  double since = 0;
  double until = 0;
  std::string by;
  double evenness_of_share = 0;     // Jain's index over GPU-hours. 1: all equal; 1/n: one has all.
  double evenness_of_slowdown = 0;  // Jain's index over the median slowdowns.
  bool is_cut = false;
  std::vector<FairnessRow> rows;  // Largest slowdown first.
};

}  // namespace divvy::wire
