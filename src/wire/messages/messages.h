// The messages of the API. The daemon, the command line, the web page and the OpenAPI document all use these structs;
// wire/messages/messages_describe.h lists their fields. A release may add a field, and older readers ignore it. Within
// /v1 a field is never renamed and never changes its meaning.
//
// Times are seconds since 1970 with a fraction, durations are seconds, and memory is in bytes. JobSpec (model/job.h) is
// a message too.
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
  std::string home;  // The directory of its state. Empty for the machine-wide daemon.
  std::string socket;
  std::string user;  // The user that the daemon runs as.
  bool is_machine_wide = false;
  std::string gpu_source;  // "NVML (driver 550.54)", "emulated: 8xH100-80GB", or why there are none.
  std::string policy;      // "small-first".
  std::string isolation;   // "advisory (CUDA_VISIBLE_DEVICES)". It says "enforced" only if isolation is enforced.
  std::string listens;     // Address of the TLS listener for other machines: "gpu1.lab:7433". Empty if there is none.
  std::int64_t gpus = 0;
  std::int64_t gpus_free = 0;  // Idle and not reserved: any job may use them.
  std::int64_t jobs_queued = 0;
  std::int64_t jobs_held = 0;
  std::int64_t jobs_running = 0;
  std::int64_t jobs_total = 0;  // All jobs that were ever submitted.
  bool accepts_work = true;
  std::string trouble;  // Why it accepts no work: "the disk under /var/lib/divvy is full".
  std::vector<std::string> warnings;
  std::int64_t gpus_reserved = 0;  // Idle GPUs that a reservation in force keeps.
  std::string node;                // Name of the controller's own node. Empty if it is the only node.
  std::int64_t gpus_borrowed = 0;  // Free GPUs that tenants borrow, beyond their plan, until a job needs them.
  std::string time_sharing;        // "off", "on", "auto: on", or "auto: off" with the reason (docs/time-sharing.md).
};

struct GpuProcessView {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::int64_t memory_bytes = 0;
  double age_s = 0;
  bool is_graphics = false;
  std::optional<JobId> job;  // The divvy job that the process belongs to.
  bool is_ignored = false;
};

/// A job that holds a fraction of a GPU, and its current state on that GPU.
struct TenantView {
  JobId job;
  std::string display_id;
  std::string name;
  std::string user;
  std::string state;   // "running", "idle", "parking", "parked", "waking", "moving"; "paused": its job is paused;
                       // "starting": its processes are not there yet; "unknown": its node is disconnected.
  std::string share;   // The fraction that it requested: "0.25 to 0.8", "20 to 40 GiB".
  double request = 0;  // Its guaranteed fraction of the GPU.
  std::int64_t request_bytes = 0;        // Its guaranteed memory.
  std::int64_t limit_bytes = 0;          // The most memory that it can ever get.
  std::int64_t current_limit_bytes = 0;  // The most memory that it may use now.
  std::int64_t used_bytes = 0;           // The memory that it uses.
  std::int64_t borrowed_bytes = 0;       // The memory that it uses beyond its request.
  double compute = 0;                    // Its share of the GPU's time in the last second.
  double compute_request = 0;            // Its guaranteed share of the GPU's time.
  double compute_limit = 0;              // Its maximal share of the GPU's time.
  bool is_compute_known = false;         // False if its GPU time is not measured, or if it has not started yet.
  std::int64_t planned_gpu = 0;  // The GPU that the plan gives it. Differs from this GPU if the tenant was moved.
  std::string mechanism;         // "enforced by interposer", "MIG", "MPS", "advisory".
  bool is_movable = false;
  std::string note;  // For people: what it borrows or waits for, why it cannot be moved, or what went wrong.
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
  std::vector<std::string> job_display_ids;  // The display ids of `jobs`, in the same order: "17", "17_3".
  std::string pci_address;
  std::int64_t numa_node = -1;
  std::string compute_capability;  // "9.0"
  bool is_mig_enabled = false;
  std::vector<std::string> slices;  // The MIG instances that the GPU can be divided into: "1g.18gb".
  std::vector<std::string> links;
  std::int64_t utilisation_percent = -1;
  std::int64_t temperature_celsius = -1;
  std::int64_t power_watts = -1;
  std::vector<GpuProcessView> processes;
  std::string isolation;
  std::string node;                 // The node that has the GPU.
  double free = 0;                  // The fraction of the GPU that the plan gives to no job.
  std::vector<TenantView> tenants;  // The jobs that hold fractions of the GPU.
  std::string reservation;          // Name or number of the reservation that keeps the GPU ("reserved").
};

/// A component of a heterogeneous job after its first.
struct ComponentView {
  std::int64_t gpus = 0;
  std::string gpu_type;
  std::int64_t gpu_memory_bytes = 0;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t tasks = 1;
  std::int64_t nodes = 1;  // Number of nodes. Each gives all of the above.
  std::int64_t short_nodes = 0;
  bool spreads_tasks = false;
  std::string constraint;
  std::vector<std::string> node_list;
  std::vector<std::string> excluded_nodes;
  std::string pool;  // Optional. Default: the job's pool.
};

struct RequestView {
  std::int64_t gpus = 0;
  std::string gpu_type;
  std::int64_t gpu_memory_bytes = 0;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t tasks = 1;
  double time_limit_s = 0;       // 0: no limit.
  std::int64_t max_gpus = 0;     // For elastic jobs: the maximum, with `gpus` as the minimum. 0: the count is fixed.
  std::string topology;          // "numa", "nvlink:required". Empty: any.
  std::string placement;         // "pack". Empty: the server's default.
  std::int64_t nodes = 1;        // Number of nodes. Each gives all of the above.
  std::int64_t short_nodes = 0;  // How many of them give one GPU less: 3 GPUs on 2 nodes.
  bool spreads_tasks = false;    // Its tasks may run on several nodes; each node gives the share of its tasks.
  std::string constraint;        // Node features: "ib&nvme". Empty: any node.
  std::vector<std::string> node_list;
  std::vector<std::string> excluded_nodes;
  std::vector<ComponentView> others;  // Components of a heterogeneous job after the first. All other fields describe
                                      // the first.
  GpuPortion portion;                 // The job holds a fraction of each of `gpus` instead of whole GPUs.
  std::string slice;                  // The job holds a MIG instance instead of a GPU: "1g.18gb".
  std::optional<double> end_by;       // The job must end by then. It does not start if it cannot.
};

/// The resources of one component of a heterogeneous job on a node.
struct AllocationPartView {
  std::int64_t component = 0;
  std::vector<std::int64_t> gpus;
  std::int64_t tasks = 1;
};

/// The resources of a job on one of its nodes.
struct AllocationView {
  std::string node;
  std::vector<std::int64_t> gpus;
  std::int64_t tasks = 1;
  std::vector<AllocationPartView> parts;  // For heterogeneous jobs only: the same by component.
};

/// One GPU of a job that holds GPU fractions, and its current state.
struct SharedGpuView {
  std::int64_t gpu = 0;                  // The GPU that it is on, or was on when it was parked.
  std::int64_t planned_gpu = 0;          // The GPU that the plan gives it.
  std::int64_t request_bytes = 0;        // Its guaranteed memory.
  std::int64_t limit_bytes = 0;          // The most memory that it can ever get.
  std::int64_t current_limit_bytes = 0;  // The most memory that it may use now.
  std::int64_t used_bytes = 0;           // The memory that it uses.
  std::int64_t borrowed_bytes = 0;       // The memory that it uses beyond its request.
  double compute = 0;                    // Its share of the GPU's time in the last second.
  double compute_request = 0;            // Its guaranteed share of the GPU's time.
  double compute_limit = 0;              // Its maximal share of the GPU's time.
  bool is_compute_known = false;         // False if its GPU time is not measured.
};
/// A running job that holds GPU fractions: where it really is, and its state there.
struct ShareView {
  std::string part;   // The fraction that it requested: "0.25 to 0.8", "20 to 40 GiB".
  std::string state;  // The same values as TenantView::state.
  std::string note;   // "borrows 12 GiB", "on GPU 3 for now (its guaranteed fraction is on GPU 1)".
  std::string mechanism;
  bool is_movable = false;
  std::vector<SharedGpuView> gpus;  // In the order of the job's devices. Empty if it has not started yet.
};

/// A running job with whole GPUs that can be parked for others (docs/time-sharing.md).
struct TimeSharingView {
  std::string stage;       // "trial"; "long": its trial is over; "settled": the contract limits what it loses.
  bool is_parked = false;  // It is parked in host memory, or on its way there or back.
  std::string parked_for;  // While it is parked: the display id of the job that it is parked for; empty for its sweep.
  double lost_s = 0;       // How long this run has been without its GPUs in total.
  std::optional<double> returns_by;  // When it gets its GPUs back at the latest. Absent if that is not guaranteed.
  std::string why_kept;              // Why it cannot be parked. Empty: it can, or this is not known yet.
};

/// The progress that a job reports.
struct ProgressView {
  double fraction = 0;                 // 0..1
  std::int64_t step = 0;               // The current step, as the job reported it.
  std::int64_t steps = 0;              // The total number of steps. 0: the job reported a fraction.
  double time = 0;                     // Time of its last report.
  std::optional<double> expected_end;  // At its current speed. Absent if unknown, or if the job does not run.
};

/// The resources of one task of a step.
struct StepTaskView {
  std::int64_t rank = 0;
  std::string node;                // Empty if the job has only one node.
  std::vector<std::int64_t> gpus;  // Empty: it shares all GPUs that the step has on the node.
  std::string cores;               // "0-15". Empty: it shares all cores that the job has on the node.
};

/// A step of a job (docs/steps.md).
struct StepView {
  std::int64_t number = 0;
  std::string name;   // Its name (srun -J), or the name of its program.
  std::string state;  // "waiting", "running", "ended", "cut_off" (its job ended first).
  std::int64_t tasks = 1;
  std::string gpus;  // Indices on the node where the step was started: "0,3".
  std::optional<double> start_time;
  std::optional<double> end_time;
  std::optional<std::int64_t> exit_code;    // Set once it has ended; 128 + signal when a signal ended it.
  std::string command;                      // The beginning of its command. Empty if the caller may not see it.
  std::vector<AllocationView> allocations;  // For jobs on several nodes: the nodes where it has tasks.
  std::vector<StepTaskView> task_map;       // By rank, while it runs. Empty: its tasks share all of its resources.
  double time_limit_s = 0;                  // Its own time limit. 0: none.
};

struct JobView {
  JobId id;
  std::string display_id;  // "17", "17_3"; "17_[4-99]" for the elements of an array that have not started.
  std::string name;
  std::string user;
  std::string state;  // See docs/api.md; JobState in snake_case.
  std::vector<std::int64_t> gpus;
  RequestView request;
  double submit_time = 0;
  std::optional<double> eligible_time;  // Since when it could start: no hold, begin time or dependency.
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
  std::string account;  // As submitted. Nothing is charged.
  std::string qos;      // Slurm's; kept and shown.
  std::string comment;
  std::string dialect;
  std::optional<JobId> array_id;
  std::optional<std::int64_t> array_index;
  std::int64_t count = 1;     // Number of array elements that this row stands for.
  std::string array_indices;  // The indices of these elements: "4-99".
  std::int64_t array_at_once = 0;
  std::vector<std::string> dependencies;  // "afterok:12"
  std::int64_t restarts = 0;
  std::int64_t position = 0;  // Position in the queue, from 1. 0: it is not in the queue.
  std::string team;
  std::string preemptible;                      // "never", "pause", "requeue". Empty: not set.
  std::optional<ProgressView> progress;         // Absent if the job has reported none.
  std::string node;                             // The node of `gpus`, once the job has started.
  std::vector<AllocationView> allocations;      // For jobs on several nodes: all of them. The first is `node`.
  std::int64_t step_count = 0;                  // Number of its steps, once the job has ended.
  bool is_foreground = false;                   // It runs on the caller's terminal: srun, salloc, divvy run.
  std::optional<ShareView> share;               // Absent if it has whole GPUs, or does not run.
  std::optional<TimeSharingView> time_sharing;  // Absent if it cannot be parked for others, or does not run.
};

/// Additional fields of JobDetail, because Boost.Describe allows at most 52 fields in one struct. In JSON they are
/// members of the same object.
struct JobOutlook {
  std::optional<ProgressView> progress;
  /// How fast the job is on each GPU model here, and the source of these speeds. Empty if unknown, or if it has ended.
  std::string speeds;
  /// Whether the job is isolated from other jobs' GPUs, and how often an access was denied. Empty if neither applies.
  std::string isolation;
  std::string node;                         // The node of `gpus`, once the job has started.
  std::vector<AllocationView> allocations;  // For jobs on several nodes: all of them. The first is `node`.
  std::int64_t step_count = 0;              // Number of its steps, once the job has ended.
  /// Its last steps, as far as they are stored. A running job has them only if it runs on the controller's own node.
  std::vector<StepView> steps;
  std::optional<ShareView> share;               // Absent if it has whole GPUs, or does not run.
  std::optional<TimeSharingView> time_sharing;  // Absent if it cannot be parked for others, or does not run.
};

/// One job in full: the answer of GET /v1/jobs/ID.
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
  std::string account;  // As submitted. Nothing is charged.
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
  std::string preemptible;  // "never", "pause", "requeue". Empty: not set.

  std::vector<std::string> gpu_uuids;
  std::string command;  // As a shell command line; "script NAME" for a script.
  std::string script;
  std::string directory;
  std::string output;  // The file name, all patterns replaced. Empty if there is no file ("divvy run").
  std::string error;
  std::int64_t pid = 0;  // Pid of its first process, while it runs.
  bool was_oom_killed = false;
  double cpu_time_s = 0;
  std::int64_t memory_peak_bytes = 0;
  std::optional<double> deadline;
  std::int64_t retries_left = 0;
  std::map<std::string, std::string> labels;  // "slurm.ntasks+1" is the label "slurm.ntasks" of component 1.
  std::vector<std::string> notes;
  std::map<std::string, std::string> parameters;  // For an element of a sweep: its parameter values.
  std::map<std::string, std::int64_t> elements;   // For an array: the number of elements by state.
  bool wants_pty = false;
  bool is_foreground = false;
  std::vector<std::string> history;  // "2026-03-01 10:00:02.120 queued", oldest first.
};

/// A job that holds, or has reserved, resources that another job waits for.
struct HolderView {
  JobId id;
  std::string display_id;
  std::string name;
  std::string user;
  std::string state;
  std::string node;                // The node of `gpus`. For several nodes, the first.
  std::vector<std::int64_t> gpus;  // Its GPUs that the waiting job could use.
  std::optional<double> until;     // When its time limit ends it at the latest. Absent if it has none.
};

struct BlockerView {
  std::string kind;
  std::string text;
  std::int64_t needed = 0;
  std::int64_t available = 0;
  std::vector<JobId> holders;
  std::vector<HolderView> held_by;  // The same jobs with details: their users, GPUs and latest end.
  bool has_more_holders = false;    // There are more holders than these.
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
  std::int64_t position = 0;    // Position in the queue, from 1. 0: it is not in the queue.
  std::int64_t ahead_gpus = 0;  // GPUs that the jobs ahead of it request.
  std::string key;              // The sort key that decides its position.
  std::optional<double> predicted_start;
  std::string prediction_basis;
  std::string would_start_now;     // The smallest change of its request that would start it now. Empty if there is
                                   // none.
  std::string command;             // That change as a command line: "divvy update 17 --gpus 2".
  std::string speeds;              // How fast the job is on each GPU model here, and the source of these speeds. Empty
                                   // if unknown.
  std::optional<ShareView> share;  // Absent if it has whole GPUs, or does not run.
};

/// POST /v1/jobs.
struct SubmitRequest {
  JobSpec spec;
  bool is_test = false;  // Dry run: reports what would happen, and submits nothing.
  std::string key = {};  // Optional. A repeated submission of the same user with the same key, within a day, submits
                         // nothing and returns the first one's job. At most 100 letters, digits, '.', '_' and '-'.
};
struct SubmitAnswer {
  JobId id;
  std::int64_t count = 1;  // Number of elements of an array or sweep, else 1.
  std::string state;
  std::string summary;  // How the request was read: "2 GPUs, 1 h 30 min, name train".
  std::vector<std::string> notes;
  // For a dry run. `id` is the id that the job would get.
  std::optional<double> predicted_start;
  std::string prediction_basis;
  std::vector<std::string> nodes;  // The nodes where it would start at once.
};

/// Selects jobs: for POST /v1/jobs/select, for actions, and as the filters of GET /v1/jobs in a body.
struct JobSelector {
  std::vector<std::string> ids;  // "17", "17_3", "17_[1-3]", "3-9", "@", "@~1", or a job's name.
  bool is_all = false;           // All jobs of the caller that are not final.
  std::string user;              // Empty: the caller. "all": every user.
  std::vector<std::string> states;
  std::string name;
  std::string project;
  std::string group;
  std::vector<std::string> pools;     // A job matches if it is in one of these. Empty: any pool.
  std::vector<std::string> accounts;  // A job matches if it has one of these. Empty: any account.
  std::vector<std::string> qos;       // A job matches if it has one of these. Empty: any QOS.
  std::optional<JobId> array;         // Only elements of this array that have become jobs of their own.
  bool includes_final = false;
  std::int64_t limit = 0;  // 0: no limit.
  double since = 0;        // Only jobs that were submitted or ended after this.
};

/// POST /v1/jobs/cancel|hold|release|requeue|signal: an action on many jobs. Each job gets one result.
struct ActionRequest {
  JobSelector select;
  std::int64_t signal = 0;        // For signal: its number. For cancel: the first signal, instead of the job's own stop
                                  // signal.
  std::optional<double> grace_s;  // For cancel: 0 kills at once.
  std::string reason;
  double at = 0;       // For release: the job does not start before this.
  std::string reach;   // For signal: "script" (its first process), "others" (all but that); empty: all.
  bool holds = false;  // For requeue: the job is held until it is released.
};
struct ActionResult {
  JobId id;
  std::string display_id;
  bool is_done = false;
  std::string message;  // The result, or why nothing was done.
};
struct ActionAnswer {
  std::vector<ActionResult> results;
};

/// POST /v1/jobs/resize|park|wake|move: for jobs that hold GPU fractions.
struct PortionRequest {
  JobSelector select;
  GpuPortion portion;            // For resize: the values to change. Unset values stay as they are.
  std::vector<std::int64_t> to;  // For move: GPUs of the job's node, as many as it has.
};

/// POST /v1/jobs/update: changes only the fields that are present. Each job gets all changes or none. A running job
/// accepts only time_limit_s, priority, name, project, comment and what happens when it fails. An empty text removes a
/// file, label or group.
struct JobUpdate {
  JobSelector select;
  std::optional<std::int64_t> gpus;  // Without max_gpus: the exact number. With it: the minimum.
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
  std::optional<std::vector<std::string>> command;       // Replaces the command or script.
  std::optional<std::vector<std::string>> dependencies;  // "afterok:12", "afterok:12?afterok:13" (any). Replaces all
                                                         // dependencies.
  std::optional<std::string> output;
  std::optional<std::int64_t> tasks;
  std::optional<PlacementStrategy> placement;
  bool queues_anyway = false;  // Accepts a request that exceeds the capacity of this server.
  std::optional<bool> keeps_waiting;
  std::optional<double> retry_delay_s;
  std::optional<bool> requeues_after_reboot;
  std::optional<std::string> script;  // The script's text. Replaces the command or script.
  std::optional<std::vector<std::string>> arguments;
  std::optional<std::string> error;
  std::optional<std::string> input;
  std::optional<bool> appends_output;
  std::optional<std::string> directory;                 // Absolute.
  std::optional<std::vector<std::string>> environment;  // NAME=value each. Added, or replaces the variable of that
                                                        // name.
  std::optional<WarnSignal> warn;
  std::optional<std::int64_t> stop_signal;
  std::optional<double> grace_s;
  std::optional<std::string> account;
  std::optional<std::string> pool;
  std::optional<std::int64_t> max_gpus;  // 0: the number of GPUs is fixed.
  std::optional<std::string> topology;   // "any", "numa", "nvlink", "nvlink:required".
  std::optional<Preemptible> preemptible;
  std::optional<std::int64_t> nodes;
  std::optional<std::string> constraint;
  std::optional<std::vector<std::string>> node_list;
  std::optional<std::vector<std::string>> excluded_nodes;
  std::optional<GpuPortion> portion;  // A fraction of each of its GPUs. If the job already holds fractions: only the
                                      // values that change.
  std::optional<std::string> slice;   // "1g.18gb", "1g", ">=16G": a MIG instance instead of its GPUs or GPU fractions.
  std::optional<double> end_by;       // 0: removes it.
  std::optional<bool> grows;          // False: no node is requested for the job.
  std::optional<std::string> providers;  // The only ones that may get a node for it: "lab-slurm,aws-us". Empty: all.
  std::optional<std::string> max_price;  // Per hour, of all nodes that are requested for it: "3.50". Empty: no limit.
};

struct RestrictRequest {
  std::vector<std::int64_t> gpus;  // New allocations use only these.
  bool is_all = false;             // Lifts the restriction.
  std::vector<std::string> nodes;  // The nodes that it applies to. Empty: the controller's own node.
};
struct RestrictAnswer {
  std::vector<std::int64_t> gpus;  // The GPUs that new allocations may use now.
  std::string message;
};

struct IgnoreRequest {
  std::int64_t gpu = -1;  // -1: on every GPU.
  std::int64_t pid = 0;
  bool is_ignored = true;  // False: removes the rule.
  std::string node;        // The node of the GPU. Empty: the controller's own node.
};
struct IgnoreRule {
  std::int64_t gpu = -1;
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;
  std::string user;
  std::string command;
  std::string node;  // Empty: the controller's own node.
};
struct IgnoreAnswer {
  std::vector<IgnoreRule> rules;
  std::string message;
};

struct GroupLimitRequest {
  std::string group;       // A group's name, or an array's id.
  std::int64_t limit = 0;  // 0: no limit.
};

struct WinsizeRequest {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// POST /v1/jobs/ID/checkpoint, sent by the job itself: it has reached a point where its GPUs can change.
struct CheckpointRequest {
  std::int64_t attempt = 0;  // DIVVY_ATTEMPT. 0: the current attempt.
};
struct CheckpointAnswer {
  JobId id;
  std::string gpus;          // The GPUs to use from now on: "0,1,2".
  bool has_changed = false;  // They differ from those before.
};

/// POST /v1/jobs/ID/progress, by the job itself or for it: either a fraction, or the current step and the total.
struct ProgressRequest {
  std::optional<double> fraction;  // 0..1
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::int64_t attempt = 0;  // DIVVY_ATTEMPT. 0: the current attempt.
};
struct ProgressAnswer {
  JobId id;
  double fraction = 0;
  std::optional<double> expected_end;
};

/// GET /v1/jobs/ID/wait and POST /v1/jobs/ID/attach, answered when the job has ended.
struct WaitAnswer {
  JobId id;
  std::string state;
  std::int64_t exit_code = 0;
  std::string reason;
  bool was_detached = false;  // Attach only: the viewer left, and the job continues.
};

struct ErrorView {
  std::string code;  // "invalid_argument", ...
  std::string message;
};

/// GET /v1/events, as server-sent events: a job or the GPUs have changed.
struct ChangeEvent {
  double time = 0;
  std::string kind;  // "job" | "gpus"
  std::optional<JobId> id;
  std::string state;
  std::string reason;
};

}  // namespace divvy::wire
