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

  /// Returns the node's name as in job records: empty for the controller's own machine.
  std::string NodeName(NodeIndex node) const;
  std::optional<NodeIndex> IndexOf(const std::string& node) const;
  /// Returns the index of the node with this name. Fails with kNotFound if there is none, or if it was removed.
  Result<NodeIndex> FindMachine(const std::string& node) const;
  /// Returns the node's name for messages: "node n1", or "this machine" for the controller's own.
  std::string MachineText(NodeIndex node) const;
  /// Sets the GPUs, CPUs and memory of the controller's own machine.
  void SetCapacity(NodeCapacity capacity);
  void SetOwnName(std::string name);
  /// Sets MachineFacts::gpu_source of the controller's own machine.
  void SetOwnGpuSource(std::string source) { MachineOf(kOwnNode).gpu_source = std::move(source); }
  /// Returns MachineFacts::gpu_source of the node; empty if unknown.
  std::string GpuSourceOf(NodeIndex node) const { return node < machines_.size() ? machines_[node].gpu_source : ""; }
  /// Returns true if the GPUs of all nodes are of several models.
  bool is_mixed() const { return is_mixed_; }
  /// Returns the model of the GPUs that the job holds; empty if they are of several models.
  std::string ModelOf(const JobRecord& record) const;
  /// Makes sure that the GPUs of a running job are counted, even if its node now reports fewer. Call it before the job
  /// is added to the scheduler.
  void KeepGpusOf(const JobRecord& record);
  /// The node's GPUs that no longer exist but are still counted, because jobs hold them.
  const std::vector<GpuIndex>& GoneGpus(NodeIndex node) const;

  // --- Events: see Controller ----------------------------------------------------------------------------------

  NodeIndex OnNodeRow(const NodeRow& row);
  void OnNodeRemoved(NodeIndex node);
  /// Records that the node is connected and that the controller knows all of its runs. Returns false if there is no
  /// such node.
  bool OnNodeReconciled(const std::string& name);
  void OnNodeDisconnected(const std::string& name);
  void OnNodeLost(const std::string& name, Time now);
  void OnNodeBack(const std::string& name);
  void OnNodeTrouble(const std::string& name, const std::string& what);
  /// Gives the node no jobs before `until`, because it could not start one by a problem of the node (`why`).
  void Rest(NodeIndex node, std::string why, Time until);
  /// Updates nodes for which a time has come, such as the end of a pause. Returns the nodes whose drain deadline has
  /// passed; the caller stops their jobs.
  std::vector<NodeIndex> FollowMachines(Time now);
  /// Returns when FollowMachines must be called next.
  Time next_change() const;

  // --- State ---------------------------------------------------------------------------------------------------

  std::string DisconnectReason(const std::string& name) const;
  std::string DrainOf(const std::string& name) const;
  std::string NodeHealthProblem(const std::string& name) const;
  /// Returns why administrators let the node take no work: "node n1 is draining: fan". Empty if they let it.
  std::string WorkTextOf(NodeIndex node) const;
  bool IsAway(NodeIndex node) const { return node < machines_.size() && machines_[node].is_away; }
  /// Returns true if the controller has known all runs of the node at some time since it started. Signals for jobs on
  /// any other node are not kept for later.
  bool IsAccounted(const std::string& name) const;
  /// Returns the active jobs of which something still runs on the node, ascending.
  std::vector<JobId> RunsOn(const std::string& node) const;

 private:
  struct Machine {
    NodeWork work = NodeWork::kTakes;
    std::string gpu_source;
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
