#include "control/state/node_table.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "model/reason_words.h"

namespace divvy {
namespace {

// Labels "rack" and "block" give the location, "pool" and "features" are lists. Every label except the two lists is
// also a feature, both as its name alone and as "name=value".
NodeAttributes WordsOf(const NodeRow& row) {
  NodeAttributes attributes;
  attributes.name = row.name;
  for (const auto& [key, value] : row.AllLabels()) {
    if (key == "rack") attributes.rack = value;
    else if (key == "block") attributes.block = value;
    std::vector<std::string>* list = key == "pool"       ? &attributes.pools
                                     : key == "features" ? &attributes.features
                                                         : nullptr;
    if (list != nullptr) {
      for (const std::string_view word : Split(value, ',')) {
        if (!word.empty()) list->emplace_back(word);
      }
      continue;
    }
    attributes.features.push_back(key);
    attributes.features.push_back(key + "=" + value);
  }
  std::sort(attributes.features.begin(), attributes.features.end());
  attributes.features.erase(std::unique(attributes.features.begin(), attributes.features.end()),
                            attributes.features.end());
  std::sort(attributes.pools.begin(), attributes.pools.end());
  attributes.pools.erase(std::unique(attributes.pools.begin(), attributes.pools.end()), attributes.pools.end());
  return attributes;
}

/// "node n1 is draining: fan"; empty: administrators let it take work.
std::string WorkText(const std::string& name, NodeWork work, bool is_drained, const std::string& reason) {
  if (work == NodeWork::kTakes) return "";
  const std::string text = "node " + name + " is " + (is_drained ? "drained" : std::string(Name(work)));
  return reason.empty() ? text : text + ": " + reason;
}

}  // namespace

std::string NodeTable::NodeName(NodeIndex node) const {
  return node == kOwnNode ? std::string() : scheduler_.node(node).attributes.name;
}

std::optional<NodeIndex> NodeTable::IndexOf(const std::string& node) const {
  if (node.empty()) return kOwnNode;
  return scheduler_.FindNode(node);
}

NodeTable::Machine& NodeTable::MachineOf(NodeIndex node) {
  if (machines_.size() <= node) machines_.resize(node + 1);
  return machines_[node];
}

void NodeTable::SetOwnName(std::string name) {
  NodeAttributes attributes = scheduler_.node(kOwnNode).attributes;
  attributes.name = std::move(name);
  scheduler_.SetNode(kOwnNode, std::move(attributes), scheduler_.capacity());
}

NodeIndex NodeTable::OnNodeRow(const NodeRow& row) {
  const NodeIndex node = scheduler_.FindNode(row.name).value_or(static_cast<NodeIndex>(scheduler_.nodes().size()));
  Machine& machine = MachineOf(node);
  machine.work = row.work;
  machine.is_drained = row.work == NodeWork::kDraining && RunsOn(row.name).empty();
  machine.reason = row.reason;
  machine.gpu_source = row.facts.gpu_source;
  machine.drain_deadline = row.work == NodeWork::kDraining ? row.drain_deadline : kNever;
  machine.is_removed = false;
  SetFacts(node, row);
  RefreshNode(node);
  effects_.WakeBy(machine.drain_deadline);
  effects_.RequestPlan();
  return node;
}

// While jobs run on a node, it keeps the GPUs that it is counted with; GPUs that it no longer reports are faulty. Once
// it is idle, its report applies.
void NodeTable::SetFacts(NodeIndex node, const NodeRow& row) {
  NodeCapacity capacity{row.facts.gpus, row.facts.cpus, row.facts.memory};
  Machine& machine = MachineOf(node);
  machine.gone.clear();
  const bool is_known = node < scheduler_.nodes().size();
  if (is_known && !scheduler_.node(node).owned.empty()) {
    const std::vector<GpuFacts>& before = scheduler_.node(node).capacity.gpus;
    bool is_more = before.size() <= capacity.gpus.size();
    for (std::size_t i = 0; i < before.size() && is_more; ++i)
      is_more = before[i].uuid.empty() || before[i].uuid == capacity.gpus[i].uuid;  // An empty UUID comes from
                                                                                    // KeepGpusOf.
    if (!is_more) {
      for (const GpuFacts& gpu : before) {
        if (std::ranges::find(capacity.gpus, gpu.uuid, &GpuFacts::uuid) == capacity.gpus.end())
          machine.gone.push_back(gpu.index);
      }
      capacity.gpus = before;
    }
  }
  KnowModels(capacity);
  scheduler_.SetNode(node, WordsOf(row), std::move(capacity));
}

// A running job keeps its GPUs even if its node came back with fewer.
void NodeTable::KeepGpusOf(const JobRecord& record) {
  const auto keep = [this](const std::string& name, GpuSet gpus) {
    const NodeIndex node = IndexOf(name).value_or(kOwnNode);
    if ((gpus - scheduler_.node(node).present()).empty()) return;
    NodeCapacity capacity = scheduler_.node(node).capacity;
    const GpuFacts like = capacity.gpus.empty() ? GpuFacts() : capacity.gpus.front();
    while (!(gpus - GpuSet::FirstN(static_cast<int>(capacity.gpus.size()))).empty()) {
      GpuFacts gone;
      gone.index = static_cast<GpuIndex>(capacity.gpus.size());
      gone.model = like.model;
      gone.memory_total = like.memory_total;
      MachineOf(node).gone.push_back(gone.index);
      capacity.gpus.push_back(std::move(gone));
    }
    scheduler_.SetNode(node, scheduler_.node(node).attributes, std::move(capacity));
  };
  if (record.gang.empty()) keep(record.node, record.gpus);
  for (const NodeAllocation& allocation : record.gang) keep(allocation.node, allocation.gpus);
}

void NodeTable::OnNodeRemoved(NodeIndex node) {
  Machine& machine = MachineOf(node);
  machine = Machine();
  machine.is_removed = true;
  EmptyRemoved(node);
  RefreshNode(node);
  effects_.RequestPlan();
}

// A gang that is still being stopped elsewhere keeps its GPUs on a removed node until it has ended.
void NodeTable::EmptyRemoved(NodeIndex node) {
  const std::string& name = scheduler_.node(node).attributes.name;
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    const JobRecord* record = jobs_.Find(id);
    if (record != nullptr && std::ranges::count(AllocationsOf(*record), name, &NodeAllocation::node) > 0) return;
  }
  NodeAttributes attributes;
  attributes.name = name;
  scheduler_.SetNode(node, std::move(attributes), NodeCapacity());
}

void NodeTable::RefreshNode(NodeIndex node) {
  const Machine& machine = MachineOf(node);
  std::string why = WorkText(NodeName(node), machine.work, machine.is_drained, machine.reason);
  if (node != kOwnNode) {
    const std::string absence = DisconnectReason(NodeName(node));
    if (machine.is_removed) why = "node " + NodeName(node) + " was removed";
    else if (!absence.empty()) why = absence;
  }
  if (const std::string trouble = NodeHealthProblem(NodeName(node)); why.empty() && !trouble.empty())
    why = MachineText(node) + ": " + trouble;
  scheduler_.SetTakesWork(node, why.empty(), why);
  effects_.RequestPlan();
}

std::string NodeTable::DisconnectReason(const std::string& name) const {
  const auto node = IndexOf(name);
  if (!node || *node == kOwnNode || *node >= machines_.size()) return "";
  const Machine& machine = machines_[*node];
  if (machine.is_lost) return "node " + name + " is lost: nothing was heard from it";
  if (!machine.is_accounted) return "node " + name + " has not been heard from since the controller began";
  return machine.is_away ? "node " + name + " is away: its agent is not connected" : "";
}

std::string NodeTable::DrainOf(const std::string& name) const {
  const auto node = IndexOf(name);
  if (!node || *node >= machines_.size() || machines_[*node].drain_deadline == kNever) return "";
  return WorkTextOf(*node) + "; at its deadline this job is stopped (divvy nodes)";
}

void NodeTable::OnNodeDisconnected(const std::string& name) {
  const auto node = IndexOf(name);
  if (!node || *node == kOwnNode) return;
  MachineOf(*node).is_away = true;
  RefreshNode(*node);
}

bool NodeTable::OnNodeReconciled(const std::string& name) {
  const auto node = IndexOf(name);
  if (!node) return false;
  Machine& machine = MachineOf(*node);
  machine.is_accounted = true;
  machine.is_lost = machine.is_away = false;
  machine.trouble.clear();  // The node reports it again.
  RefreshNode(*node);
  return true;
}

void NodeTable::OnNodeLost(const std::string& name, Time now) {
  const auto node = IndexOf(name);
  if (!node) return;
  MachineOf(*node).is_lost = true;
  RefreshNode(*node);
  for (const JobId job : RunsOn(name)) effects_.Note(job, "node " + name + " is lost; " + std::string(kMayGoOn), now);
}

void NodeTable::OnNodeBack(const std::string& name) {
  const auto node = IndexOf(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine.is_lost = machine.is_away = false;
  RefreshNode(*node);
}

std::vector<JobId> NodeTable::RunsOn(const std::string& name) const {
  std::vector<JobId> jobs;
  const NodeIndex node = IndexOf(name).value_or(kOwnNode);
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    // Compares numbers first, because this runs for each node that connects. A job of a node that was not known when
    // the job was adopted counts as one on the own node.
    const auto may_be = [node](NodeIndex at) { return at == node || at == kOwnNode; };
    const auto is_there = [&](const NodeResources& place) { return may_be(place.node); };
    if (!may_be(job.node) && std::ranges::none_of(job.gang, is_there)) continue;
    const JobRecord* record = jobs_.Find(id);
    if (record == nullptr) continue;
    const auto allocations = AllocationsOf(*record);
    if (std::ranges::any_of(allocations, [&](const NodeAllocation& allocation) {
          return allocation.node == name && !HasEnded(*record, allocation);
        }))
      jobs.push_back(id);
  }
  return jobs;
}

std::vector<NodeIndex> NodeTable::FollowMachines(Time now) {
  std::vector<NodeIndex> overdue;
  for (NodeIndex node = 0; node < machines_.size(); ++node) {
    Machine& machine = machines_[node];
    if (machine.is_removed && scheduler_.node(node).capacity.cpus > 0) EmptyRemoved(node);
    if (machine.rests_until <= now) {
      machine.rests_until = kNever;
      RefreshNode(node);
    }
    if (machine.drain_deadline <= now) {
      machine.drain_deadline = kNever;
      overdue.push_back(node);
    }
    if (machine.work == NodeWork::kDraining && !machine.is_drained && RunsOn(NodeName(node)).empty()) {
      machine.is_drained = true;
      RefreshNode(node);
    }
    effects_.WakeBy(std::min(machine.rests_until, machine.drain_deadline));
  }
  return overdue;
}

Time NodeTable::next_change() const {
  Time next = kNever;
  for (const Machine& machine : machines_) next = std::min({next, machine.drain_deadline, machine.rests_until});
  return next;
}

std::string NodeTable::MachineText(NodeIndex node) const {
  const std::string& name = scheduler_.node(node).attributes.name;
  return name.empty() ? "this machine" : "node " + name;
}

void NodeTable::OnNodeTrouble(const std::string& name, const std::string& what) {
  const auto node = IndexOf(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine.trouble = what;
  // The trouble is over. Most likely it was also the reason why the node could not start a job, so the node need not
  // rest any longer after that failure.
  if (what.empty()) machine.rests_until = kNever;
  RefreshNode(*node);
}

std::string NodeTable::NodeHealthProblem(const std::string& name) const {
  const auto node = IndexOf(name);
  if (!node || *node >= machines_.size()) return "";
  const Machine& machine = machines_[*node];
  if (!machine.trouble.empty()) return machine.trouble;
  return machine.rests_until != kNever ? machine.refusal : "";
}

void NodeTable::Rest(NodeIndex node, std::string why, Time until) {
  Machine& machine = MachineOf(node);
  machine.refusal = std::move(why);
  machine.rests_until = until;
  effects_.WakeBy(until);
  RefreshNode(node);
}

bool NodeTable::IsAccounted(const std::string& name) const {
  const auto node = IndexOf(name);
  return node && (*node == kOwnNode || (*node < machines_.size() && machines_[*node].is_accounted));
}

const std::vector<GpuIndex>& NodeTable::GoneGpus(NodeIndex node) const {
  static const std::vector<GpuIndex> kNone;
  return node < machines_.size() ? machines_[node].gone : kNone;
}

std::string NodeTable::WorkTextOf(NodeIndex node) const {
  if (node >= machines_.size()) return "";
  return WorkText(NodeName(node), machines_[node].work, false, machines_[node].reason);
}

void NodeTable::SetCapacity(NodeCapacity capacity) {
  KnowModels(capacity);
  scheduler_.SetCapacity(std::move(capacity));
}

void NodeTable::KnowModels(const NodeCapacity& capacity) {
  for (const GpuFacts& gpu : capacity.gpus) {
    if (first_model_.empty()) first_model_ = gpu.model;
    is_mixed_ = is_mixed_ || gpu.model != first_model_;
  }
}

std::string NodeTable::ModelOf(const JobRecord& record) const {
  std::string model;
  for (const NodeAllocation& allocation : AllocationsOf(record)) {
    const auto node = IndexOf(allocation.node);
    if (!node) return "";
    const std::vector<GpuFacts>& known = scheduler_.node(*node).capacity.gpus;
    for (const int gpu : allocation.gpus.ToVector()) {
      if (static_cast<std::size_t>(gpu) >= known.size()) return "";
      const std::string& own = known[static_cast<std::size_t>(gpu)].model;
      if (!model.empty() && own != model) return "";
      model = own;
    }
  }
  return model;
}

Result<NodeIndex> NodeTable::FindMachine(const std::string& node) const {
  const auto index = IndexOf(node);
  if (index && (*index >= machines_.size() || !machines_[*index].is_removed)) return *index;
  return NotFound("there is no node '" + node.substr(0, 64) + "'; divvy nodes lists all nodes");
}

}  // namespace divvy
