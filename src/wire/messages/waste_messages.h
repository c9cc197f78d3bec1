// The messages of waste reports: running jobs that leave their GPUs unused, remedies for them, and the GPU-hours lost
// over a period. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// One way in which a job wastes its GPUs.
struct WasteFinding {
  std::string kind;    // "idle", "some_idle", "cpu_bound", "underused", "small_memory"
  double since = 0;    // Seconds since 1970.
  double gpus = 0;     // GPUs that others could use: whole GPUs and fractions.
  std::string text;    // "uses 1 of its 4 GPUs; the others are at 0% for 40 min"
  std::string remedy;  // "submit it with --gpus 1", "divvy cancel 17"
};
/// A running job that wastes GPUs. Hours cover its current run, as far as it was observed since the daemon started.
struct WastefulJob {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string team;
  std::string gpu_model;  // Empty: its GPUs have several models.
  double gpus = 0;        // GPUs that it has. A fraction counts as that fraction.
  double start_time = 0;
  double wasted_gpus = 0;           // The maximum over its findings.
  double gpu_hours = 0;             // GPU-hours for which its utilization is known.
  double lost_gpu_hours = 0;        // The sum of (1 - utilization) over these hours.
  double idle_gpu_hours = 0;        // The part of these hours at exactly 0%.
  std::optional<double> lost_cost;  // The cost of the lost hours, if GPUs have prices.
  std::vector<WasteFinding> findings;
  std::string action;                 // The action planned against it: "park", "pause", "requeue", "stop". Empty: none.
  std::string action_text;            // Its state after the action: "paused", "queued again and held".
  std::optional<double> action_time;  // When the action happens, unless the job uses its GPUs by then.
  std::int64_t warnings = 0;          // Warnings sent so far.
  std::int64_t max_warnings = 0;      // Warnings sent before the action.
};
struct WasteAnswer {
  double time = 0;
  bool is_on = true;              // Waste detection is enabled.
  double wasted_gpus = 0;         // The sum over all jobs.
  std::vector<WastefulJob> jobs;  // Most wasted GPUs first.
};

/// The loss of a job's last run, as far as it was observed, and what the job should have requested.
struct JobWaste {
  JobId id;
  std::string display_id;
  bool has_ended = false;
  double gpu_hours = 0;  // GPU-hours for which its utilization is known. A GPU fraction counts as that fraction.
  double lost_gpu_hours = 0;
  double idle_gpu_hours = 0;
  double lost_share = 0;  // Lost hours divided by gpu_hours, 0..1.
  std::optional<double> lost_cost;
  bool is_small = false;               // Too little to report: within the grace period, or almost nothing. Sums include
                                       // it.
  std::vector<WasteFinding> findings;  // For an ended run: findings over the whole run, without the grace period after
                                       // its start.
};

/// The job of a row in a report by job.
struct RowJob {
  JobId id;
  std::string name;
  std::string user;
  std::string state;
};
/// The loss of a group of runs within the period.
struct WasteRow {
  std::string group;      // A user, team, job name, GPU model, pool, node, hour ("2026-03-01T16", UTC) or job.
  std::int64_t jobs = 0;  // Jobs that were observed.
  double gpu_hours = 0;   // GPU-hours for which their utilization is known. A GPU fraction counts as that fraction.
  double lost_gpu_hours = 0;
  double idle_gpu_hours = 0;
  double lost_share = 0;  // Lost hours divided by gpu_hours, 0..1.
  std::optional<double> lost_cost;
  std::optional<RowJob> job;           // Only in reports by job.
  bool is_small = false;               // Only in reports by job: JobWaste::is_small.
  std::vector<WasteFinding> findings;  // Only in reports by job, for running and ended jobs: the remedies.
};
struct WasteReport {
  double since = 0;
  double until = 0;
  std::string by;
  double gpu_hours = 0;
  double lost_gpu_hours = 0;
  double idle_gpu_hours = 0;
  std::optional<double> lost_cost;
  bool is_cut = false;         // Only the newest runs were read, because there are too many.
  std::vector<WasteRow> rows;  // Largest loss first. By job: the first 1,000. By hour: in order of time.
  WasteAnswer now;
};

/// The waste warnings of a job in one of its runs, stored across restarts of the daemon.
struct KeptWaste {
  std::int64_t attempt = 0;
  std::int64_t told = 0;  // Finding kinds that were reported, as bits.
  std::int64_t warnings = 0;
  std::int64_t next_at = 0;  // Seconds since 1970.
  bool is_done = false;
  std::int64_t requeues = 0;  // How often it was requeued for waste, in this run and earlier ones.

  friend bool operator==(const KeptWaste&, const KeptWaste&) = default;
};

/// Better requests for an ended run, stored with its samples.
struct KeptFindings {
  std::int64_t ended = 0;  // End of that run, in seconds since 1970.
  std::vector<WasteFinding> findings;
};

/// How well a group of runs used its GPUs, CPUs and memory.
struct EfficiencyRow {
  std::string group;
  std::int64_t jobs = 0;
  double gpu_hours = 0;
  double utilization = 0;         // Mean over its GPU-hours, 0..1.
  double memory_peak_bytes = 0;   // Per GPU; the maximum of its runs.
  double cpu_cores = 0;           // Mean CPU cores in use per run.
  std::optional<double> cpu_use;  // Relative to the cores that its runs requested, 0..1. Absent: they requested none.
  std::optional<RowJob> job;      // Only in reports by job.
};
struct EfficiencyReport {
  double since = 0;
  double until = 0;
  std::string by;
  double gpu_hours = 0;
  double utilization = 0;
  bool is_cut = false;
  std::vector<EfficiencyRow> rows;  // Most GPU-hours first. By job: the first 1,000, most unused GPU-hours first. By
                                    // hour: in order of time.
};

}  // namespace divvy::wire
