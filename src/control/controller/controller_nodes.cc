// Agent nodes: their properties, whether they take work, and what happens to jobs of lost or draining nodes.
#include <algorithm>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"
#include "control/controller/controller.h"
#include "engine/message_text.h"
#include "model/reason_words.h"

namespace divvy {
namespace {

// Labels "rack" and "block" give the location, "pool" and "features" are lists. Every label except the two lists is
// also a feature, both as its name alone and as "name=value".
NodeWords WordsOf(const NodeRow& row) {
  NodeWords words;
  words.name = row.name;
  for (const auto& [key, value] : row.AllLabels()) {
    if (key == "rack") words.rack = value;
    else if (key == "block") words.block = value;
    std::vector<std::string>* list = key == "pool" ? &words.pools : key == "features" ? &words.features : nullptr;
    if (list != nullptr) {
      for (const std::string_view word : Split(value, ',')) {
        if (!word.empty()) list->emplace_back(word);
      }
      continue;
    }
    words.features.push_back(key);
    words.features.push_back(key + "=" + value);
  }
  std::sort(words.features.begin(), words.features.end());
  words.features.erase(std::unique(words.features.begin(), words.features.end()), words.features.end());
  std::sort(words.pools.begin(), words.pools.end());
  words.pools.erase(std::unique(words.pools.begin(), words.pools.end()), words.pools.end());
  return words;
}

/// "node n1 is draining: fan"; empty: administrators let it take work.
std::string WorkText(const std::string& name, NodeWork work, bool is_drained, const std::string& reason) {
  if (work == NodeWork::kTakes) return "";
  const std::string text = "node " + name + " is " + (is_drained ? "drained" : std::string(Name(work)));
  return reason.empty() ? text : text + ": " + reason;
}

}  // namespace

std::string Controller::NodeName(NodeIndex node) const {
  return node == kOwnNode ? std::string() : scheduler_.node(node).words.name;
}

std::optional<NodeIndex> Controller::IndexOf(const std::string& node) const {
  if (node.empty()) return kOwnNode;
  return scheduler_.FindNode(node);
}

Controller::Machine& Controller::MachineOf(NodeIndex node) {
  if (machines_.size() <= node) machines_.resize(node + 1);
  return machines_[node];
}

void Controller::SetOwnName(std::string name) {
  NodeWords words = scheduler_.node(kOwnNode).words;
  words.name = std::move(name);
  scheduler_.SetNode(kOwnNode, std::move(words), scheduler_.capacity());
}

// --- Properties ----------------------------------------------------------------------------------------------------

void Controller::OnNodeRow(const NodeRow& row) {
  const NodeIndex node = scheduler_.FindNode(row.name).value_or(static_cast<NodeIndex>(scheduler_.nodes().size()));
  Machine& machine = MachineOf(node);
  machine.work = row.work;
  machine.is_drained = row.work == NodeWork::kDraining && RunsOn(row.name).empty();
  machine.reason = row.reason;
  machine.drain_deadline = row.work == NodeWork::kDraining ? row.drain_deadline : kNever;
  machine.is_removed = false;
  SetFacts(node, row);
  RefreshNode(node);
  RefreshGpus(node, machine.observations);
  next_wakeup_ = std::min(next_wakeup_, machine.drain_deadline);
  needs_plan_ = true;
}

// While jobs run on a node, it keeps the GPUs that it is counted with; GPUs that it no longer reports are faulty. Once
// it is idle, its report applies.
void Controller::SetFacts(NodeIndex node, const NodeRow& row) {
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
  const bool had_pools = HasPools(pools_, scheduler_);
  scheduler_.SetNode(node, WordsOf(row), std::move(capacity));
  if (HasPools(pools_, scheduler_) == had_pools) return;
  // The pools that waiting jobs name have become pools of nodes, or are only labels again.
  for (const auto& [id, record] : live_) {
    if (!record.pool.empty() && scheduler_.waiting(id) != nullptr) PutWaiting(record);
  }
}

// A running job keeps its GPUs even if its node came back with fewer.
void Controller::KeepGpusOf(const JobRecord& record) {
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
    scheduler_.SetNode(node, scheduler_.node(node).words, std::move(capacity));
  };
  if (record.gang.empty()) keep(record.node, record.gpus);
  for (const Seat& seat : record.gang) keep(seat.node, seat.gpus);
}

void Controller::OnNodeRemoved(const std::string& name) {
  const auto node = scheduler_.FindNode(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine = Machine();
  machine.is_removed = true;
  // A node that later joins with this name is another one.
  if (restrictions_.erase(name) > 0) KeepSetting(std::string(kNodeRestrictionPrefix) + name, "");
  ForgetIgnored(name, {});
  ForgetFound(name);
  EmptyRemoved(*node);
  RefreshNode(*node);
  needs_plan_ = true;
}

// A gang that is still being stopped elsewhere keeps its GPUs on a removed node until it has ended.
void Controller::EmptyRemoved(NodeIndex node) {
  const std::string& name = scheduler_.node(node).words.name;
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    const JobRecord* record = Find(id);
    if (record != nullptr && std::ranges::count(SeatsOf(*record), name, &Seat::node) > 0) return;
  }
  NodeWords words;
  words.name = name;
  scheduler_.SetNode(node, std::move(words), NodeCapacity());
}

// --- Whether they take work --------------------------------------------------------------------------------------

void Controller::RefreshNode(NodeIndex node) {
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
  needs_plan_ = true;
}

std::string Controller::DisconnectReason(const std::string& name) const {
  const auto node = IndexOf(name);
  if (!node || *node == kOwnNode || *node >= machines_.size()) return "";
  const Machine& machine = machines_[*node];
  if (machine.is_lost) return "node " + name + " is lost: nothing was heard from it";
  if (!machine.is_accounted) return "node " + name + " has not been heard from since the controller began";
  return machine.is_away ? "node " + name + " is away: its agent is not connected" : "";
}

std::string Controller::DrainOf(const std::string& name) const {
  const auto node = IndexOf(name);
  if (!node || *node >= machines_.size() || machines_[*node].drain_deadline == kNever) return "";
  const Machine& machine = machines_[*node];
  return WorkText(name, machine.work, false, machine.reason) + "; at its deadline this job is stopped (divvy nodes)";
}

void Controller::OnNodeDisconnected(const std::string& name) {
  const auto node = IndexOf(name);
  if (!node || *node == kOwnNode) return;
  MachineOf(*node).is_away = true;
  RefreshNode(*node);
}

void Controller::OnNodeReconciled(const std::string& name) {
  const auto node = IndexOf(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine.is_accounted = true;
  machine.is_lost = machine.is_away = false;
  machine.trouble.clear();  // The node reports it again.
  RefreshNode(*node);
  // A go order sent before this session may not have arrived.
  for (const auto& [id, record] : live_) {
    if (record.was_let_go && IsActive(record.state) && IsOn(record, name)) LetGo(record);
  }
}

void Controller::OnNodeLost(const std::string& name, Time now) {
  const auto node = IndexOf(name);
  if (!node) return;
  MachineOf(*node).is_lost = true;
  RefreshNode(*node);
  for (const JobId job : RunsOn(name)) Note(job, "node " + name + " is lost; " + std::string(kMayGoOn), now);
}

void Controller::OnNodeBack(const std::string& name) {
  const auto node = IndexOf(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  machine.is_lost = machine.is_away = false;
  RefreshNode(*node);
}

void Controller::LoseRuns(const std::string& node, Vanished how, Time now) {
  for (const JobId job : RunsOn(node)) OnVanished(job, live_.at(job).attempt, how, now, node);
}

std::vector<JobId> Controller::RunsOn(const std::string& name) const {
  std::vector<JobId> jobs;
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    const JobRecord* record = Find(id);
    if (record == nullptr) continue;
    const auto seats = SeatsOf(*record);
    if (std::ranges::any_of(seats, [&](const Seat& seat) { return seat.node == name && !HasEnded(*record, seat); }))
      jobs.push_back(id);
  }
  return jobs;
}

void Controller::FollowMachines(Time now) {
  for (NodeIndex node = 0; node < machines_.size(); ++node) {
    Machine& machine = machines_[node];
    if (machine.is_removed && scheduler_.node(node).capacity.cpus > 0) EmptyRemoved(node);
    if (machine.rests_until <= now) {
      machine.rests_until = kNever;
      RefreshNode(node);
    }
    if (machine.drain_deadline <= now) {
      machine.drain_deadline = kNever;
      StopForDrain(node, now);
    }
    if (machine.work == NodeWork::kDraining && !machine.is_drained && RunsOn(NodeName(node)).empty()) {
      machine.is_drained = true;
      RefreshNode(node);
    }
    next_wakeup_ = std::min({next_wakeup_, machine.rests_until, machine.drain_deadline});
  }
}

// Stops the jobs left on a node whose drain deadline has passed, and requeues them if possible.
void Controller::StopForDrain(NodeIndex node, Time now) {
  const Machine& machine = machines_[node];
  const std::string why = WorkText(NodeName(node), machine.work, false, machine.reason);
  for (const JobId job : RunsOn(NodeName(node))) {
    JobRecord& record = live_.at(job);
    if (record.stop_intent != StopIntent::kNone) continue;
    record.stop_intent = record.is_foreground || record.is_run_once ? StopIntent::kCancel : StopIntent::kRequeue;
    record.state = JobState::kStopping;
    const bool runs_again = record.stop_intent == StopIntent::kRequeue;
    record.reason = (runs_again ? "queued again: " : "") + why;
    Note(job, "stopped at the deadline: " + why, now);
    Persist(record);
    Send(record, StopOrder{job, 0, Duration(-1), ""});
    Announce(record);
  }
}

void Controller::OnGpusObserved(const std::string& name, const std::vector<GpuObservation>& observations) {
  if (name.empty()) return OnGpusObserved(observations);
  const auto node = scheduler_.FindNode(name);
  if (!node) return;
  Machine& machine = MachineOf(*node);
  for (const GpuObservation& observation : observations) {
    const auto at = std::ranges::find(machine.observations, observation.index, &GpuObservation::index);
    if (at == machine.observations.end()) machine.observations.push_back(observation);
    else *at = observation;
  }
  const bool has_seen_all = machine.observations.size() >= scheduler_.node(*node).capacity.gpus.size();
  if (has_seen_all) ForgetIgnored(name, machine.observations);
  RefreshGpus(*node, machine.observations);
}

const std::vector<GpuObservation>& Controller::observations(NodeIndex node) const {
  static const std::vector<GpuObservation> kNone;
  if (node == kOwnNode) return observations_;
  return node < machines_.size() ? machines_[node].observations : kNone;
}

}  // namespace divvy
