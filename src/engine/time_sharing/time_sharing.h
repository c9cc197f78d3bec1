// Time-sharing of whole GPUs when run times are unknown: a new job starts at once, if need be on the GPUs of a long job
// that is parked in host memory meanwhile.
//
// A job is on trial until it has used Options::trial of GPU time. Jobs on trial do not displace each other. A job whose
// trial is over can be displaced by the trial of another one, and returns to GPUs of its own node.
//
// A job *settles* when it holds its GPUs in its own right: after its trial, if all settled jobs of its node have room
// beside each other. A job that cannot be parked settles at its start. The contract protects settled jobs: at every
// moment, the time that one has lost since it settled is at most `at_most` of its run time so far, plus `allowance`.
// This holds because only jobs that can be parked displace settled jobs, and because a job whose budget is used up
// takes its GPUs back from jobs that have not settled. Before it settles, a job waits for its turn.
//
// Jobs that cannot be parked, gangs above all, displace only jobs that have not settled. So that they find such nodes,
// jobs settle only on nodes that gangs did not need lately (World::gang_nodes).
//
// Bounds on waiting. A parked job that has lost more than Options::patience settles before all others, as soon as the
// jobs that have settled on its node leave room. A job that has waited longer than `start_patience` for its first start
// may displace every younger job that has not settled; until it starts, no younger job settles, no younger job that
// cannot be parked starts, and none starts on the nodes where the elder one can probably start first. So each waits
// only for jobs that were submitted before it or had settled by then.
//
// Sources: two levels of attained service as in Tiresias (NSDI 2019), with parking instead of checkpoints; the
// contract and the open nodes are divvy's own. docs/time-sharing.md has the measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job.h"

namespace divvy::time_sharing {

struct Options {
  Duration trial = std::chrono::hours(64);  // GPU time: run time x GPUs.
  /// The part of a settled job's run time that it may lose. Without a value there is no contract: jobs settle only by
  /// `patience`, and then lose nothing more.
  std::optional<double> at_most = 0.2;
  Duration allowance = std::chrono::minutes(10);  // May be lost in addition to `at_most`.
  Duration park = std::chrono::seconds(10);       // The time to copy a job to host memory, and back.
  Duration wake = std::chrono::seconds(10);
  Duration min_run = std::chrono::minutes(2);         // A job runs this long before it is displaced.
  Duration min_displacement = std::chrono::hours(1);  // A settled job is displaced only if it may lose this much.
  Duration patience = std::chrono::hours(72);
  Duration start_patience = std::chrono::days(14);
};

enum class Phase { kWaiting, kRunning, kParked };

struct NodeGpus {
  std::uint32_t node = 0;  // Index into World::nodes.
  int gpus = 0;

  friend bool operator==(const NodeGpus&, const NodeGpus&) = default;
};

struct NodeView {
  int gpus = 0;
  /// GPUs whose memory fits into the node's host memory. All jobs on the node, running and parked, have at most
  /// `gpus + parkable_gpus` GPUs, each counted as if its memory were full.
  int parkable_gpus = 0;
};

struct JobView {
  JobId id;
  int gpus = 0;           // Whole GPUs. More than the largest node has: a gang, which fills nodes of that size.
  bool can_park = false;  // False for gangs, and for jobs of which the node knows that they cannot be parked.
  bool is_settled = false;
  Phase phase = Phase::kWaiting;
  Time queued_at{};
  /// While running: when the run began or begins, after the copies. While parked: when it was parked.
  Time since{};
  Duration ran{0};              // Run time so far.
  Duration lost{0};             // Time since its first start in which it did not run.
  Duration lost_settled{0};     // The part of `lost` since it settled.
  std::vector<NodeGpus> place;  // Where it runs, or is parked. One node if `can_park`.
};

struct World {
  std::vector<NodeView> nodes;
  std::vector<JobView> jobs;  // In queue order: the first goes first.
  /// The most nodes that gangs used or waited for at once, in the recent past.
  int gang_nodes = 0;
};

enum class ActionKind {
  kStart,
  kPark,
  kReturn,
  kSettle,  // From now on, the contract protects the job.
};

enum class Reason {
  kFreeGpus,  // Its GPUs are free.
  kTrial,     // Starts on the GPUs of displaced jobs, or is displaced, for the trial of `other`.
  kContract,  // Returns because its budget is used up, or leaves the GPUs of `other`, whose budget is.
  kTurn,      // Settles: its trial is over and its node has room for it.
  kPatience,  // Settles because it has lost more than Options::patience.
};

struct Action {
  ActionKind kind = ActionKind::kStart;
  JobId job;
  std::vector<NodeGpus> place;
  Duration delay{0};  // From now until its run begins (kStart, kReturn): the copies that come first.
  Reason reason = Reason::kFreeGpus;
  JobId other;  // The job that causes a kPark. Not set for other actions.
};

struct Plan {
  std::vector<Action> actions;  // In the order in which they must be applied.
  Time next_wakeup = kNever;    // When to decide again even if nothing happens. After `now`.
};

/// Returns the reason as text for users: "its GPUs are free", "the trial of another job", ...
std::string_view ToText(Reason reason);

/// Returns how much time a settled job (one that is protected from losing much more) may still lose by being parked; 0
/// if no limit of lost time is set.
Duration BudgetLeft(const JobView& job, const Options& options);

/// Returns the weight of parking this running job, in all its GPUs: of the sets of jobs that free equally many GPUs,
/// the one with the least total is parked. A settled job with much budget left weighs least, a job that waits for its
/// turn more, and a job on trial most. At most 10^5.
double WeightOf(const JobView& job, const Options& options);

/// Decides which jobs start, are parked, return to their GPUs or settle. Requires: on every node, the settled jobs fit
/// beside each other; the result preserves that. Cost: O(waiting shapes x nodes x running jobs of a node) plus O(jobs).
Plan Decide(const World& world, Time now, const Options& options);

}  // namespace divvy::time_sharing
