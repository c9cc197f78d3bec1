// What is kept of one job besides what it asked for: the row of the store, and all that the controller holds of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/seat.h"

namespace divvy {

/// A job, an array as a whole (`array_count` > 0), or one element of an array that differs from the rest of it.
/// An array with N elements owns the ids [id, id + N]: its own, and id + 1 + k for the element with ordinal k (from 0),
/// whose record is written when it starts or otherwise becomes different from the rest.
/// What is to become of a job that is being stopped.
enum class StopIntent { kNone, kCancel, kRequeue };

/// How far a job says it is (divvy progress), in the run that it is in, or was in last.
struct Progress {
  /// What is done is counted in billionths of the work.
  static constexpr std::int64_t kAll = 1'000'000'000;

  Time at = kNoTime;  // Of its last report; kNoTime: it has said nothing.
  std::int64_t done = 0;
  // As it said it: step 1,200 of 100,000 steps. No steps: it named a part of the whole.
  std::int64_t step = 0;
  std::int64_t steps = 0;
  // Its speed is measured from here: the first report on the GPUs that it has, since it was last paused. kNoTime: from
  // its next report.
  Time since = kNoTime;
  std::int64_t done_since = 0;
  /// In this run, so how long it took says nothing of its GPUs. Not kept on disk: a restart remembers it of those that
  /// are paused just then, and of no others.
  bool was_paused = false;

  friend bool operator==(const Progress&, const Progress&) = default;
};

struct JobRecord {
  JobId id;
  JobId spec_of;  // Whose spec it runs: its own id, or its array's.
  JobState state = JobState::kQueued;
  User user;
  std::string name;
  Request request;
  int priority = 0;
  Time submitted = kNoTime;
  Time queued_at = kNoTime;    // Its place in the line; who was taken back keeps it.
  Time waits_since = kNoTime;  // Its submission, its release, or the end of the run before.
  Time begin = kNoTime;
  Time started = kNoTime;
  Time ended = kNoTime;
  Duration time_limit{0};   // Of the run that it is in: no longer than until `end_by`.
  Time end_by = kNoTime;    // JobSpec.
  Duration full_limit{-1};  // As it was asked for, where `end_by` cut this run's; -1: it did not.
  std::string node;         // Where `gpus` are: the name of a machine; empty: the controller's own.
  GpuSet gpus;              // While it holds them, and what it last held.
  /// Of a job on several machines: what it has on each, in the order of its ranks. The first says the same as `node`
  /// and `gpus`. Empty: it is on one.
  std::vector<Seat> gang;
  bool was_let_go = false;               // All machines of the gang have prepared it, and were told to go.
  std::string gpu_model;                 // Of `gpus`, where all are of one model; else empty.
  GpuShare gpu_parts{GpuShare::kWhole};  // What it has of each of `gpus`.
  GpuSlice gpu_slice;                    // The MIG instance that it has of `gpus`.
  Progress progress;
  // Of an elastic job that runs.
  bool takes_resizes = false;    // It has said that it takes part in being resized (divvy checkpoint).
  GpuSet gpus_asked_back;        // Of `gpus`: what it was asked to give back.
  Time asked_back_at = kNoTime;  // Since when it has not answered.
  GpuSet gpus_used;              // What it was told to use when it last asked, or started.
  Time gpus_since = kNoTime;     // Since when it has just these; kNoTime: since its start.
  Time grown_at = kNoTime;       // When it last got more.
  std::uint32_t attempt = 0;     // Launch generation; counts up with every start. Stale reports carry an older one.
  std::uint32_t restarts = 0;    // How often it was started again (retry, requeue, reboot).
  std::uint32_t retries_used = 0;
  std::optional<Exit> exit;
  Reason reason;        // Why it is in its state.
  Reason start_reason;  // Why it started when it did.
  std::string shape;    // Of its command: what runs of the same kind have in common (engine/run_times.h).
  std::string project;
  std::string team;
  std::string pool;         // For which it was submitted; "a,b": for either, the first is liked best. Empty: for none.
  std::string pool_of_run;  // In which of these it runs, or ran last.
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
  bool is_run_once = false;  // JobSpec.
  int retries = 0;
  Duration retry_delay{0};
  PlacementStrategy placement = PlacementStrategy::kSequential;
  bool is_placement_set = false;
  Preemptible preemptible = Preemptible::kNever;
  bool is_preemptible_set = false;
  // Of an element.
  JobId array;                    // Not set: no element.
  std::uint32_t array_index = 0;  // What the user calls it: 3 of "17_3".
  std::uint32_t array_ordinal = 0;
  // Of an array as a whole.
  std::uint32_t array_count = 0;  // 0: no array.
  int array_at_once = 0;
  IndexRanges array_waiting;          // Ordinals that have not become records of their own.
  std::uint32_t array_succeeded = 0;  // Elements that ended well,
  std::uint32_t array_failed = 0;     // ended otherwise,
  std::uint32_t array_cancelled = 0;  // or were cancelled.
  int array_exit_code = 0;            // The highest exit code of its elements.
  IndexRanges array_indices;          // Ordinal k's index is the k-th member; empty: the ordinal itself.

  // Compiled once, in job_record.cc: copying and ending so many members is much code, and hundreds of files do it.
  JobRecord();
  JobRecord(const JobRecord&);
  JobRecord(JobRecord&&) noexcept;
  JobRecord& operator=(const JobRecord&);
  JobRecord& operator=(JobRecord&&) noexcept;
  ~JobRecord();

  friend bool operator==(const JobRecord&, const JobRecord&);
};

/// The id of an array's element: the ids after the array's own belong to its elements.
inline JobId ElementId(JobId array, std::uint32_t ordinal) { return JobId(array.value() + 1 + ordinal); }

/// On all of its machines; one that it has a part of counts as one.
int GpuCountOf(const JobRecord& record);
/// In whole GPUs and parts of them.
double GpusWorthOf(const JobRecord& record);
/// Its seats; of a job on one machine that one.
std::vector<Seat> SeatsOf(const JobRecord& record);
/// Has a part on this machine.
bool IsOn(const JobRecord& record, std::string_view node);

/// "17", "17_3", and "17_[4-99]" for an array's rest.
std::string DisplayId(const JobRecord& record);

std::string_view Name(JobState state);   // "timed_out"
std::string_view Name(Dialect dialect);  // "slurm"
std::string_view Name(PlacementStrategy placement);
std::string_view Name(TopologyNeed topology);
std::string_view Name(Preemptible preemptible);
/// As CUDA_VISIBLE_DEVICES has it: "0,1,5".
std::string GpuListText(GpuSet gpus);
/// As --gpus has it: "2", "2..8", "0.25", "2x0.5".
std::string GpuCountText(const Request& request);
/// As --topology has it: "nvlink", "nvlink:required"; empty for any.
std::string TopologyText(const Request& request);
std::optional<JobState> JobStateFromName(std::string_view name);

/// Since when it has waited for the run that it is in, waits for, or had last.
inline Time WaitingSince(const JobRecord& record) {
  return record.restarts > 0 ? std::max(record.waits_since, record.begin) : record.submitted;
}

/// Since 1970: when the job's time limit will have passed; kNever without one or before its start.
inline Time Deadline(const JobRecord& record) {
  if (record.started == kNoTime || record.time_limit == Duration(0)) return kNever;
  return AddSaturating(record.started, record.time_limit);
}

/// Since 1970: the last moment at which it can start and still be over by its `end_by`; kNever where it has none.
inline Time LatestStart(const JobRecord& record) {
  if (record.end_by == kNoTime) return kNever;
  return record.end_by - (record.full_limit >= Duration(0) ? record.full_limit : record.time_limit);
}

}  // namespace divvy
