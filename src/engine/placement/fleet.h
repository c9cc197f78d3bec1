// The nodes of a cluster, and the best node for a request of a known shape. The answer is the same as rating every node
// for every request and taking the first best, but only nodes that changed since the last query for the shape are
// rated.
//
// How: each shape keeps the scores of all nodes in a max tree. Node changes are appended to one log. A query for a
// shape first catches up with the log, and rates each changed node once. So a decision costs (changed nodes) ratings,
// not (nodes). Shapes that are not queried, or that have fitted nowhere so far, cost nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/placement/rooms.h"
#include "engine/placement/scorer.h"

namespace divvy::placement {

using ShapeIndex = std::uint32_t;

/// The place for a request.
struct Spot {
  NodeIndex node = 0;
  GpuPlace place;
  friend bool operator==(const Spot&, const Spot&) = default;
};

class Fleet {
 public:
  /// Makes an index of nodes for placing tasks. Among equally good nodes, the first in the order of `nodes` is chosen.
  Fleet(std::vector<NodeState> nodes, std::shared_ptr<const Scorer> scorer);

  /// Replaces the function that rates nodes. All scores are computed again, for each shape at its next query.
  void SetScorer(std::shared_ptr<const Scorer> scorer);

  /// Registers the shape of a request and returns its index. Equal shapes have the same index.
  ShapeIndex Know(const Shape& shape);
  const Shape& shape(ShapeIndex index) const { return shapes_[index].shape; }

  /// Returns the best node and its GPUs, or nothing if the shape fits nowhere.
  std::optional<Spot> Find(ShapeIndex shape);
  /// Returns a random node on which the shape fits, and random GPUs there. `node_draw`, `gpu_draw`: random numbers that
  /// determine the choice.
  std::optional<Spot> FindAnywhere(ShapeIndex shape, std::uint64_t node_draw, std::uint64_t gpu_draw);

  /// Subtracts what the shape needs from the node of `spot`. Requires: the shape fits there.
  void Take(ShapeIndex shape, const Spot& spot);
  void Release(ShapeIndex shape, const Spot& spot);
  /// Replaces the state of a node.
  void Set(NodeIndex node, const NodeState& state);

  const std::vector<NodeState>& nodes() const { return nodes_; }
  const Scorer& scorer() const { return *scorer_; }

 private:
  struct Known {
    Shape shape;
    std::uint64_t caught_up = 0;  // Changes up to here are in `scores`.
    // Unset: as of `caught_up` it fitted nowhere, or it was never queried (0).
    std::optional<ScoreIndex> scores;
  };

  /// Updates the scores of all nodes for a shape and returns them; null if the shape fits nowhere.
  const ScoreIndex* CatchUp(Known& known);
  /// Calls `visit` once for each node that has changed since the scores of `known` were last updated. Requires:
  /// HasLogOf(known).
  template <typename Visit>
  void ForChanged(const Known& known, Visit visit) const;
  bool HasLogOf(const Known& known) const { return known.caught_up >= log_from_; }
  Score RateNow(const Shape& shape, std::size_t node) const {
    return RateNode(*scorer_, nodes_[node], worth_[node], shape);
  }
  void Note(NodeIndex node);
  std::optional<ScoreIndex> RateAll(const Shape& shape);

  std::vector<NodeState> nodes_;
  std::shared_ptr<const Scorer> scorer_;
  std::vector<std::int64_t> worth_;  // Per node: Scorer::Worth.
  Rooms rooms_;
  // Nodes with the same nonzero number are in the same state: equal from the start and unchanged since. 0: the node has
  // no room on any GPU; such nodes may differ in everything else.
  std::vector<std::uint64_t> alike_;
  std::uint64_t next_alike_ = 0;
  std::vector<Known> shapes_;
  std::unordered_map<std::uint64_t, std::vector<ShapeIndex>> by_hash_;  // For look-up only; never iterated.
  // Changes are numbered from 1, so a node that never changed is never behind. The log holds the changes from log_from_
  // on.
  std::vector<NodeIndex> log_;
  std::uint64_t log_from_ = 1;
  std::vector<std::uint64_t> last_change_;
};

}  // namespace divvy::placement
