// Places tasks on nodes that do not exist yet. Internal to this folder.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/growth/growth_facts.h"

namespace divvy::growth {

/// Subtracts what a task of `shape` needs from `room`, on the GPUs with the least sufficient room. Requires: the task
/// fits.
void TakeRoom(placement::NodeState& room, const placement::Shape& shape);

/// Returns how many GPUs one task uses: 0.5 for half a GPU.
double GpusOf(const placement::Shape& shape);
double GpusOf(const Demand& demand);
/// Returns true if each job of the demand is a single task.
bool IsSingle(const Demand& demand);
Duration RunTimeOf(const GrowthInput& input, const Demand& demand);

struct PackedNode {
  OfferIndex offer = 0;
  placement::NodeState room;  // Free beside the tasks.
};

/// Returns nodes of `offer` that together hold all `tasks`. The tasks are placed largest first, each on the first node
/// with room. The last node may be of a cheaper offer of the same provider and class for which `is_allowed` returns
/// true. nullopt if a task fits on no such node, or if more than `most` nodes would be needed. Requires: there is a
/// task.
template <typename IsAllowed>
std::optional<std::vector<PackedNode>> PackTasks(const Catalogue& catalogue, OfferIndex offer,
                                                 std::span<const TaskNeed> tasks, std::int64_t most,
                                                 IsAllowed is_allowed);

/// Returns the price per hour of these nodes together.
Money HourlyOf(const Catalogue& catalogue, std::span<const PackedNode> nodes);

// --- Implementation of the template.

/// Returns the tasks ordered by size, largest first.
std::vector<TaskNeed> LargestFirst(std::span<const TaskNeed> tasks);

template <typename IsAllowed>
std::optional<std::vector<PackedNode>> PackTasks(const Catalogue& catalogue, OfferIndex offer,
                                                 std::span<const TaskNeed> tasks, std::int64_t most,
                                                 IsAllowed is_allowed) {
  struct Filled {
    placement::NodeState room;
    std::vector<placement::Shape> shapes;
    bool is_closed = false;  // It has a task that must be alone.
  };
  const Offer& kind = catalogue.offers()[offer];
  std::vector<Filled> nodes;
  std::size_t first_open = 0;
  for (const TaskNeed& need : LargestFirst(tasks)) {
    for (int i = 0; i < need.count; ++i) {
      std::size_t at = need.is_apart ? nodes.size() : first_open;
      while (at < nodes.size() && (nodes[at].is_closed || !placement::Fits(nodes[at].room, need.shape))) ++at;
      if (at == nodes.size()) {
        if (!placement::Fits(kind.node, need.shape) || static_cast<std::int64_t>(nodes.size()) >= most)
          return std::nullopt;
        nodes.push_back({kind.node, {}, need.is_apart});
      }
      TakeRoom(nodes[at].room, need.shape);
      nodes[at].shapes.push_back(need.shape);
      while (first_open < nodes.size() && nodes[first_open].is_closed) ++first_open;
    }
  }
  std::vector<PackedNode> packed;
  for (Filled& node : nodes) packed.push_back({offer, std::move(node.room)});
  // The last node is often the only one that is not full.
  Money least = kind.hourly;
  for (const OfferIndex other : catalogue.by_value()) {
    const Offer& cheaper = catalogue.offers()[other];
    if (cheaper.hourly >= least || cheaper.provider != kind.provider || cheaper.node.model != kind.node.model) continue;
    if (!is_allowed(other)) continue;
    placement::NodeState room = cheaper.node;
    bool fits = true;
    for (const placement::Shape& shape : nodes.back().shapes) {
      fits = fits && placement::Fits(room, shape);
      if (fits) TakeRoom(room, shape);
    }
    if (!fits) continue;
    least = cheaper.hourly;
    packed.back() = {other, std::move(room)};
  }
  return packed;
}

}  // namespace divvy::growth
