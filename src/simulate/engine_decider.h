// The production scheduler behind the replay's interface: the same core::Cluster that the daemon runs, fed from a
// trace.
//
// A job of up to a node's GPUs is one task on one node. A larger job is a gang that fills whole nodes, and has the rest
// on one more node. Jobs request nothing that the trace does not have (CPUs, memory, time limits).
//
// The scheduler knows nothing about a job that it could not know at that moment, except with Predicting::kTrue.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/core/state/resource_request.h"
#include "engine/core/state/rules.h"
#include "engine/run_times.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

enum class Predicting {
  kNone,
  kHistory,  // From the jobs that have ended by then: engine/run_times.h.
  kTrue,     // The true run time, as prediction and as time limit. Shows the benefit of perfect knowledge.
};

struct EngineRule {
  core::Rules rules;
  Predicting predicting = Predicting::kHistory;
  bool uses_limits = true;  // Uses the trace's time limits, if it has them.
  bool uses_teams = false;  // The trace's teams become teams of equal weight. False: all users are in one team.
  PlacementStrategy placement = PlacementStrategy::kBest;
};

/// Returns the names of the scheduler's queue policies: "small-first", "fifo", "fair", "shortest".
const std::vector<std::string_view>& EnginePolicyNames();
std::optional<QueuePolicy> EnginePolicyFromName(std::string_view name);

class EngineDecider : public Decider {
 public:
  /// Returns how accurate run times predicted from history were; all zero if the scheduler does not use such
  /// predictions.
  virtual RunTimes::Accuracy accuracy() const = 0;

  // --- For clusters whose nodes come and go (growth_decider.h)

  struct WaitingJob {
    JobIndex job = 0;
    const core::ResourceRequest* request = nullptr;
    Duration predicted{0};  // 0: unknown.
    Duration limit{0};      // 0: none.
    Time since{};           // Its submission.
  };
  /// A task of a running job. `expected_end`: kNever if it cannot be dated.
  struct RunningTask {
    core::NodeIndex node = 0;
    const placement::Shape* shape = nullptr;
    placement::GpuPlace place;
    Time expected_end = kNever;
  };

  /// Returns the number of the class of equal nodes that nodes of `group` belong to. Requires: the cluster had a group
  /// of the same model and team when it was made.
  virtual int ClassOf(const NodeGroup& group) const = 0;
  /// Adds an idle node that takes jobs. Requires: the cluster had a group of the same model and team when it was made.
  virtual core::NodeIndex AddNode(const NodeGroup& group) = 0;
  /// Sets whether the node takes new jobs. Its running jobs continue.
  virtual void SetAvailable(core::NodeIndex node, bool is_available) = 0;
  virtual std::size_t node_count() const = 0;
  virtual const placement::NodeState& RoomOf(core::NodeIndex node) const = 0;
  /// Returns the waiting jobs in order of submission. Their requests are valid until the next Submit.
  virtual std::vector<WaitingJob> WaitingJobs() const = 0;
  virtual std::vector<RunningTask> RunningTasks() const = 0;
  /// Removes a waiting job, which then runs elsewhere.
  virtual void Withdraw(JobIndex job, Time now) = 0;
  /// Puts a running job back into the queue.
  virtual void Requeue(JobIndex job, Time now) = 0;
};

/// Makes a simulation of divvy's own scheduler. Fails if the cluster has more node classes, or a node has more GPUs,
/// than the scheduler supports. A job that no node can ever hold is never started.
Result<std::unique_ptr<EngineDecider>> MakeEngineDecider(const TraceCluster& cluster, const EngineRule& rule);

}  // namespace divvy::simulate
