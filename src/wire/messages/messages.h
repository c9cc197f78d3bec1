// The messages of the API, once: the same structs serve the daemon, the command line, the web page and the OpenAPI
// document (wire/messages/messages_describe.h says their fields to all four). A field may be added in any release and
// is then ignored by older readers; a field is never renamed or given another meaning inside /v1.
//
// Times are seconds since 1970 with a fraction, durations seconds, memory bytes. JobSpec (model/job.h) is a message
// too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

struct StatusView {
  std::int64_t pid = 0;
  std::string version;
  double uptime_s = 0;
  std::string home;  // Where its state is; empty for the machine-wide daemon.
  std::string socket;
  std::string user;  // Whose daemon it is.
  bool is_machine_wide = false;
  std::string gpu_source;  // "NVML (driver 550.54)", "emulated: 8xH100-80GB", "none: ..." with the reason.
  std::string policy;      // "small-first".
  std::string isolation;   // "advisory (CUDA_VISIBLE_DEVICES)": what is enforced is called enforced.
  std::string listens;     // For other machines, over TLS: "gpu1.lab:7433"; empty: for none.
  std::int64_t gpus = 0;
  std::int64_t gpus_free = 0;  // Whoever comes may have them.
  std::int64_t jobs_queued = 0;
  std::int64_t jobs_held = 0;
  std::int64_t jobs_running = 0;
  std::int64_t jobs_total = 0;  // Ever submitted.
  bool accepts_work = true;
  std::string trouble;  // Why it does not: "the disk under /var/lib/divvy is full".
  std::vector<std::string> warnings;
  std::int64_t gpus_reserved = 0;  // Idle, and kept for somebody by a reservation in force.
  std::string node;                // How its machine is called among several; empty: there is no other.
  std::int64_t gpus_lent = 0;      // Of the free ones: parts of GPUs are there beyond their plan, until somebody comes.
};

struct GpuProcessView {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::int64_t memory_bytes = 0;
  double age_s = 0;
  bool is_graphics = false;
  std::optional<JobId> job;  // The divvy job that it belongs to.
  bool is_ignored = false;
};

/// A job that has a part of a GPU, as it is there at this moment.
struct TenantView {
  JobId job;
  std::string display_id;
  std::string name;
  std::string user;
  std::string state;   // "running", "idle", "parking", "parked", "waking", "moving"; "paused": its job is; "starting":
                       // not there yet; "unknown": its machine is away.
  std::string share;   // What it asked for: "0.25 to 0.8", "20 to 40 GiB".
  double request = 0;  // Its own part of the GPU.
  std::int64_t request_bytes = 0;   // The same of its memory;
  std::int64_t limit_bytes = 0;     // the most that it gets,
  std::int64_t ceiling_bytes = 0;   // may have now,
  std::int64_t used_bytes = 0;      // has,
  std::int64_t borrowed_bytes = 0;  // and has of what is others'.
  double compute = 0;               // Its part of the GPU's time in the last second,
  double compute_request = 0;       // by right,
  double compute_limit = 0;         // and at most.
  bool is_compute_known = false;    // False: nobody measures its time, or it is not there yet.
  std::int64_t paper_gpu = 0;       // Where the plan has it; another GPU than this one where it was spread or moved.
  std::string mechanism;            // "enforced by interposer", "MIG", "MPS", "advisory".
  bool is_movable = false;
  std::string note;  // What is to be said of it: what it borrows, waits for, why it cannot be moved, what went wrong.
};

struct GpuView {
  std::int64_t index = 0;
  std::string uuid;
  std::string model;
  std::int64_t memory_total_bytes = 0;
  std::int64_t memory_used_bytes = 0;
  std::string state;   // "free" | "allocated" | "reserved" | "unmanaged" | "restricted" | "fenced" | "away"
  std::string reason;  // Why it is not free, for people.
  std::vector<JobId> jobs;
  std::vector<std::string> job_display_ids;  // Of `jobs`, in their order: "17", "17_3".
  std::string pci_address;
  std::int64_t numa_node = -1;
  std::string compute_capability;  // "9.0"
  bool is_mig_enabled = false;
  std::vector<std::string> slices;  // The MIG instances that it can be cut into: "1g.18gb".
  std::vector<std::string> links;
  std::int64_t utilisation_percent = -1;
  std::int64_t temperature_celsius = -1;
  std::int64_t power_watts = -1;
  std::vector<GpuProcessView> processes;
  std::string isolation;
  std::string node;                 // Whose it is.
  double free = 0;                  // The part of it that nobody has by the plan.
  std::vector<TenantView> tenants;  // Who has parts of it.
  std::string reservation;          // By name or number, where one keeps it ("reserved").
};

/// A component of a heterogeneous job beyond its first.
struct ComponentView {
  std::int64_t gpus = 0;
  std::string gpu_type;
  std::int64_t gpu_memory_bytes = 0;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t tasks = 1;
  std::int64_t nodes = 1;  // Machines, each of which gives all of this.
  bool spreads_tasks = false;
  std::string constraint;
  std::vector<std::string> node_list;
  std::vector<std::string> excluded_nodes;
  std::string pool;  // Empty: as the job's.
};

struct RequestView {
  std::int64_t gpus = 0;
  std::string gpu_type;
  std::int64_t gpu_memory_bytes = 0;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t tasks = 1;
  double time_limit_s = 0;     // 0: none.
  std::int64_t gpus_most = 0;  // Elastic: from `gpus` to this; 0: fixed.
  std::string topology;        // "numa", "nvlink:required"; empty: any.
  std::string placement;       // "pack"; empty: the server's own.
  std::int64_t nodes = 1;      // Machines, each of which gives all of this.
  bool spreads_tasks = false;  // Its tasks may lie on several machines, each with its even share.
  std::string constraint;      // Features of its machines: "ib&nvme"; empty: any.
  std::vector<std::string> node_list;
  std::vector<std::string> excluded_nodes;
  std::vector<ComponentView> others;  // Of a heterogeneous job: its components beyond the first, which is all of this.
  GpuPortion portion;                 // A part of each of `gpus` in place of whole ones.
  std::string slice;                  // A MIG instance in place of a GPU: "1g.18gb".
  std::optional<double> end_by;       // It has ended by then, or does not start at all.
};

/// Of a heterogeneous job: what one of its components has on a machine.
struct SeatPartView {
  std::int64_t component = 0;
  std::vector<std::int64_t> gpus;
  std::int64_t tasks = 1;
};

/// What a job has on one of its machines.
struct SeatView {
  std::string node;
  std::vector<std::int64_t> gpus;
  std::int64_t tasks = 1;
  std::vector<SeatPartView> parts;  // Of a heterogeneous job: by component.
};

/// One GPU of a job that has parts of GPUs, as it is at this moment.
struct SharedGpuView {
  std::int64_t gpu = 0;             // Where it is, or was when it was parked.
  std::int64_t paper_gpu = 0;       // Where the plan has it.
  std::int64_t request_bytes = 0;   // Its own of the memory;
  std::int64_t limit_bytes = 0;     // the most that it gets,
  std::int64_t ceiling_bytes = 0;   // may have now,
  std::int64_t used_bytes = 0;      // has,
  std::int64_t borrowed_bytes = 0;  // and has of what is others'.
  double compute = 0;               // Its part of the GPU's time in the last second,
  double compute_request = 0;       // by right,
  double compute_limit = 0;         // and at most.
  bool is_compute_known = false;    // False: nobody measures its time.
};
/// A job that has parts of GPUs, while it runs: where it really is, and what happens to it there.
struct ShareView {
  std::string part;   // What it asked for: "0.25 to 0.8", "20 to 40 GiB".
  std::string state;  // As of TenantView.
  std::string note;   // "parked on the host: its room was needed", "borrows 12 GiB; on GPU 3, planned on GPU 1".
  std::string mechanism;
  bool is_movable = false;
  std::vector<SharedGpuView> gpus;  // By its devices; empty: it is not there yet.
};

/// How far a job says it is.
struct ProgressView {
  double fraction = 0;                 // 0..1
  std::int64_t step = 0;               // As it said it: step 1,200
  std::int64_t steps = 0;              // of 100,000; 0: it named a part of the whole.
  double time = 0;                     // Of its last report.
  std::optional<double> expected_end;  // If it goes on as it did; absent: not known, or it does not run.
};

/// What a task of a step has for itself.
struct StepTaskView {
  std::int64_t rank = 0;
  std::string node;                // Its machine; empty: the job's only one.
  std::vector<std::int64_t> gpus;  // Empty: it shares all of the step's there.
  std::string cores;               // "0-15"; empty: it shares all of the job's there.
};

/// A step of a job (docs/steps.md).
struct StepView {
  std::int64_t number = 0;
  std::string name;   // As it was called (srun -J), or its program's.
  std::string state;  // "waiting", "running", "ended", "cut_off": its job ended first.
  std::int64_t tasks = 1;
  std::string gpus;  // Indices on the machine where it was called: "0,3".
  std::optional<double> start_time;
  std::optional<double> end_time;
  std::optional<std::int64_t> exit_code;  // Once it has ended; 128 + signal when a signal ended it.
  std::string command;                    // Its beginning; empty where the caller may not see it.
  std::vector<SeatView> seats;            // Of a job on several machines: those where it has tasks.
  std::vector<StepTaskView> task_map;     // By rank, while it runs; empty: its tasks share all that it has.
};

struct JobView {
  JobId id;
  std::string display_id;  // "17", "17_3", "17_[4-99]" for what has not started of an array.
  std::string name;
  std::string user;
  std::string state;  // See docs/api.md; JobState in snake_case.
  std::vector<std::int64_t> gpus;
  RequestView request;
  double submit_time = 0;
  std::optional<double> eligible_time;  // Since when it has been able to start: no hold, begin time or dependency.
  std::optional<double> start_time;
  std::optional<double> end_time;
  std::optional<std::int64_t> exit_code;
  std::optional<std::int64_t> signal;
  std::string reason;
  std::string start_reason;
  std::int64_t priority = 0;
  std::string project;
  std::string group;
  std::string pool;     // Slurm's partition, Valohai's environment; free text on one server.
  std::string account;  // As it was submitted; nothing is charged.
  std::string qos;      // Slurm's; kept and shown.
  std::string comment;
  std::string dialect;
  std::optional<JobId> array_id;
  std::optional<std::int64_t> array_index;
  std::int64_t count = 1;     // Elements that this line stands for.
  std::string array_indices;  // "4-99": their indices.
  std::int64_t array_at_once = 0;
  std::vector<std::string> dependencies;  // "afterok:12"
  std::int64_t restarts = 0;
  std::int64_t position = 0;  // In the queue, from 1; 0: not in line.
  std::string team;
  std::string preemptible;               // "never", "pause", "requeue"; empty: not said.
  std::optional<ProgressView> progress;  // Absent: it has said nothing.
  std::string node;                      // Where `gpus` are, once it has started.
  std::vector<SeatView> seats;           // Of a job on several machines: all of them; the first is `node`.
  std::int64_t step_count = 0;           // Steps that it had, once it has ended.
  bool is_foreground = false;            // On its caller's terminal: srun, salloc, divvy run.
  std::optional<ShareView> share;        // Absent: it has whole GPUs, or does not run.
};

/// Of JobDetail: a description holds 52 fields at most, and these are beyond. In JSON they stand beside the others.
struct JobOutlook {
  std::optional<ProgressView> progress;
  /// How fast it is on which GPUs here, and who says so; empty: nobody, or it has ended.
  std::string speeds;
  /// Whether other jobs' GPUs are closed to it, and how often it was refused one; empty: neither.
  std::string isolation;
  std::string node;             // Where `gpus` are, once it has started.
  std::vector<SeatView> seats;  // Of a job on several machines: all of them; the first is `node`.
  std::int64_t step_count = 0;  // Steps that it had, once it has ended.
  /// The last of them, as far as they are kept; of a job that runs only where it is on the controller's own machine.
  std::vector<StepView> steps;
  std::optional<ShareView> share;  // Absent: it has whole GPUs, or does not run.
};

/// One job in full: what GET /v1/jobs/ID answers.
struct JobDetail : JobOutlook {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string state;
  std::vector<std::int64_t> gpus;
  RequestView request;
  double submit_time = 0;
  std::optional<double> eligible_time;
  std::optional<double> start_time;
  std::optional<double> end_time;
  std::optional<std::int64_t> exit_code;
  std::optional<std::int64_t> signal;
  std::string reason;
  std::string start_reason;
  std::int64_t priority = 0;
  std::string project;
  std::string group;
  std::string pool;     // Slurm's partition, Valohai's environment; free text on one server.
  std::string account;  // As it was submitted; nothing is charged.
  std::string qos;      // Slurm's; kept and shown.
  std::string comment;
  std::string dialect;
  std::optional<JobId> array_id;
  std::optional<std::int64_t> array_index;
  std::int64_t count = 1;
  std::string array_indices;
  std::int64_t array_at_once = 0;
  std::vector<std::string> dependencies;
  std::int64_t restarts = 0;
  std::int64_t position = 0;
  std::string team;
  std::string preemptible;  // "never", "pause", "requeue"; empty: not said.

  std::vector<std::string> gpu_uuids;
  std::string command;  // As a shell would have it; "script NAME" for a script.
  std::string script;
  std::string directory;
  std::string output;  // The file, all patterns filled; empty: none ("divvy run").
  std::string error;
  std::int64_t pid = 0;  // Of its first process, while it runs.
  bool was_oom_killed = false;
  double cpu_time_s = 0;
  std::int64_t memory_peak_bytes = 0;
  std::optional<double> deadline;
  std::int64_t retries_left = 0;
  std::map<std::string, std::string> labels;
  std::vector<std::string> notes;
  std::map<std::string, std::string> parameters;  // Of this element of a sweep.
  std::map<std::string, std::int64_t> elements;   // Of an array: state -> how many.
  bool wants_pty = false;
  bool is_foreground = false;
  std::vector<std::string> history;  // "2026-03-01 10:00:02.120 queued", oldest first.
};

/// A job that has, or is promised, what another one waits for.
struct HolderView {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string state;
  std::string node;                // Where `gpus` are; of several machines the first.
  std::vector<std::int64_t> gpus;  // Of these, what the waiting job could use.
  std::optional<double> until;     // When its time limit ends it at the latest; absent: nobody knows.
};

struct BlockerView {
  std::string kind;
  std::string text;
  std::int64_t needed = 0;
  std::int64_t available = 0;
  std::vector<JobId> holders;
  std::vector<HolderView> held_by;  // The same jobs with what people ask next: whose, which GPUs, until when.
  bool has_more_holders = false;    // Than these.
  std::string rule;
};

struct WhyView {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string state;
  std::string summary;  // One sentence for people.
  std::vector<BlockerView> blockers;
  std::int64_t position = 0;    // In line, from 1; 0: not in line.
  std::int64_t ahead_gpus = 0;  // GPUs that those ahead ask for.
  std::string key;              // What its place goes by.
  std::optional<double> predicted_start;
  std::string prediction_basis;
  std::string would_start_now;     // The smallest change that would; empty: no change of its request helps.
  std::string command;             // The same as a command line: "divvy update 17 --gpus 2".
  std::string speeds;              // How fast it is on which GPUs here, and who says so; empty: nobody.
  std::optional<ShareView> share;  // Absent: it has whole GPUs, or does not run.
};

/// POST /v1/jobs.
struct SubmitRequest {
  JobSpec spec;
  bool is_test = false;  // Says what would become of it, and submits nothing.
};
struct SubmitAnswer {
  JobId id;
  std::int64_t count = 1;  // Elements of an array or sweep.
  std::string state;
  std::string summary;  // How the request was read: "2 GPUs, 1 h 30 min, name train".
  std::vector<std::string> notes;
  // Of a test; `id` is the one that the job would get.
  std::optional<double> predicted_start;
  std::string prediction_basis;
  std::vector<std::string> nodes;  // Where it would start at once.
};

/// POST /v1/jobs/select: which jobs an action is for, and GET /v1/jobs' filters in a body.
struct JobSelector {
  std::vector<std::string> ids;  // "17", "17_3", "17_[1-3]", "3-9", "@", "@~1", or a job's name.
  bool is_all = false;           // All of mine that are not final.
  std::string user;              // Empty: the caller's; "all".
  std::vector<std::string> states;
  std::string name;
  std::string project;
  std::string group;
  std::vector<std::string> pools;     // One of these; empty: any.
  std::vector<std::string> accounts;  // One of these; empty: any.
  std::vector<std::string> qos;       // One of these; empty: any.
  std::optional<JobId> array;         // Only the elements of this array that have become jobs of their own.
  bool includes_final = false;
  std::int64_t limit = 0;  // 0: all.
  double since = 0;        // Only jobs that ended, or were submitted, after this.
};

/// POST /v1/jobs/cancel|hold|release|requeue|signal: an action on many jobs, one result each.
struct ActionRequest {
  JobSelector select;
  std::int64_t signal = 0;        // For signal; for cancel: the first rung instead of the job's own.
  std::optional<double> grace_s;  // For cancel: 0 kills at once.
  std::string reason;
  double at = 0;       // For release: not before.
  std::string reach;   // For signal: "script" (its first process), "others" (all but that); empty: all.
  bool holds = false;  // For requeue: and does not start before it is released.
};
struct ActionResult {
  JobId id;
  std::string display_id;
  bool is_done = false;
  std::string message;  // What happened, or why not.
};
struct ActionAnswer {
  std::vector<ActionResult> results;
};

/// POST /v1/jobs/resize|park|wake|move: of jobs that have parts of GPUs.
struct PortionRequest {
  JobSelector select;
  GpuPortion portion;            // For resize: what is to change; what is not said stays as it is.
  std::vector<std::int64_t> to;  // For move: GPUs of its machine, as many as it has.
};

/// POST /v1/jobs/update: only what is present changes, and of each job all of it or nothing. While a job runs only its
/// time_limit_s, priority, name, project, comment and what it does when it ends badly can change. An empty text takes a
/// file, label or group away.
struct JobUpdate {
  JobSelector select;
  std::optional<std::int64_t> gpus;  // Alone: exactly so many; with gpus_most: the fewest.
  std::optional<std::string> gpu_type;
  std::optional<std::int64_t> gpu_memory_bytes;
  std::optional<std::int64_t> cpus;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> priority;
  std::optional<double> time_limit_s;
  std::optional<double> begin;
  std::optional<std::string> name;
  std::optional<std::string> project;
  std::optional<std::string> comment;
  std::optional<std::string> group;
  std::optional<std::int64_t> array_at_once;
  std::optional<std::int64_t> retries;
  std::optional<std::vector<std::string>> command;       // In place of the command or script.
  std::optional<std::vector<std::string>> dependencies;  // "afterok:12", "afterok:12?afterok:13" (any); replaces all.
  std::optional<std::string> output;
  std::optional<std::int64_t> tasks;
  std::optional<PlacementStrategy> placement;
  bool queues_anyway = false;  // Accepts a request above what this server can ever give.
  std::optional<bool> keeps_waiting;
  std::optional<double> retry_delay_s;
  std::optional<bool> requeues_after_reboot;
  std::optional<std::string> script;  // Its text; in place of the command or script.
  std::optional<std::vector<std::string>> arguments;
  std::optional<std::string> error;
  std::optional<std::string> input;
  std::optional<bool> appends_output;
  std::optional<std::string> directory;                 // Absolute.
  std::optional<std::vector<std::string>> environment;  // NAME=value each; added, or in place of the same name.
  std::optional<WarnSignal> warn;
  std::optional<std::int64_t> stop_signal;
  std::optional<double> grace_s;
  std::optional<std::string> account;
  std::optional<std::string> pool;
  std::optional<std::int64_t> gpus_most;  // 0: fixed.
  std::optional<std::string> topology;    // "any", "numa", "nvlink", "nvlink:required".
  std::optional<Preemptible> preemptible;
  std::optional<std::int64_t> nodes;
  std::optional<std::string> constraint;
  std::optional<std::vector<std::string>> node_list;
  std::optional<std::vector<std::string>> excluded_nodes;
  std::optional<GpuPortion> portion;  // A part of each of its GPUs; of who has one: what of it changes.
  std::optional<std::string> slice;   // "1g.18gb", "1g", ">=16G": a MIG instance in place of its GPUs or their parts.
  std::optional<double> end_by;       // 0: none.
};

struct RestrictRequest {
  std::vector<std::int64_t> gpus;  // New allocations use these only.
  bool is_all = false;             // Lifts the restriction.
  std::vector<std::string> nodes;  // On which; empty: the controller's own machine.
};
struct RestrictAnswer {
  std::vector<std::int64_t> gpus;  // What new allocations may use now.
  std::string message;
};

struct IgnoreRequest {
  std::int64_t gpu = -1;  // -1: on every GPU.
  std::int64_t pid = 0;
  bool is_ignored = true;  // False: takes the rule back.
  std::string node;        // On which it is; empty: the controller's own machine.
};
struct IgnoreRule {
  std::int64_t gpu = -1;
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;
  std::string user;
  std::string command;
  std::string node;  // Empty: the controller's own machine.
};
struct IgnoreAnswer {
  std::vector<IgnoreRule> rules;
  std::string message;
};

struct GroupLimitRequest {
  std::string group;       // A group's name, or an array's id.
  std::int64_t limit = 0;  // 0: no cap.
};

struct WinsizeRequest {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// POST /v1/jobs/ID/checkpoint, by the job itself: it has come to a point where it can change its GPUs.
struct CheckpointRequest {
  std::int64_t attempt = 0;  // DIVVY_ATTEMPT; 0: whichever runs.
};
struct CheckpointAnswer {
  JobId id;
  std::string gpus;          // To use from now on: "0,1,2".
  bool has_changed = false;  // They are others than before.
};

/// POST /v1/jobs/ID/progress, by the job itself or for it: a part of the whole, or steps out of all; one of the two.
struct ProgressRequest {
  std::optional<double> fraction;  // 0..1
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::int64_t attempt = 0;  // DIVVY_ATTEMPT; 0: whichever runs.
};
struct ProgressAnswer {
  JobId id;
  double fraction = 0;
  std::optional<double> expected_end;
};

/// GET /v1/jobs/ID/wait and POST /v1/jobs/ID/attach, answered at the end.
struct WaitAnswer {
  JobId id;
  std::string state;
  std::int64_t exit_code = 0;
  std::string reason;
  bool was_detached = false;  // Attach only: the viewer left, the job goes on.
};

struct ErrorView {
  std::string code;  // "invalid_argument", ...
  std::string message;
};

/// GET /v1/events, as server-sent events: a job, or the GPUs, changed.
struct ChangeEvent {
  double time = 0;
  std::string kind;  // "job" | "gpus"
  std::optional<JobId> id;
  std::string state;
  std::string reason;
};

}  // namespace divvy::wire
