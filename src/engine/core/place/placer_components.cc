// Places the components of a heterogeneous job. Each is placed as an Ask of its own next to those placed before; all
// are placed or none. The component with the fewest possible nodes goes first; among equals the one with the most GPUs.
// If that fails, the order is reversed.
//
// The search is a heuristic and not a proof. If a later component finds no room, the earlier ones are tried on other
// GPU models, in other racks and with other alternatives, and single tasks on each node; at most kMostTriesEachWay
// tries per order.
#include <algorithm>
#include <numeric>

#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

namespace divvy::core {
namespace {

constexpr int kMostTriesEachWay = 200;

}  // namespace

bool Placer::HasOfComponent(NodeIndex node) const {
  const auto at = extras_.find(node);
  return at != extras_.end() &&
         std::ranges::any_of(at->second, [&](const Extra& extra) { return extra.component == component_; });
}

std::vector<NodeIndex> Placer::NodesOf(const Ask& component, const Domain& all) const {
  std::vector<NodeIndex> found;
  const auto look = [&](NodeIndex node) {
    const NodeState state = StateOf(node);
    const bool fits = std::ranges::any_of(component.groups, [&](const TaskGroup& group) {
      return std::ranges::any_of(group.alternatives,
                                 [&](const Shape& shape) { return FitsNode(state_.nodes[node], state, shape); });
    });
    if (fits) found.push_back(node);
  };
  if (all.is_everywhere) {
    for (NodeIndex node = 0; node < state_.nodes.size(); ++node) look(node);
  } else {
    for (const NodeIndex node : all.nodes) look(node);
  }
  return found;
}

std::vector<Placer::Domain> Placer::DomainsOfComponent(const Ask& component, const Domain& all) {
  std::vector<Domain> domains;
  for (int level = static_cast<int>(ClosestOf(component)); level >= static_cast<int>(Locality::kAnywhere); --level) {
    for (const Domain& domain : DomainsAlike(component, all)) {
      if (level > static_cast<int>(Locality::kAnywhere)) {
        for (Domain& part : DomainsOf(component, static_cast<Locality>(level), domain))
          domains.push_back(std::move(part));
        continue;
      }
      if (component.wants_few_nodes && component.groups.size() == 1) domains.push_back(FewestOf(component, domain));
      domains.push_back(domain);
    }
  }
  // A single task may use any model, but another component may need a particular one.
  const std::vector<int> models = RunsOnOneModel(component) ? std::vector<int>() : ModelsFor(state_, component);
  for (std::size_t i = 0; models.size() > 1 && i < models.size(); ++i) {
    domains.push_back(all);
    domains.back().gpu_model = models[i];
  }
  if (LeastTasks(component) == 1 && component.groups.size() == 1) {
    for (const NodeIndex node : NodesOf(component, all)) {
      Domain one;
      one.nodes = {node};
      domains.push_back(std::move(one));
    }
  }
  return domains;
}

bool Placer::FillComponents(const Ask& ask, std::span<const std::uint8_t> order, const Domain& all,
                            std::vector<TaskPlacement>& pieces) {
  if (order.empty()) return true;
  const Ask component = ComponentAsk(ask, order.front());
  const auto extras = extras_;
  const std::size_t had = pieces.size();
  for (const Domain& domain : DomainsOfComponent(component, all)) {
    if (tries_left_-- <= 0) return false;
    bool has_room = true;
    for (std::size_t group = 0; has_room && group < ask.groups.size(); ++group) {
      if (ask.groups[group].component == order.front()) has_room = FillGroup(ask, group, domain, pieces);
    }
    if (has_room && FillComponents(ask, order.subspan(1), all, pieces)) return true;
    extras_ = extras;
    pieces.resize(had);
  }
  return false;
}

// Without topology requirements, whole GPUs of one model are interchangeable, and single tasks are tried on every node.
// How the last component is spread does not matter, because nothing is placed after it.
bool Placer::TriesAllWays(const Ask& ask, std::span<const std::uint8_t> order) const {
  const auto is_plain = [](const TaskGroup& group) {
    return std::ranges::all_of(
        group.alternatives, [](const Shape& shape) { return shape.gpus == 0 || shape.parts == placement::kGpuParts; });
  };
  const auto is_single = [&](std::uint8_t component) {
    const Ask one = ComponentAsk(ask, component);
    return LeastTasks(one) == 1 && one.groups.size() == 1;
  };
  return !ask.requires_topology && std::ranges::all_of(ask.groups, is_plain) &&
         std::ranges::none_of(state_.nodes, &Node::is_mixed) &&
         std::ranges::all_of(order.first(order.size() - 1), is_single);
}

std::vector<TaskPlacement> Placer::FindComponents(const Ask& ask, const Domain& all) {
  std::vector<std::uint8_t> order(std::size_t{1} + ask.groups.back().component);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::vector<std::pair<std::size_t, std::int64_t>> keys;
  for (const std::uint8_t component : order) {
    const Ask one = ComponentAsk(ask, component);
    const std::size_t nodes = NodesOf(one, all).size();
    is_proven_ = nodes == 0;
    if (is_proven_) return {};
    keys.emplace_back(nodes, -LeastGpuParts(one));
  }
  std::ranges::stable_sort(order, [&](std::uint8_t a, std::uint8_t b) { return keys[a] < keys[b]; });
  std::vector<TaskPlacement> pieces;
  const auto fills = [&] {
    tries_left_ = kMostTriesEachWay;
    const bool filled = FillComponents(ask, order, all, pieces);
    is_proven_ = is_proven_ || (!filled && tries_left_ >= 0 && TriesAllWays(ask, order));
    return filled;
  };
  if (!fills()) {
    std::ranges::reverse(order);
    if (!fills()) return {};
  }
  std::ranges::stable_sort(pieces, [](const TaskPlacement& a, const TaskPlacement& b) { return a.group < b.group; });
  return pieces;
}

}  // namespace divvy::core
