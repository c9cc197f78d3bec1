// The state of a job, in addition to its spec: the row of the store, and all that the controller keeps in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/node_allocation.h"

namespace divvy {

/// Why a job is being stopped, and so what happens to it afterwards.
enum class StopIntent { kNone, kCancel, kRequeue };

/// The progress that a job reports (divvy progress), in its current or last run.
struct Progress {
  /// `done` counts billionths of the work.
  static constexpr std::int64_t kAll = 1'000'000'000;

  Time at = kNoTime;  // Time of its last report. kNoTime: none yet.
  std::int64_t done = 0;
  // As the job reported it: step 1,200 of 100,000 steps. `steps` is 0 if it reported a fraction.
  std::int64_t step = 0;
  std::int64_t steps = 0;
  // Start of the speed measurement: the first report on its current GPUs, since it was last paused. kNoTime: its next
  // report starts the measurement.
  Time since = kNoTime;
  std::int64_t done_since = 0;
  /// Paused during this run, so its run time says nothing about the speed of its GPUs. Not stored on disk: after a
  /// restart it is only set for jobs that are paused at that moment.
  bool was_paused = false;

  friend bool operator==(const Progress&, const Progress&) = default;
};

/// A job, an array as a whole (`array_count` > 0), or one element of an array that differs from the rest.
///
/// An array with N elements owns the ids [id, id + N]: its own, and id + 1 + k for the element with ordinal k (from 0).
/// An element's record is written when it starts or otherwise starts to differ from the rest.
struct JobRecord {
  JobId id;
  JobId spec_of;  // The id of the job whose spec it runs: its own, or its array's.
  JobState state = JobState::kQueued;
  User user;
  std::string name;
  Request request;
  int priority = 0;
  Time submitted = kNoTime;
  Time queued_at = kNoTime;    // Determines its queue position; preserved across preemption.
  Time waits_since = kNoTime;  // Time of its submission, its release, or the end of its previous run.
  Time begin = kNoTime;
  Time started = kNoTime;
  Time ended = kNoTime;
  Duration time_limit{0};   // The limit of this run. Shortened so that it ends by `end_by`.
  Time end_by = kNoTime;    // See JobSpec::end_by.
  Duration full_limit{-1};  // The requested limit, if `end_by` shortened this run's limit. -1: it did not.
  std::string node;         // Name of the node of `gpus`. Empty: the controller's own node.
  GpuSet gpus;              // The GPUs that it holds, or held last.
  /// For jobs on several nodes: its resources on each node, in rank order. The first entry repeats `node` and `gpus`.
  /// Empty: it is on one node.
  std::vector<NodeAllocation> gang;
  bool was_let_go = false;               // All nodes of the gang were prepared, and were told to start.
  std::string gpu_model;                 // Model of `gpus`. Empty if they have several models.
  GpuShare gpu_parts{GpuShare::kWhole};  // The fraction that it has of each of `gpus`.
  GpuSlice gpu_slice;                    // Its MIG instance on `gpus`.
  Progress progress;
  // For running elastic jobs.
  bool takes_resizes = false;    // The job has announced that it can be resized (divvy checkpoint).
  GpuSet gpus_asked_back;        // The GPUs of `gpus` that it was asked to release.
  Time asked_back_at = kNoTime;  // When it was asked. It has not answered since then.
  GpuSet gpus_used;              // The GPUs that it was told to use at its start or its last checkpoint.
  Time gpus_since = kNoTime;     // Since when it has exactly these GPUs. kNoTime: since its start.
  Time grown_at = kNoTime;       // When it last got additional GPUs.
  std::uint32_t attempt = 0;     // Launch generation, incremented at every start. A report with an older one is stale.
  std::uint32_t restarts = 0;    // Number of restarts (retry, requeue, reboot).
  std::uint32_t retries_used = 0;
  std::optional<Exit> exit;
  Reason reason;        // Why it is in its state.
  Reason start_reason;  // Why it started when it did.
  std::string shape;    // The shape of its command, which similar runs share (engine/run_times.h).
  std::string project;
  std::string team;
  std::string pool;         // The pools that it was submitted to. "a,b": either; the first is preferred. Empty: none.
  std::string pool_of_run;  // The pool of its current or last run.
  std::string comment;
  std::string group;
  Dialect dialect = Dialect::kNative;
  std::vector<Dependency> dependencies;
  bool needs_any_dependency = false;
  bool keeps_waiting = false;
  bool is_held = false;
  StopIntent stop_intent = StopIntent::kNone;
  bool is_foreground = false;
  bool wants_pty = false;
  bool requeues_after_reboot = false;
  bool is_run_once = false;  // See JobSpec::is_run_once.
  Duration stale_grace{0};   // See JobSpec::stale_grace.
  int retries = 0;
  Duration retry_delay{0};
  PlacementStrategy placement = PlacementStrategy::kSequential;
  bool is_placement_set = false;
  Preemptible preemptible = Preemptible::kNever;
  bool is_preemptible_set = false;
  // For array elements.
  JobId array;                    // Not set: not an array element.
  std::uint32_t array_index = 0;  // Its index for users: 3 in "17_3".
  std::uint32_t array_ordinal = 0;
  // For an array as a whole.
  std::uint32_t array_count = 0;  // Number of elements. 0: not an array.
  int array_at_once = 0;
  IndexRanges array_waiting;          // Ordinals of the elements that have no record of their own yet.
  std::uint32_t array_succeeded = 0;  // Number of elements that succeeded.
  std::uint32_t array_failed = 0;     // Number of elements that ended otherwise.
  std::uint32_t array_cancelled = 0;  // Number of elements that were cancelled.
  int array_exit_code = 0;            // The highest exit code of its elements.
  IndexRanges array_indices;          // The index of ordinal k is the k-th member. Empty: the ordinal is the index.

  // Compiled once, in job_record.cc. Copying and destroying this many members takes much code, and hundreds of files
  // need it.
  JobRecord();
  JobRecord(const JobRecord&);
  JobRecord(JobRecord&&) noexcept;
  JobRecord& operator=(const JobRecord&);
  JobRecord& operator=(JobRecord&&) noexcept;
  ~JobRecord();

  friend bool operator==(const JobRecord&, const JobRecord&);
};

/// The id of an array element: the ids after the array's own id belong to its elements.
inline JobId ElementId(JobId array, std::uint32_t ordinal) { return JobId(array.value() + 1 + ordinal); }

/// Returns the number of GPUs of a job on all of its nodes. A GPU of which the job has a fraction counts as one.
int GpuCountOf(const JobRecord& record);
/// Returns the number of GPUs of a job on all of its nodes, where a fraction of a GPU counts as that fraction.
double GpusWorthOf(const JobRecord& record);
/// Returns the job's node allocations. A job on one node has a single one.
std::vector<NodeAllocation> AllocationsOf(const JobRecord& record);
/// Returns whether the job has an allocation on this node.
bool IsOn(const JobRecord& record, std::string_view node);

/// "17", "17_3", and "17_[4-99]" for the elements of an array that have not started.
std::string DisplayId(const JobRecord& record);

std::string_view Name(JobState state);   // "timed_out"
std::string_view Name(Dialect dialect);  // "slurm"
std::string_view Name(PlacementStrategy placement);
std::string_view Name(TopologyNeed topology);
std::string_view Name(Preemptible preemptible);
/// In the format of CUDA_VISIBLE_DEVICES: "0,1,5".
std::string GpuListText(GpuSet gpus);
/// In the format of --gpus: "2", "2..8", "0.25", "2x0.5".
std::string GpuCountText(const Request& request);
/// In the format of --topology: "nvlink", "nvlink:required"; empty for any.
std::string TopologyText(const Request& request);
std::optional<JobState> JobStateFromName(std::string_view name);

/// When the job began to wait for its current, next or last run.
inline Time WaitingSince(const JobRecord& record) {
  return record.restarts > 0 ? std::max(record.waits_since, record.begin) : record.submitted;
}

/// The end of the job's time limit, since 1970. kNever without a limit or before its start.
inline Time Deadline(const JobRecord& record) {
  if (record.started == kNoTime || record.time_limit == Duration(0)) return kNever;
  return AddSaturating(record.started, record.time_limit);
}

/// The latest start, as a time since 1970, with which the job still ends by its deadline `end_by`. kNever if it has no
/// deadline.
inline Time LatestStart(const JobRecord& record) {
  if (record.end_by == kNoTime) return kNever;
  return record.end_by - (record.full_limit >= Duration(0) ? record.full_limit : record.time_limit);
}

}  // namespace divvy
