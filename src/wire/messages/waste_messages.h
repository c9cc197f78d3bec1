// Waste: running jobs that leave their GPUs unused, with what to do about it, and what was lost by whom over a stretch
// of time. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

/// What is wrong with a job.
struct WasteFinding {
  std::string kind;    // "idle", "some_idle", "cpu_bound", "underused", "small_memory"
  double since = 0;    // Seconds since 1970.
  double gpus = 0;     // That others could have: whole GPUs, and parts of them.
  std::string text;    // "uses 1 of its 4 GPUs; the others are at 0% for 40 min"
  std::string remedy;  // "submit it with --gpus 1", "divvy cancel 17"
};
/// A running job that wastes GPUs. Hours are those of its run, as far as its use was seen since the daemon began.
struct WastefulJob {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string team;
  std::string gpu_model;  // Empty: of several models.
  double gpus = 0;        // That it has; a part counts as the part.
  double start_time = 0;
  double wasted_gpus = 0;           // The most of its findings'.
  double gpu_hours = 0;             // In which its use was known.
  double lost_gpu_hours = 0;        // Of these by (1 - use).
  double idle_gpu_hours = 0;        // Of these at exactly 0%.
  std::optional<double> lost_cost;  // What the lost ones cost, where GPUs have prices.
  std::vector<WasteFinding> findings;
  std::string action;                 // That is to be done about it: "park", "pause", "requeue", "stop"; empty: none.
  std::string action_text;            // What it is then: "paused", "queued again and held".
  std::optional<double> action_time;  // When, unless it uses its GPUs by then.
  std::int64_t warnings = 0;          // That it was given,
  std::int64_t warnings_most = 0;     // of so many.
};
struct WasteAnswer {
  double time = 0;
  bool is_on = true;              // It is watched.
  double wasted_gpus = 0;         // Of all jobs.
  std::vector<WastefulJob> jobs;  // Who wastes most first.
};

/// What the last run of a job lost of its GPUs, as far as it was seen, and what it should have asked for.
struct JobWaste {
  JobId id;
  std::string display_id;
  bool has_ended = false;
  double gpu_hours = 0;  // In which their use was known; a part of a GPU counts as the part.
  double lost_gpu_hours = 0;
  double idle_gpu_hours = 0;
  double lost_share = 0;  // Lost to known, 0..1.
  std::optional<double> lost_cost;
  bool is_small = false;               // Not worth telling: within the grace, or next to nothing. Sums count it.
  std::vector<WasteFinding> findings;  // Of an ended run those of all of it but the grace after its start.
};

/// The job that a row is of.
struct RowJob {
  JobId id;
  std::string name;
  std::string user;
  std::string state;
};
/// What a group of runs lost, as far as it lies in the stretch.
struct WasteRow {
  std::string group;      // A user, team, job name, GPU model, pool, machine, hour ("2026-03-01T16", UTC) or job.
  std::int64_t jobs = 0;  // Of which something was seen.
  double gpu_hours = 0;   // In which their use was known; a part of a GPU counts as the part.
  double lost_gpu_hours = 0;
  double idle_gpu_hours = 0;
  double lost_share = 0;  // Lost to known, 0..1.
  std::optional<double> lost_cost;
  std::optional<RowJob> job;           // By job.
  bool is_small = false;               // By job: as JobWaste has it.
  std::vector<WasteFinding> findings;  // By job, of one that runs or has ended: what is to be done about it.
};
struct WasteReport {
  double since = 0;
  double until = 0;
  std::string by;
  double gpu_hours = 0;
  double lost_gpu_hours = 0;
  double idle_gpu_hours = 0;
  std::optional<double> lost_cost;
  bool is_cut = false;         // There are more runs than are read at once; the oldest are left out.
  std::vector<WasteRow> rows;  // Who lost most first, of jobs the first 1,000; hours in their order.
  WasteAnswer now;
};

/// What a job was told of its waste in one of its runs, as it is kept over restarts.
struct KeptWaste {
  std::int64_t attempt = 0;
  std::int64_t told = 0;  // Kinds, as bits.
  std::int64_t warnings = 0;
  std::int64_t next_at = 0;  // Seconds since 1970.
  bool is_done = false;
  std::int64_t requeues = 0;  // So often it was queued again for it, in this run and those before.

  friend bool operator==(const KeptWaste&, const KeptWaste&) = default;
};

/// What a run that is over should have asked for, as it is kept with its samples.
struct KeptFindings {
  std::int64_t ended = 0;  // That run: seconds since 1970.
  std::vector<WasteFinding> findings;
};

/// How well a group of runs used what it had.
struct EfficiencyRow {
  std::string group;
  std::int64_t jobs = 0;
  double gpu_hours = 0;
  double utilization = 0;         // Mean over its GPU-hours, of what it had, 0..1.
  double memory_peak_bytes = 0;   // Of one GPU; the greatest of its runs.
  double cpu_cores = 0;           // Mean of a run at a time.
  std::optional<double> cpu_use;  // Of the cores that its runs asked for, 0..1; none: they named none.
  std::optional<RowJob> job;      // By job.
};
struct EfficiencyReport {
  double since = 0;
  double until = 0;
  std::string by;
  double gpu_hours = 0;
  double utilization = 0;
  bool is_cut = false;
  std::vector<EfficiencyRow> rows;  // Most GPU-hours first; jobs by those that they did not use, the first 1,000;
                                    // hours in their order.
};

}  // namespace divvy::wire
