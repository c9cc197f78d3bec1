// Translates the controller's values into those of the core: GPU models into kinds, requests into asks, group names
// into indices of limits. Nothing here makes decisions.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/state/ask_for.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/node_class_index.h"
#include "engine/policy.h"
#include "engine/pool_row.h"
#include "engine/scheduler/facts.h"
#include "engine/scheduler/scheduler_facts.h"

namespace divvy {

/// Groups nodes into classes by what requests refer to: GPUs, features, names and pools. Attributes that no request
/// mentions do not split a class, so there are never many (engine/core/state/node_class_index.h).
class Kinds {
 public:
  Kinds() = default;
  explicit Kinds(std::vector<PoolRow> pools) : pools_(std::move(pools)) {}

  /// Adds the next node. Returns false if it has more kinds of GPUs than can be distinguished; it then counts as a node
  /// without GPUs.
  bool Add(const NodeUsage& node);
  /// Updates a node whose attributes or kinds of GPUs have changed. Requires: as many GPUs as before. Returns false if
  /// it has more kinds of GPUs than can be distinguished; its class does not change then.
  bool Change(NodeIndex node, const NodeUsage& now);
  /// Returns the core's facts about a node: its kinds, GPUs, CPUs and memory.
  core::NodeFacts FactsOf(NodeIndex node, const NodeCapacity& capacity) const;

  /// Restricts the ask to the nodes that the request accepts. Its filters are added to `used` and stay in use until
  /// Leave. If a condition is invalid, or too many classes exist to distinguish its nodes, the ask fits no node and
  /// `why` receives the reason. Each component of a heterogeneous job is compiled separately, with its own pool or else
  /// `pool`.
  core::Ask Use(core::Ask ask, const Request& request, const std::string& pool, const std::vector<ModelSpeed>& learned,
                std::vector<core::FilterIndex>& used, std::string* why = nullptr);
  void Leave(const std::vector<core::FilterIndex>& used);
  /// Adds another user of filters that are already in use.
  void UseAgain(const std::vector<core::FilterIndex>& used);
  /// All pools of the node, configured ones and those of its label, in ascending order, as of the last Add or Change.
  /// Requires: the node was added.
  const std::vector<std::string>& PoolsOf(NodeIndex node) const { return pools_of_[node]; }
  /// True if jobs of this pool have their nodes exclusively.
  bool IsExclusive(const std::string& pool) const;
  /// The number of distinct CPU counts of nodes, summed over exclusive pools. Each is an alternative of its own in
  /// requests.
  std::size_t exclusive_sizes() const;
  /// The number of things for which requests have separate alternatives: exclusive_sizes() and MIG profiles by model.
  std::size_t told_apart() const;
  core::NodeClassIndex& book() { return book_; }
  const core::NodeClassIndex& book() const { return book_; }

 private:
  /// Groups the accepted GPU models by speed, the fastest group first. Speeds come from the request, or else from
  /// `learned`. Returns nothing if fewer than two speeds are known. Learned speeds never make a job wait: models of
  /// unknown speed come last, followed by any mix of models.
  std::vector<core::AtSpeed> FastestFirst(const Request& request, const std::vector<ModelSpeed>& learned) const;

  /// For a fraction given by memory: groups GPU models by the fraction that this memory is of each.
  std::vector<core::AtSpeed> BySize(const Request& request) const;
  /// For a MIG instance: groups GPU models by their smallest profile that satisfies the request.
  std::vector<core::AtSpeed> BySlice(const Request& request) const;
  core::Ask UseComponents(core::Ask ask, const Request& request, const std::string& pool,
                          std::vector<core::FilterIndex>& used, std::string* why);
  std::vector<std::string> FindPools(const NodeUsage& node) const;
  core::NodeTraits TraitsOf(NodeIndex node, const NodeUsage& now) const;
  void Know(NodeIndex node, const NodeUsage& now);
  bool has_exclusive() const;
  std::vector<core::PoolWish> WishesOf(const std::string& pools) const;

  std::vector<PoolRow> pools_;
  std::vector<std::vector<std::string>> pools_of_;       // By node.
  std::map<std::string, std::set<int>> exclusive_cpus_;  // By exclusive pool: the CPU counts of its nodes.
  core::NodeClassIndex book_;
  std::map<std::pair<std::string, Bytes>, int> models_;      // Counts by model and memory, former nodes included.
  std::map<std::string, std::vector<SliceProfile>> slices_;  // By model: the union of the MIG profiles of its GPUs.
};

/// Compiles `request` with `gpus` GPUs into one task; for a job on several nodes into one task per node, or one per
/// task of the job. CPUs and memory are rounded up to the core's units.
core::Ask AskOf(const Request& request, PlacementStrategy placement, int gpus);
/// Returns what the job holds on a node with `tasks` of its tasks; for a heterogeneous job according to `parts`, if
/// any.
NodePlace PlaceOf(const Request& request, NodeIndex node, GpuSet gpus, int tasks, std::vector<SeatPart> parts = {});
/// Groups task placements by node, in order of first appearance. `ask`: the ask that was placed.
std::vector<NodePlace> PlacesOf(const Request& request, const core::Ask& ask,
                                const std::vector<core::TaskPlacement>& pieces);
/// For a heterogeneous job, splits each place into one place per part, in component order. Other jobs' places are
/// returned unchanged.
std::vector<NodePlace> PartPlaces(const Request& request, const std::vector<NodePlace>& places);
/// Reconstructs the ask of a running job from its places (see PartPlaces): exactly what it holds, with one task group
/// for each run of equal places.
core::Ask AskOfPlaces(const Request& request, const std::vector<NodePlace>& places);

/// The GPUs, and the memory slices of a MIG instance, in the core's representation.
core::GpuPlace PlaceIn(const NodePlace& place);

/// Returns the alternative of the group that accepts GPUs of these kinds, or the first if none does.
std::uint8_t AlternativeOf(const core::TaskGroup& group, const std::vector<std::uint8_t>& kinds);

std::int32_t CpuMilli(int cpus);
std::int32_t MebibytesUp(Bytes bytes);
std::int32_t MebibytesDown(Bytes bytes);

core::Rules RulesOf(const Policy& policy);
/// The queue rules of a pool: queue policy and tier.
core::PoolRules RulesOf(const Policy& policy, const PoolRow& pool);

/// The name of a group in messages. A group that users named gets a prefix: "group train" for "train". The names of
/// the other groups have one already: "array 7", "user ada", "team vision", "pool big".
std::string CapText(const std::string& group);

/// The core's limits of groups, by group name. An unused index is given to the next name, so that the number of limits
/// follows the number of present arrays, not of all arrays ever seen.
class GroupCaps {
 public:
  /// Adds a user of `name`.
  core::CapIndex Use(core::Cluster& core, const std::string& name);
  void Leave(const std::string& name);
  void SetLimits(core::Cluster& core, const std::string& name, GroupLimits limits);
  /// The groups that have a limit.
  std::map<std::string, GroupLimits> limits() const;

 private:
  struct Slot {
    core::CapIndex index = 0;
    int users = 0;
    GroupLimits limits;
  };
  Slot& SlotOf(core::Cluster& core, const std::string& name);
  void ForgetIfUnused(std::map<std::string, Slot>::iterator at);

  std::map<std::string, Slot> slots_;
  std::vector<core::CapIndex> free_;
};

}  // namespace divvy
