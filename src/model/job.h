// What a user asks for (JobSpec) and what becomes of it (Job). Plain values: they copy, compare and hold no behaviour
// beyond their own invariants. Whatever door a job came through, this is what it becomes.
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

/// Where the job's text came from; decides which tool's names its environment carries besides CUDA_* and DIVVY_*.
enum class Dialect { kNative, kSlurm, kGflow, kValohai };

enum class JobState {
  kHeld,
  kQueued,
  kStarting,  // It has its GPUs; its process is being started.
  kRunning,
  kPaused,
  kStopping,  // Asked to end; still holds its GPUs.
  kSucceeded,
  kFailed,
  kCancelled,
  kTimedOut,
  kLost,  // Nobody can say how it ended.
};
constexpr bool IsFinal(JobState state) { return state >= JobState::kSucceeded; }
/// For its first run, or for another.
constexpr bool IsWaiting(JobState state) { return state == JobState::kHeld || state == JobState::kQueued; }
/// Holds GPUs.
constexpr bool IsActive(JobState state) { return state >= JobState::kStarting && state <= JobState::kStopping; }

/// Which of the free GPUs. Stored as numbers: new ones go to the end.
enum class PlacementStrategy {
  kSequential,  // The lowest indices.
  kRandom,
  kPack,    // Fill up what is begun; inside one node the lowest indices.
  kSpread,  // Over NUMA nodes, one GPU of each in turn.
  kBest,    // Over nodes what breaks up least; inside a node the set that is connected best (engine/gpu_sets.h).
};

/// What a job wants of the way between its GPUs, or between its machines. Stored as numbers: new ones go to the end.
enum class TopologyNeed {
  kAny,     // The best there is.
  kNuma,    // All on one NUMA node.
  kNvlink,  // Every pair joined by NVLink.
  kRack,    // Its machines in one rack (label "rack").
  kBlock,   // In one block ("block"), which may have several racks.
};
constexpr bool IsOfMachines(TopologyNeed need) { return need == TopologyNeed::kRack || need == TopologyNeed::kBlock; }
/// What of it is for the GPUs of one machine.
constexpr TopologyNeed OfGpus(TopologyNeed need) { return IsOfMachines(need) ? TopologyNeed::kAny : need; }

// g++ 12 takes an enumerator of a scoped enum for a shadow of the global kNever, which it is not.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
/// Whether a running job may be stopped for others. Stored as numbers.
enum class Preemptible {
  kNever,
  kPause,    // Stopped where it is and continued later.
  kRequeue,  // Ended after its grace, and queued again under its id.
};
#pragma GCC diagnostic pop

/// A component of a heterogeneous job beyond its first: what it needs, as Request says it of the first.
struct Component {
  int gpus = 0;
  std::string gpu_type;
  Bytes gpu_memory;
  int cpus = 0;
  Bytes memory;
  int tasks = 1;
  int nodes = 1;
  bool spreads_tasks = false;
  std::string constraint;
  std::vector<std::string> node_list;
  std::vector<std::string> excluded_nodes;
  std::string pool;                           // Its machines are of this pool; empty: as the job's.
  std::map<std::string, std::string> labels;  // As JobSpec::labels: "slurm.ntasks" -> "4".

  friend auto operator<=>(const Component&, const Component&) = default;
};

/// What a job needs of a machine, all of it at once. Zero (or empty) asks for nothing.
struct Request {
  int gpus = 0;  // Of an elastic job: the fewest that it runs on.
  /// Acceptable models: alternatives separated by '|', each a case-insensitive part of the GPU's model name
  /// ("h100|a100"); terms joined by '&' must all match ("h100&80gb"). Behind an alternative may stand its speed
  /// relative to the others ("h100*1.0|a100*0.55"). Empty: any.
  std::string gpu_type;
  Bytes gpu_memory;  // At least this much total memory on each GPU.
  int cpus = 0;
  Bytes memory;       // Host memory; enforced where a memory cgroup is at hand.
  int tasks = 1;      // Processes that a step runner starts inside the job; the batch process is one in any case.
  int gpus_most = 0;  // Elastic: it runs on any number from `gpus` to this. 0: fixed.
  TopologyNeed topology = TopologyNeed::kAny;
  bool requires_topology = false;  // False: `topology` is a preference, and less is taken where there is no more.
  // Of a job on several machines. `nodes` machines give all of this each, but for the tasks, which are of all together;
  // or, where `spreads_tasks`, its tasks may lie on as many machines as it takes, each with its even share of all this.
  // Never both.
  int nodes = 1;
  bool spreads_tasks = false;
  // Which machines. Empty: any.
  std::string constraint;                   // Features, as engine/feature_expression.h reads them: "ib&(nvme|ssd)".
  std::vector<std::string> node_list;       // Each machine is one of these.
  std::vector<std::string> excluded_nodes;  // No machine is one of these.
  /// Of a heterogeneous job: its components beyond the first, which is all of the above. All start together or none
  /// does. Never of an elastic job.
  std::vector<Component> others;
  /// A part of each of its GPUs in place of whole ones. Never of a job on several machines, of one with components, or
  /// of an elastic one.
  GpuPortion portion;
  /// A MIG instance in place of a GPU: a profile ("1g.18gb"), or the memory that it has at least (">=16G"). Then
  /// `gpus` is 1. Empty: none.
  std::string slice;

  bool is_portioned() const { return portion.any(); }
  bool is_gang() const { return nodes > 1 || spreads_tasks || is_heterogeneous(); }
  bool is_heterogeneous() const { return !others.empty(); }
  std::size_t components() const { return 1 + others.size(); }
  /// On all machines together; of an elastic job the fewest.
  int gpus_in_all() const {
    int all = gpus * nodes;
    for (const Component& one : others) all += one.gpus * one.nodes;
    return all;
  }
  /// Machines; of tasks that may lie on several: one.
  int nodes_in_all() const {
    int all = nodes;
    for (const Component& one : others) all += one.nodes;
    return all;
  }
  bool is_elastic() const { return gpus_most > gpus; }
  int gpus_at_most() const { return is_elastic() ? gpus_most : gpus; }

  friend auto operator<=>(const Request&, const Request&) = default;
};

/// The component of this number, from 0, as a request of its own. Requires: there is one.
Request ComponentOf(const Request& request, std::size_t component);

enum class DependencyKind { kAfter, kAfterOk, kAfterNotOk, kAfterAny, kSingleton };
enum class DependencyStatus { kPending, kSatisfied, kImpossible };

struct Dependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  JobId job;  // Not set for kSingleton. An array's own id means all of its elements.
  /// One element of the array `job`; nothing: the job, or the whole array.
  std::optional<std::uint32_t> element;
  Duration delay{0};  // kAfter only: so long after its start.
  /// Records only: stored with the event that decided it, so the target's row may be pruned afterwards. Always kPending
  /// for kSingleton.
  DependencyStatus status = DependencyStatus::kPending;

  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct ArraySpec {
  IndexRanges indices;
  int at_once = 0;  // Elements that may run together; 0: no cap.

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

/// One column of a parameter sweep. The elements of a sweep are the Cartesian product of its columns, the last column
/// changing fastest; the columns of a CSV file advance together (same `row_group`).
struct Parameter {
  std::string name;
  std::vector<std::string> values;
  int row_group = -1;  // -1: its own dimension; else columns with the same number are one dimension.

  friend bool operator==(const Parameter&, const Parameter&) = default;
};

struct WarnSignal {
  int signal = 0;           // 0: none.
  Duration before{0};       // Ahead of the time limit.
  bool batch_only = false;  // Slurm's "B:": to the batch process alone, not to the whole tree.

  friend bool operator==(const WarnSignal&, const WarnSignal&) = default;
};

/// What was captured around the submission and is the same for many jobs, so it is stored once per content.
struct Capture {
  std::vector<std::string> environment;        // NAME=value, sorted.
  std::map<std::string, std::int64_t> limits;  // "nofile" -> soft limit; -1: unlimited.
  int umask = 022;

  friend bool operator==(const Capture&, const Capture&) = default;
};

struct JobSpec {
  // What to run: exactly one of `command` and `script` is not empty.
  std::vector<std::string> command;    // argv.
  std::string script;                  // The text itself, "#!" line included; run as a file of its own.
  std::vector<std::string> arguments;  // After the script.
  std::string name;                    // Empty: the base name of the command, or of the script's file.

  Request request;
  PlacementStrategy placement = PlacementStrategy::kSequential;
  bool is_placement_set = false;  // False: the server's own strategy.

  // When.
  int priority = 0;  // Higher goes first.
  bool is_held = false;
  Time begin = kNoTime;
  Duration time_limit{0};  // 0: none.
  Time end_by = kNoTime;   // It has ended by then, or does not start at all. kNoTime: whenever it has.
  WarnSignal warn;
  int stop_signal = 15;    // First rung of the kill ladder.
  int resize_signal = 10;  // To an elastic job whose GPUs have changed, or are to: SIGUSR1; 0: none.
  Duration grace{-1};      // From the stop signal to SIGKILL; -1: the server's own.
  std::vector<Dependency> dependencies;
  bool needs_any_dependency = false;  // True: one of them is enough.
  bool keeps_waiting = false;         // True: stays queued when a dependency can no longer be met; else cancelled.

  // How many.
  std::optional<ArraySpec> array;
  std::vector<Parameter> parameters;
  std::string name_template;                        // "train-{lr}".
  int retries = 0;                                  // Runs again so often after a failure.
  Duration retry_delay = std::chrono::seconds(10);  // Doubles with each retry, up to an hour.
  bool requeues_after_reboot = false;
  bool is_run_once =
      false;  // Never queued again once it has begun, not even where its machine is gone: it is lost then.
  Preemptible preemptible = Preemptible::kNever;
  bool is_preemptible_set = false;  // False: as the server has it.
  std::string group;                // Jobs of one group share a cap on how many run together.
  int group_limit = 0;              // 0: leaves the group's cap as it is.

  // Where it reads and writes. Patterns (%j %A %a %x %u %N %n %t %%) are filled when it starts.
  std::string directory;
  std::string output;  // Empty: a log that divvy keeps ("divvy logs ID").
  std::string error;   // Empty: joins the output.
  std::string input;   // Empty: /dev/null.
  bool appends_output = false;
  bool is_foreground = false;  // Uses the caller's own streams, and ends when the caller goes.
  bool wants_pty = false;
  Capture capture;

  // Labels.
  Dialect dialect = Dialect::kNative;
  std::string project;
  std::string team;  // Whose share it runs on; empty: the user's own default.
  std::string comment;
  std::string account;
  std::string pool;                            // Slurm's partition, Valohai's environment. Free text on one server.
  std::map<std::string, std::string> labels;   // What the dialect wants back later: "slurm.qos" -> "normal".
  std::vector<std::string> extra_environment;  // NAME=value added by the dialect; wins over the captured one.
  std::vector<std::string> notes;              // What was asked and does not apply on one server; shown, never fatal.

  bool queues_anyway = false;  // Accepts a request above what this server can ever give, and waits.

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// Who submitted, as the kernel told us (SO_PEERCRED), never as the client says.
struct User {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::string name;

  friend bool operator==(const User&, const User&) = default;
};

/// Which of a job's processes a signal is for.
enum class SignalReach {
  kTree,          // All.
  kFirstProcess,  // The one that it began with: a batch job's script.
  kOthers         // All but that one.
};

/// How a job's processes ended.
struct Exit {
  int code = 0;  // As a shell would have it: 128 + signal when a signal ended it.
  int signal = 0;
  bool was_oom_killed = false;
  bool hit_time_limit = false;
  bool is_known = true;  // False: its supervisor was killed as well, and no one saw the end.
  std::string failure;   // Why it could not be started at all; then code is 127 or 126.
  Duration cpu_time{0};
  Bytes memory_peak;
  std::string steps;  // What is kept of them: KeptSteps (model/steps/step_list.h).

  friend bool operator==(const Exit&, const Exit&) = default;
};

/// Why a job is in the state it is in, for people: always a full sentence fragment ("waits for 4 GPUs, 2 are free").
using Reason = std::string;

}  // namespace divvy
