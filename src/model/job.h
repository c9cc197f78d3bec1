// A user's request (JobSpec), and the states and results of a job. Plain values: they copy, compare and have no
// behaviour except their own invariants. Every interface (command line, API, dialect) produces this JobSpec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/index_ranges.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "model/gpus/gpu_portion.h"

namespace divvy {

using JobId = Id<struct JobTag>;

/// The source of the job's text. Selects the tool whose variable names the environment carries in addition to CUDA_*
/// and DIVVY_*.
enum class Dialect { kNative, kSlurm, kGflow, kValohai };

enum class JobState {
  kHeld,
  kQueued,
  kStarting,  // It has its GPUs, and its process is being started.
  kRunning,
  kPaused,
  kStopping,  // Asked to end; it still holds its GPUs.
  kSucceeded,
  kFailed,
  kCancelled,
  kTimedOut,
  kLost,  // It is unknown how it ended.
};
constexpr bool IsFinal(JobState state) { return state >= JobState::kSucceeded; }
/// The job waits for its first run, or for another one.
constexpr bool IsWaiting(JobState state) { return state == JobState::kHeld || state == JobState::kQueued; }
/// The job holds GPUs.
constexpr bool IsActive(JobState state) { return state >= JobState::kStarting && state <= JobState::kStopping; }

/// How to choose among the free GPUs. Stored as numbers: add new values at the end.
enum class PlacementStrategy {
  kSequential,  // The lowest indices.
  kRandom,
  kPack,    // Fill partly used nodes first. Within a node: the lowest indices.
  kSpread,  // Across NUMA nodes, one GPU of each in turn.
  kBest,    // Across nodes: the least fragmentation. Within a node: the best connected set (engine/gpu_sets.h).
};

/// The connection that a job needs between its GPUs, or between its nodes. Stored as numbers: add new values at the
/// end.
enum class TopologyNeed {
  kAny,     // The best available.
  kNuma,    // All GPUs on one NUMA node.
  kNvlink,  // Every pair of GPUs connected by NVLink.
  kRack,    // All nodes in one rack (label "rack").
  kBlock,   // All nodes in one block (label "block"), which may have several racks.
};
constexpr bool IsOfMachines(TopologyNeed need) { return need == TopologyNeed::kRack || need == TopologyNeed::kBlock; }
/// Returns `need` if it concerns the GPUs of one node. Returns kAny if it concerns the nodes of a job (rack, block).
constexpr TopologyNeed OfGpus(TopologyNeed need) { return IsOfMachines(need) ? TopologyNeed::kAny : need; }

// g++ 12 wrongly reports that an enumerator of a scoped enum shadows the global kNever.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
/// Whether a running job may be preempted. Stored as numbers.
enum class Preemptible {
  kNever,
  kPause,    // Stopped in place and continued later.
  kRequeue,  // Ended after its grace period, and requeued under the same id.
};
#pragma GCC diagnostic pop

/// A component of a heterogeneous job after the first: what it needs, as Request does for the first.
struct Component {
  int gpus = 0;
  std::string gpu_type;
  Bytes gpu_memory;
  int cpus = 0;
  Bytes memory;
  int tasks = 1;
  int nodes = 1;
  int short_nodes = 0;
  bool spreads_tasks = false;
  std::string constraint;
  std::vector<std::string> node_list;
  std::vector<std::string> excluded_nodes;
  std::string pool;                           // The pool of its nodes. Empty: the job's pool.
  std::map<std::string, std::string> labels;  // Same as JobSpec::labels: "slurm.ntasks" -> "4".

  friend auto operator<=>(const Component&, const Component&) = default;
};

/// The resources that a job needs from a node, all at once. Zero (or empty) requests nothing.
struct Request {
  int gpus = 0;  // For an elastic job: the minimum.
  /// Acceptable models: alternatives separated by '|'. Each is a case-insensitive part of the GPU's model name
  /// ("h100|a100"). Terms joined by '&' must all match ("h100&80gb"). An alternative may be followed by its relative
  /// speed ("h100*1.0|a100*0.55"). Empty: any.
  std::string gpu_type;
  Bytes gpu_memory;  // At least this much total memory on each GPU.
  int cpus = 0;
  Bytes memory;      // Host memory. Enforced if a memory cgroup is available.
  int tasks = 1;     // Processes that a step runner starts inside the job. There is always just one batch process.
  int max_gpus = 0;  // For elastic jobs: it runs on any number from `gpus` to this. 0: the number is fixed.
  TopologyNeed topology = TopologyNeed::kAny;
  bool requires_topology = false;  // False: `topology` is only a preference.
  // For jobs on several nodes. Each of `nodes` nodes gives all of the above, but `tasks` is the total. With
  // `spreads_tasks`, the tasks may be spread over any number of nodes, and each node gives the share of its tasks. The
  // two are never combined.
  int nodes = 1;
  /// How many of the nodes give one GPU less than `gpus`: 3 GPUs on 2 nodes are 2 and 1. Fewer than `nodes`.
  int short_nodes = 0;
  bool spreads_tasks = false;
  // Which nodes are allowed. Empty: any.
  std::string constraint;                   // Node features in the syntax of engine/feature_expression.h:
                                            // "ib&(nvme|ssd)".
  std::vector<std::string> node_list;       // Every node must be in this list.
  std::vector<std::string> excluded_nodes;  // No node may be in this list.
  /// For heterogeneous jobs: the components after the first, which all fields above describe. All components start
  /// together, or none does. Not allowed for elastic jobs.
  std::vector<Component> others;
  /// A fraction of each GPU instead of whole GPUs. Not allowed for jobs on several nodes, heterogeneous jobs and
  /// elastic jobs.
  GpuPortion portion;
  /// A MIG instance instead of a GPU: a profile ("1g.18gb"), or its minimal memory (">=16G"). Then `gpus` is 1. Empty:
  /// none.
  std::string slice;

  bool is_portioned() const { return portion.any(); }
  bool is_gang() const { return nodes > 1 || spreads_tasks || is_heterogeneous(); }
  bool is_heterogeneous() const { return !others.empty(); }
  std::size_t components() const { return 1 + others.size(); }
  /// GPUs on all nodes together; for an elastic job the minimum.
  int gpus_in_all() const {
    int all = gpus * nodes - short_nodes;
    for (const Component& one : others) all += one.gpus * one.nodes - one.short_nodes;
    return all;
  }
  bool is_elastic() const { return max_gpus > gpus; }
  int gpus_at_most() const { return is_elastic() ? max_gpus : gpus; }

  friend auto operator<=>(const Request&, const Request&) = default;
};

/// The component with this number, from 0, as a separate request. Requires: component < request.components().
Request ComponentOf(const Request& request, std::size_t component);

enum class DependencyKind { kAfter, kAfterOk, kAfterNotOk, kAfterAny, kSingleton };
enum class DependencyStatus { kPending, kSatisfied, kImpossible };

struct Dependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  JobId job;  // Not set for kSingleton. The id of an array means all of its elements.
  /// One element of the array `job`. Not set: the job, or the whole array.
  std::optional<std::uint32_t> element;
  Duration delay{0};  // For kAfter only: delay after the start of `job`.
  /// Used in records only. It is stored with the event that decided it, so the row of `job` may be pruned later. Always
  /// kPending for kSingleton.
  DependencyStatus status = DependencyStatus::kPending;

  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct ArraySpec {
  IndexRanges indices;
  int at_once = 0;  // Elements that may run at the same time. 0: no limit.

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

/// One column of a parameter sweep. The elements of a sweep are the Cartesian product of its columns; the last column
/// changes fastest. The columns of a CSV file advance together (same `row_group`).
struct Parameter {
  std::string name;
  std::vector<std::string> values;
  int row_group = -1;  // -1: a separate dimension. Columns with the same number form one dimension.

  friend bool operator==(const Parameter&, const Parameter&) = default;
};

struct WarnSignal {
  int signal = 0;           // 0: none.
  Duration before{0};       // Time before the time limit.
  bool batch_only = false;  // Slurm's "B:": only the batch process gets the signal, not the whole process tree.

  friend bool operator==(const WarnSignal&, const WarnSignal&) = default;
};

/// The environment captured at submission. It is the same for many jobs, so each content is stored once.
struct Capture {
  std::vector<std::string> environment;        // NAME=value, sorted.
  std::map<std::string, std::int64_t> limits;  // "nofile" -> soft limit; -1: unlimited.
  int umask = 022;

  friend bool operator==(const Capture&, const Capture&) = default;
};

struct JobSpec {
  // The program: exactly one of `command` and `script` is set.
  std::vector<std::string> command;    // argv.
  std::string script;                  // The text of the script, including the "#!" line. It runs as a separate file.
  std::vector<std::string> arguments;  // Arguments of the script.
  std::string name;                    // Empty: the base name of the command or of the script's file.

  Request request;
  PlacementStrategy placement = PlacementStrategy::kSequential;
  bool is_placement_set = false;  // False: the server's default strategy is used.

  // When.
  int priority = 0;  // Higher goes first.
  bool is_held = false;
  Time begin = kNoTime;
  Duration time_limit{0};  // 0: no limit.
  Time end_by = kNoTime;   // It must end by then, or it does not start at all. kNoTime: no deadline.
  WarnSignal warn;
  int stop_signal = 15;    // The first signal when the job is stopped.
  int resize_signal = 10;  // Sent to an elastic job whose GPUs have changed or will change: SIGUSR1. 0: none.
  Duration grace{-1};      // Time from the stop signal to SIGKILL. -1: the server's default.
  std::vector<Dependency> dependencies;
  bool needs_any_dependency = false;  // True: one satisfied dependency is enough.
  bool keeps_waiting = false;         // True: it stays queued when a dependency cannot be satisfied any more. False: it
                                      // is cancelled.

  // How many.
  std::optional<ArraySpec> array;
  std::vector<Parameter> parameters;
  std::string name_template;                        // "train-{lr}".
  int retries = 0;                                  // Number of retries after failures.
  Duration retry_delay = std::chrono::seconds(10);  // Doubles with each retry, up to one hour.
  bool requeues_after_reboot = false;
  bool is_run_once = false;  // Never requeued once it has started. If its node is gone, the job is lost.
  Duration stale_grace{0};   // How long a gang that lost a part keeps its other parts. 0: not at all; negative: always.
  Preemptible preemptible = Preemptible::kNever;
  bool is_preemptible_set = false;  // False: the server's default is used.
  std::string group;                // Jobs of one group share a limit on running jobs.
  int group_limit = 0;              // 0: leaves the group's limit unchanged.

  // Files. Patterns (%j %A %a %x %u %N %n %t %%) are replaced when the job starts.
  std::string directory;
  std::string output;  // Empty: a log that divvy stores ("divvy logs ID").
  std::string error;   // Empty: the same file as the output.
  std::string input;   // Empty: /dev/null.
  bool appends_output = false;
  bool is_foreground = false;  // Uses the caller's own streams, and ends when the caller disconnects.
  bool wants_pty = false;
  Capture capture;

  // Labels.
  Dialect dialect = Dialect::kNative;
  std::string project;
  std::string team;  // The team whose share it uses. Empty: the user's default team.
  std::string comment;
  std::string account;
  std::string pool;                            // Slurm's partition, Valohai's environment. Free text on one server.
  std::map<std::string, std::string> labels;   // Values that the dialect reads back later: "slurm.qos" -> "normal".
  std::vector<std::string> extra_environment;  // NAME=value, added by the dialect. Overrides the captured environment.
  std::vector<std::string> notes;              // Options that do not apply on a single server. Shown to the user, never
                                               // fatal.

  bool queues_anyway = false;  // Accepts a request that exceeds the server's capacity, and waits.

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// The submitting user, as reported by the kernel (SO_PEERCRED), never as the client claims.
struct User {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::string name;

  friend bool operator==(const User&, const User&) = default;
};

/// The processes of a job that get a signal.
enum class SignalReach {
  kTree,          // All.
  kFirstProcess,  // The first process of the job: the script of a batch job.
  kOthers         // All processes except the first.
};

/// How a job's processes ended.
struct Exit {
  int code = 0;  // As a shell reports it: 128 + signal when a signal ended it.
  int signal = 0;
  bool was_oom_killed = false;
  bool hit_time_limit = false;
  bool is_known = true;  // False: the supervisor was killed as well, so nothing observed the end.
  std::string failure;   // Why it could not be started. Then `code` is one of model/exit_codes.h.
  Duration cpu_time{0};
  Bytes memory_peak;
  std::string steps;  // Its steps, as KeptSteps stores them (model/steps/step_list.h).

  friend bool operator==(const Exit&, const Exit&) = default;
};

/// Why the job is in its state, for people: a complete clause ("waits for 4 GPUs, 2 are free").
using Reason = std::string;

}  // namespace divvy
