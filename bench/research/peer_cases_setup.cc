#include "research/peer_cases_world.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/placement/policy.h"

namespace divvy::research {

std::int32_t PeerRounded(double value) {
  return static_cast<std::int32_t>(std::min(std::ceil(value - 1e-9), double{std::numeric_limits<std::int32_t>::max()}));
}

PeerWorld::PeerWorld(const PeerCase& one) : case_(one), cluster_(RulesOf()) {
  AddNodes();
  if (!obstacle_.empty()) return;
  AddTeams();
  if (!obstacle_.empty()) return;
  AddJobs();
}

core::Rules PeerWorld::RulesOf() const {
  core::Rules rules;
  rules.order = QueuePolicy::kFair;
  rules.backfill = core::Backfill::kAnything;
  rules.escalate_after = Duration(0);
  rules.fair_is_fifo = true;
  rules.consolidates = case_.action.empty() || case_.action == "consolidation";
  rules.reclaims = case_.action.empty() || case_.action == "reclaim";
  rules.preempts = case_.action.empty() || case_.action == "preempt";
  for (const PeerJob& job : case_.jobs) {
    const bool waits = std::ranges::any_of(job.tasks, [](const PeerTask& t) { return t.state == PeerState::kPending; });
    if (waits)
      rules.wait_before =
          std::max(rules.wait_before, Duration(std::chrono::seconds(PeerRounded(job.patience_minutes * 60))));
  }
  return rules;
}

// --- Nodes and teams ---------------------------------------------------------------------------------------

void PeerWorld::AddNodes() {
  double most = 0;
  for (const PeerNode& node : case_.nodes) most = std::max(most, node.memory);
  memory_unit_ = most > 2e9 ? 1000 : 1;
  // One case uses at most two levels: the wider one becomes the block, the narrower one the rack.
  std::set<std::pair<std::size_t, std::string>> used;
  for (const PeerJob& job : case_.jobs) {
    if (!job.root) continue;
    for (const std::string& label : {job.root->nearness.required, job.root->nearness.preferred}) {
      const auto topology = case_.topologies.find(job.root->nearness.topology);
      if (label.empty() || topology == case_.topologies.end()) continue;
      const auto at = std::ranges::find(topology->second, label);
      used.emplace(static_cast<std::size_t>(at - topology->second.begin()), label);
    }
  }
  if (used.size() > 2) obstacle_ = "more than two levels of nearness";
  int level = used.size() == 1 ? 1 : 0;
  for (const auto& [depth, label] : used) levels_[label] = level++;
  std::map<std::string, std::uint32_t> domains;
  // A domain is named by all labels down to its level. A node without a label has a domain of its own.
  const auto domain = [&](const PeerNode& node, int of) {
    for (const auto& [label, at] : levels_) {
      if (at != of) continue;
      for (const auto& [name, labels] : case_.topologies) {
        if (std::ranges::find(labels, label) == labels.end()) continue;
        std::string path;
        for (const std::string& one : labels) {
          const auto value = node.labels.find(one);
          path += "/" + (value == node.labels.end() ? "?" + node.name : value->second);
          if (one == label) break;
        }
        return domains.try_emplace(path, static_cast<std::uint32_t>(domains.size() + 1)).first->second;
      }
    }
    return std::uint32_t{0};
  };
  const auto add = [&](const PeerNode& node, double gpus) {
    if (gpus > GpuSet::kCapacity || node_names_.size() >= placement::kMaxModels) {
      obstacle_ = "more GPUs in a node, or nodes in a case, than a case here has";
      return;
    }
    core::NodeFacts facts;
    facts.name = node.name;
    facts.cpu_milli = PeerRounded(node.cpus);
    facts.memory_mib = PeerRounded(node.memory / memory_unit_);
    facts.gpus = static_cast<int>(gpus);
    facts.node_class = static_cast<int>(node_names_.size());  // Lets a request name nodes.
    facts.block = domain(node, 0);
    facts.rack = domain(node, 1);
    cluster_.AddNode(std::move(facts));
    node_names_.push_back(node.name);
  };
  // The MIG instances of one profile are modelled as the GPUs of an extra node, a part of the real one.
  for (const PeerNode& node : case_.nodes) {
    if (node.mig.empty() || node.gpus > 0) add(node, node.gpus);
    for (const auto& [profile, count] : node.mig) {
      PeerNode part = node;
      part.name += "|" + profile;
      add(part, count);
    }
  }
  cluster_.SetScorer(placement::MakeSimpleScorer(case_.spreads_nodes ? "spread" : "pack"));
}

void PeerWorld::AddTeams() {
  std::vector<core::TeamSpec> specs;
  std::vector<const PeerQueue*> left;
  for (const PeerQueue& queue : case_.queues) left.push_back(&queue);
  const auto is_known = [&](const std::string& name) {
    return std::ranges::any_of(case_.queues, [&](const PeerQueue& queue) { return queue.name == name; });
  };
  while (!left.empty()) {
    const std::size_t before = left.size();
    for (auto at = left.begin(); at != left.end();) {
      const PeerQueue& queue = **at;
      const bool is_top = queue.parent.empty() || !is_known(queue.parent);
      if (!is_top && !teams_.contains(queue.parent)) {
        ++at;
        continue;
      }
      core::TeamSpec spec;
      spec.name = queue.name;
      spec.parent = is_top ? core::kRootTeam : teams_.at(queue.parent);
      if (queue.quota >= 0) spec.quota_parts = PeerRounded(queue.quota * placement::kGpuParts);
      if (queue.limit > 0) spec.limit_parts = PeerRounded(queue.limit * placement::kGpuParts);
      spec.weight = static_cast<std::uint64_t>(std::max(0.0, queue.weight * 1000));
      spec.priority = queue.priority;
      specs.push_back(std::move(spec));
      teams_[queue.name] = static_cast<core::TeamIndex>(specs.size());
      at = left.erase(at);
    }
    if (left.size() == before) {
      obstacle_ = "teams that are above each other";
      return;
    }
  }
  cluster_.teams().Reset(std::move(specs));
  cluster_.RecountTeams(kPeerNow);
}

}  // namespace divvy::research
