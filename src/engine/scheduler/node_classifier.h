// The classes of nodes and GPUs that requests tell apart.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/state/cluster_facts.h"
#include "engine/core/state/compile_request.h"
#include "engine/core/state/node_class_index.h"
#include "engine/pool_row.h"
#include "engine/scheduler/facts.h"
#include "engine/scheduler/scheduler_facts.h"

namespace divvy {

/// Groups nodes into classes by what requests refer to: GPUs, features, names and pools. Attributes that no request
/// mentions do not split a class, so there are never many (engine/core/state/node_class_index.h).
class NodeClassifier {
 public:
  NodeClassifier() = default;
  explicit NodeClassifier(std::vector<PoolRow> pools) : pools_(std::move(pools)) {}

  /// Adds the next node. Returns false if it has more classes of GPUs than can be distinguished; it then counts as a
  /// node without GPUs.
  bool Add(const NodeUsage& node);
  /// Updates a node whose attributes or classes of GPUs have changed. Requires: as many GPUs as before. Returns false
  /// if it has more classes of GPUs than can be distinguished; its class does not change then.
  bool Change(NodeIndex node, const NodeUsage& now);
  /// Returns the core's facts about a node: its classes, GPUs, CPUs and memory.
  core::NodeFacts FactsOf(NodeIndex node, const NodeCapacity& capacity) const;

  /// Restricts the resource request to the nodes that the job's request accepts. Its filters are added to `used` and
  /// stay in use until Leave. If a condition is invalid, or too many classes exist to distinguish its nodes, the
  /// request fits no node and `why` receives the reason. Each component of a heterogeneous job is compiled separately,
  /// with its own pool or else `pool`.
  core::ResourceRequest Use(core::ResourceRequest resources, const Request& request, const std::string& pool,
                            const std::vector<ModelSpeed>& learned, std::vector<core::FilterIndex>& used,
                            std::string* why = nullptr);
  void Leave(const std::vector<core::FilterIndex>& used);
  /// Counts one more use of filters that are already in use (see Use).
  void UseAgain(const std::vector<core::FilterIndex>& used);
  /// All pools of the node, configured ones and those of its label, in ascending order, as of the last Add or Change.
  /// Requires: the node was added.
  const std::vector<std::string>& PoolsOf(NodeIndex node) const { return pools_of_[node]; }
  /// True if jobs of this pool have their nodes exclusively.
  bool IsExclusive(const std::string& pool) const;
  /// Returns how many different CPU counts the nodes of each exclusive pool have, summed over these pools. A request
  /// for such a pool has an alternative for each.
  std::size_t exclusive_sizes() const;
  /// Returns the sum of exclusive_sizes() and of the MIG profiles of all GPU models: for each of these, a request may
  /// have an alternative of its own.
  std::size_t told_apart() const;
  core::NodeClassIndex& class_index() { return class_index_; }
  const core::NodeClassIndex& class_index() const { return class_index_; }

 private:
  /// Groups the accepted GPU models by speed, the fastest group first. Speeds come from the request, or else from
  /// `learned`. Returns an empty list if fewer than two speeds are known. Learned speeds never make a job wait: models
  /// of unknown speed come last, followed by any mix of models.
  std::vector<core::AtSpeed> FastestFirst(const Request& request, const std::vector<ModelSpeed>& learned) const;

  /// For a fraction given by memory: groups GPU models by the fraction that this memory is of each.
  std::vector<core::AtSpeed> BySize(const Request& request) const;
  /// For a MIG instance: groups GPU models by their smallest profile that satisfies the request.
  std::vector<core::AtSpeed> BySlice(const Request& request) const;
  core::ResourceRequest UseComponents(core::ResourceRequest resources, const Request& request, const std::string& pool,
                                      std::vector<core::FilterIndex>& used, std::string* why);
  std::vector<std::string> FindPools(const NodeUsage& node) const;
  core::NodeProperties PropertiesOf(NodeIndex node, const NodeUsage& now) const;
  void Know(NodeIndex node, const NodeUsage& now);
  bool has_exclusive() const;
  std::vector<core::PoolWish> WishesOf(const std::string& pools) const;

  std::vector<PoolRow> pools_;
  std::vector<std::vector<std::string>> pools_of_;       // By node.
  std::map<std::string, std::set<int>> exclusive_cpus_;  // By exclusive pool: the CPU counts of its nodes.
  core::NodeClassIndex class_index_;
  std::map<std::pair<std::string, Bytes>, int> models_;      // Counts by model and memory, former nodes included.
  std::map<std::string, std::vector<SliceProfile>> slices_;  // By model: the union of the MIG profiles of its GPUs.
};

}  // namespace divvy
