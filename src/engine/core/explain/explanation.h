// The values of an explanation of one waiting job (explain.h): its blockers, the change that would start it, and the
// names that their texts use. Plain values with complete sentences for users.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/estimate/estimate.h"
#include "engine/core/state/cluster_facts.h"

namespace divvy::core {

/// The kinds of blockers, the hardest first: explanations sort blockers in this order.
enum class BlockerKind : std::uint8_t {
  kImpossible,   // No node could ever run the job.
  kHeld,         // A user or an administrator holds the job.
  kDependency,   // Other jobs have to end first.
  kBeginTime,    // The job may not start before its begin time.
  kUnusable,     // Nodes could run it, but too few of their GPUs are in service.
  kCap,          // A group, an array, a team or a user runs as many jobs as allowed.
  kCpuJobs,      // As many jobs without GPUs run as allowed.
  kGpuCap,       // A group or a user holds as many GPUs as allowed.
  kTeamLimit,    // The team's limit.
  kTeamQuota,    // The team's quota for jobs that may not be preempted.
  kGpus,         // Too few GPUs are free.
  kKind,         // Enough GPUs are free, but not of a class that the job accepts.
  kCpus,         // Too few CPUs are free.
  kMemory,       // Too little host memory is free.
  kLocality,     // There is enough room, but not in one rack, block or node, or not on one model.
  kTopology,     // Enough GPUs are free on one node, but they are not joined as the job requires.
  kReservation,  // There is room, but it is reserved for others.
  kOrder,        // Strict order: no job may pass the first blocked one.
  kFit,          // Each task fits alone, but not all of them together.
};

/// A job, or an advance reservation, that has what a blocked job lacks.
struct Holder {
  JobId job;  // It runs, or has a backfill reservation. Not set: an advance reservation.
  std::vector<TaskPlacement> placements;
  Time until = kNever;  // A running job's expected end, a reservation's start; kNever: not known.
  bool is_leaving = false;
};

/// The unit of `needed` and `available` of a blocker.
enum class BlockerUnit : std::uint8_t { kCount, kGpuParts, kCpuMilli, kMebibytes };

/// One thing that holds a job back.
struct Blocker {
  BlockerKind kind = BlockerKind::kGpus;
  BlockerUnit unit = BlockerUnit::kCount;  // kCount: jobs or tasks. kGpuParts: ten-thousandths of GPUs.
  std::string text;  // Complete without the other fields: "needs 4 GPUs on one node; 37 are free on 20 nodes, ...".
  std::int64_t needed = 0;
  std::int64_t available = 0;
  std::vector<Holder> holders = {};  // Sorted by expected end; at most kMostHolders.
  bool has_more_holders = false;
  std::string rule = {};  // Optional. The rule or setting behind it: "array limit %2", "reservation of job 9".
};
inline constexpr std::size_t kMostHolders = 16;

enum class ChangeKind : std::uint8_t {
  kPreemptible,
  kTimeLimit,
  kLocality,
  kTopology,
  kHost,  // Fewer CPUs, less memory.
  kModel,
  kFewerGpus,
  kFewerTasks,
  kShare,
};

/// A change of the request with which the job would start at once.
struct Change {
  ChangeKind kind = ChangeKind::kTimeLimit;
  ResourceRequest request;  // The changed request.
  Duration limit{0};
  Preemptible preemptible = Preemptible::kNever;
  std::string text;  // "--time 1h (it would end before job 9 starts in 1 h)", "--gpus 2 (GPUs 3 and 5 are free)".
};

struct Explanation {
  bool is_waiting = false;
  bool is_queued = false;            // False: parked, or its begin time is ahead.
  std::uint64_t position = 0;        // Place in the queue, from 1; 0: not queued.
  std::uint64_t members_before = 0;  // Elements of its own array that go before it.
  std::int64_t ahead_parts = 0;      // Ten-thousandths of GPUs requested by the jobs ahead of it.
  std::string key;                   // Compared by the queue policy: "priority 0, 4 GPUs, waiting 1 h 5 min".
  std::vector<Blocker> blockers;     // All of them, the hardest first. Empty: the next decision starts the job.
  Estimate start;
  std::optional<Change> change;

  /// Returns the text of the change with which the job would start at once; "" if no change was found.
  std::string change_text() const { return change ? change->text : std::string(); }
};

/// Text for things that the cluster knows by number only. Each function is optional; node_class_text.h has those that a
/// NodeClassIndex can answer.
struct Names {
  /// Returns the GPU models of these node classes, as a phrase after "4 GPUs": "of type h100". Empty for all classes.
  std::function<std::string(placement::ModelSet)> models;
  /// Returns the command-line option that requests nodes of this class: "--gpu-type a100".
  std::function<std::string(int)> gpu_type_option;
  /// Describes the nodes that meet the conditions of one of the filters: "of type a100 in pool p".
  std::function<std::string(std::span<const FilterIndex>)> filters;
  /// Returns the first condition of the filter that no node meets: "no node has feature ib".
  std::function<std::string(FilterIndex)> lacking;
  /// Returns the command-line options that express the filter: "--gpu-type and --constraint".
  std::function<std::string(FilterIndex)> options;
  /// Returns the changed command-line options with which the filter would accept all nodes of this class: "--gpu-type
  /// a100 and no --exclude".
  std::function<std::string(FilterIndex, int)> instead;
  /// Returns the memory of the largest GPU in MiB if the filter's --gpu-memory is more than any GPU has; otherwise 0.
  std::function<std::int32_t(FilterIndex)> largest_memory_mib;
  /// Returns why these GPUs of the node, or the whole node, take no new work: "GPU 2 is restricted", "node n2 is
  /// cordoned".
  std::function<std::string(NodeIndex, GpuSet)> withheld;
};

}  // namespace divvy::core
