// The nodes of a cluster and where a request of a known shape goes: the same answer as rating every node for every
// request and taking the first best, at the price of rating only the nodes that changed since that shape was last asked
// for.
//
// How: each shape keeps the scores of all nodes in a tree of maxima. A change of a node is noted in one log; a shape
// catches up with the log when it is asked for, and looks at a node once however often it changed meanwhile. So a
// decision costs (changed nodes) ratings, not (nodes); and shapes that nobody asks for, or that have found room nowhere
// so far, cost nothing.
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

/// Where a request goes.
struct Spot {
  NodeIndex node = 0;
  GpuPlace place;
  friend bool operator==(const Spot&, const Spot&) = default;
};

class Fleet {
 public:
  /// The order of `nodes` is the fleet's order: of equally good nodes the first is taken.
  Fleet(std::vector<NodeState> nodes, std::shared_ptr<const Scorer> scorer);

  /// All scores are forgotten; they are made anew shape by shape as they are asked for.
  void SetScorer(std::shared_ptr<const Scorer> scorer);

  /// The same shape gives the same index.
  ShapeIndex Know(const Shape& shape);
  const Shape& shape(ShapeIndex index) const { return shapes_[index].shape; }

  /// The best node and its GPUs; nothing when it fits nowhere.
  std::optional<Spot> Find(ShapeIndex shape);
  /// One of the nodes where it fits, and of the GPUs there, all equally likely as long as the draws are.
  std::optional<Spot> FindAnywhere(ShapeIndex shape, std::uint64_t node_draw, std::uint64_t gpu_draw);

  /// Requires: the shape fits there.
  void Take(ShapeIndex shape, const Spot& spot);
  void Release(ShapeIndex shape, const Spot& spot);
  /// The node is so now, however it came about.
  void Set(NodeIndex node, const NodeState& state);

  const std::vector<NodeState>& nodes() const { return nodes_; }
  const Scorer& scorer() const { return *scorer_; }

 private:
  struct Known {
    Shape shape;
    std::uint64_t caught_up = 0;  // Changes up to here are in `scores`.
    // None: as of `caught_up` it fitted nowhere, or nobody has looked (0).
    std::optional<ScoreIndex> scores;
  };

  /// Null: it fits nowhere.
  const ScoreIndex* CatchUp(Known& known);
  /// Nodes that changed since `known` caught up, each once. Requires: HasLogOf(known).
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
  std::vector<std::int64_t> worth_;  // Of each node, as the scorer has it.
  Rooms rooms_;
  // Nodes with the same number are in the same state: those that were so from the start and have not changed. 0: they
  // have no room on any GPU, and may differ in all else.
  std::vector<std::uint64_t> alike_;
  std::uint64_t next_alike_ = 0;
  std::vector<Known> shapes_;
  std::unordered_map<std::uint64_t, std::vector<ShapeIndex>> by_hash_;  // For look-up only.
  // Changes are numbered from 1, so that a node that never changed is never behind. The log has those from log_from_
  // on.
  std::vector<NodeIndex> log_;
  std::uint64_t log_from_ = 1;
  std::vector<std::uint64_t> last_change_;
};

}  // namespace divvy::placement
