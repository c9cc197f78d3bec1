// The nodes: their properties, connection, health and whether they take work. The controller's own machine is node
// kOwnNode, without a name in records.
//
// Keeps the scheduler's nodes in step. Which GPUs of a node are usable is up to GpuMonitor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/node_registry.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class NodeTable {
 public:
  NodeTable(Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects) {}

  // --- Names and properties ------------------------------------------------------------------------------------

  /// The name used in records: empty for the controller's own machine.
  std::string NodeName(NodeIndex node) const;
  std::optional<NodeIndex> IndexOf(const std::string& node) const;
  /// Like IndexOf, except removed nodes; fails with kNotFound.
  Result<NodeIndex> FindMachine(const std::string& node) const;
  /// "node n1", for messages.
  std::string MachineText(NodeIndex node) const;
  /// Sets what the controller's own machine has.
  void SetCapacity(NodeCapacity capacity);
  void SetOwnName(std::string name);
  /// The GPUs are of several models.
  bool is_mixed() const { return is_mixed_; }
  /// The model of all GPUs that the job holds; empty if they are of several models.
  std::string ModelOf(const JobRecord& record) const;
  /// Ensures that the job's GPUs exist, even if its node came back with fewer. Call before it is adopted.
  void KeepGpusOf(const JobRecord& record);
  /// GPUs that are still counted because jobs use them, but that no longer exist.
  const std::vector<GpuIndex>& GoneGpus(NodeIndex node) const;

  // --- Events: see Controller ----------------------------------------------------------------------------------

  NodeIndex OnNodeRow(const NodeRow& row);
  void OnNodeRemoved(NodeIndex node);
  /// Returns whether there is such a node.
  bool OnNodeReconciled(const std::string& name);
  void OnNodeDisconnected(const std::string& name);
  void OnNodeLost(const std::string& name, Time now);
  void OnNodeBack(const std::string& name);
  void OnNodeTrouble(const std::string& name, const std::string& what);
  /// The node could not start a job for reasons of its own, `why`: it gets no jobs before `until`.
  void Rest(NodeIndex node, std::string why, Time until);
  /// Applies what is due. Returns the nodes whose drain deadline has passed; the caller stops their jobs.
  std::vector<NodeIndex> FollowMachines(Time now);
  /// When FollowMachines has something to do.
  Time next_change() const;

  // --- State ---------------------------------------------------------------------------------------------------

  std::string DisconnectReason(const std::string& name) const;
  std::string DrainOf(const std::string& name) const;
  std::string NodeHealthProblem(const std::string& name) const;
  /// "node n1 is draining: fan"; empty: administrators let it take work.
  std::string WorkTextOf(NodeIndex node) const;
  bool IsAway(NodeIndex node) const { return node < machines_.size() && machines_[node].is_away; }
  /// The node was connected since the controller began, so signals for it are kept.
  bool IsAccounted(const std::string& name) const;
  /// Active jobs with a part on the node that has not ended; ascending.
  std::vector<JobId> RunsOn(const std::string& node) const;

 private:
  struct Machine {
    NodeWork work = NodeWork::kTakes;
    std::string reason;  // The administrator's reason for giving it no work.
    Time drain_deadline = kNever;
    bool is_accounted = false;
    bool is_away = false;
    bool is_lost = false;
    bool is_removed = false;
    bool is_drained = false;     // It is draining, and nothing runs there any more.
    std::string trouble;         // A problem that the node found itself and that keeps it from taking jobs.
    std::string refusal;         // Why it could not start its last job.
    Time rests_until = kNever;   // After a refusal: it gets no jobs before then. kNever: it does not rest.
    std::vector<GpuIndex> gone;  // See GoneGpus.
  };

  Machine& MachineOf(NodeIndex node);
  void KnowModels(const NodeCapacity& capacity);
  void SetFacts(NodeIndex node, const NodeRow& row);
  void EmptyRemoved(NodeIndex node);
  void RefreshNode(NodeIndex node);

  Scheduler& scheduler_;
  const JobTable& jobs_;
  EffectRecorder& effects_;
  std::vector<Machine> machines_;  // Indexed by node. The controller's own machine uses only problems and work state.
  std::string first_model_;        // The model of the first GPUs that were registered.
  bool is_mixed_ = false;
};

}  // namespace divvy
