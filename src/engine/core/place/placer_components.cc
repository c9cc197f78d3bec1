// Places the components of a heterogeneous job. Each is placed as a ResourceRequest of its own next to those placed
// before; all are placed or none. The component with the fewest possible nodes goes first; among equals the one with
// the most GPUs. If that fails, the order is reversed.
//
// The search is a heuristic: it may miss a placement that exists. If a component finds no room, those placed before it
// are placed in another way: on another GPU model, in another rack, or with another alternative of their request. A
// component that consists of a single task is tried on every node. Each of the two orders of the components gets at
// most kMostTriesEachWay tries.
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

std::vector<NodeIndex> Placer::NodesOf(const ResourceRequest& component, const Domain& all) const {
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

std::vector<Placer::Domain> Placer::DomainsOfComponent(const ResourceRequest& component, const Domain& all) {
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

bool Placer::FillComponents(const ResourceRequest& request, std::span<const std::uint8_t> order, const Domain& all,
                            std::vector<TaskPlacement>& placements) {
  if (order.empty()) return true;
  const ResourceRequest component = ComponentRequest(request, order.front());
  const auto extras = extras_;
  const std::size_t had = placements.size();
  for (const Domain& domain : DomainsOfComponent(component, all)) {
    if (tries_left_-- <= 0) return false;
    bool has_room = true;
    for (std::size_t group = 0; has_room && group < request.groups.size(); ++group) {
      if (request.groups[group].component == order.front()) has_room = FillGroup(request, group, domain, placements);
    }
    if (has_room && FillComponents(request, order.subspan(1), all, placements)) return true;
    extras_ = extras;
    placements.resize(had);
  }
  return false;
}

// Without topology requirements, whole GPUs of one model are interchangeable, and single tasks are tried on every node.
// How the last component is spread does not matter, because nothing is placed after it.
bool Placer::TriesAllWays(const ResourceRequest& request, std::span<const std::uint8_t> order) const {
  const auto is_plain = [](const TaskGroup& group) {
    return std::ranges::all_of(
        group.alternatives, [](const Shape& shape) { return shape.gpus == 0 || shape.parts == placement::kGpuParts; });
  };
  const auto is_single = [&](std::uint8_t component) {
    const ResourceRequest one = ComponentRequest(request, component);
    return LeastTasks(one) == 1 && one.groups.size() == 1;
  };
  return !request.requires_topology && std::ranges::all_of(request.groups, is_plain) &&
         std::ranges::none_of(state_.nodes, &Node::is_mixed) &&
         std::ranges::all_of(order.first(order.size() - 1), is_single);
}

std::vector<TaskPlacement> Placer::FindComponents(const ResourceRequest& request, const Domain& all) {
  std::vector<std::uint8_t> order(std::size_t{1} + request.groups.back().component);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  std::vector<std::pair<std::size_t, std::int64_t>> keys;
  for (const std::uint8_t component : order) {
    const ResourceRequest one = ComponentRequest(request, component);
    const std::size_t nodes = NodesOf(one, all).size();
    is_proven_ = nodes == 0;
    if (is_proven_) return {};
    keys.emplace_back(nodes, -LeastGpuParts(one));
  }
  std::ranges::stable_sort(order, [&](std::uint8_t a, std::uint8_t b) { return keys[a] < keys[b]; });
  std::vector<TaskPlacement> placements;
  const auto fills = [&] {
    tries_left_ = kMostTriesEachWay;
    const bool filled = FillComponents(request, order, all, placements);
    is_proven_ = is_proven_ || (!filled && tries_left_ >= 0 && TriesAllWays(request, order));
    return filled;
  };
  if (!fills()) {
    std::ranges::reverse(order);
    if (!fills()) return {};
  }
  std::ranges::stable_sort(placements,
                           [](const TaskPlacement& a, const TaskPlacement& b) { return a.group < b.group; });
  return placements;
}

}  // namespace divvy::core
