// What one server says, in the words of the engine for many nodes: GPU models as kinds, requests as
// asks, caps as indices. Pure values; nothing here decides.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/state/ask_for.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/kind_book.h"
#include "engine/policy.h"
#include "engine/pool_row.h"
#include "engine/server/book.h"
#include "engine/server/facts.h"

namespace divvy {

/// The machines as requests tell them apart: by GPUs, features, names and pools. What nobody asks for tells none apart,
/// so there are never many kinds (engine/core/state/kind_book.h).
class Kinds {
 public:
  Kinds() = default;
  explicit Kinds(std::vector<PoolRow> pools) : pools_(std::move(pools)) {}

  /// The next machine. False: it has more kinds of GPUs than can be told apart, and counts as one without any.
  bool Add(const BookNode& node);
  /// It has other words, or GPUs of other kinds. Requires: as many GPUs as before. False: as of Add; nothing changes.
  bool Change(NodeIndex node, const BookNode& now);
  /// What core knows of a machine: its kinds, GPUs, CPUs, memory.
  core::NodeFacts FactsOf(NodeIndex node, const NodeCapacity& capacity) const;

  /// The ask for such machines alone. Its filters are in use, and added to `used`, until Leave. What cannot be told
  /// apart any more, or is no condition at all, fits nowhere; `why` then says so.
  /// Of a heterogeneous job each component by itself: of its own pool, or else of `pool`.
  core::Ask Use(core::Ask ask, const Request& request, const std::string& pool, const std::vector<ModelSpeed>& learned,
                std::vector<core::FilterIndex>& used, std::string* why = nullptr);
  void Leave(const std::vector<core::FilterIndex>& used);
  /// One more user of filters that are in use.
  void UseAgain(const std::vector<core::FilterIndex>& used);
  /// All that this machine is in: those made and those of its label; ascending. As it was added or changed last.
  /// Requires: it was added.
  const std::vector<std::string>& PoolsOf(NodeIndex node) const { return pools_of_[node]; }
  /// Whether jobs of one of the pools have machines to themselves.
  bool IsExclusive(const std::string& pool) const;
  /// Machines with that many CPUs are in pools of that kind: each number is an alternative of its own.
  std::size_t exclusive_sizes() const;
  /// All that requests have alternatives of their own for: these, and models of GPUs that can be cut.
  std::size_t told_apart() const;
  core::KindBook& book() { return book_; }
  const core::KindBook& book() const { return book_; }

 private:
  /// In parts of one speed each, the fastest first, where it is known how fast it runs on which: by what the request
  /// says, else by what was `learned`; nothing where less than two speeds are known. What is only learned makes nobody
  /// wait: models that it does not know come last, and then any mix of models.
  std::vector<core::AtSpeed> FastestFirst(const Request& request, const std::vector<ModelSpeed>& learned) const;

  /// Of a portion by memory: GPUs by the part of each that it is.
  std::vector<core::AtSpeed> BySize(const Request& request) const;
  /// Of a MIG instance: GPUs by the smallest profile that is such a one.
  std::vector<core::AtSpeed> BySlice(const Request& request) const;
  core::Ask UseComponents(core::Ask ask, const Request& request, const std::string& pool,
                          std::vector<core::FilterIndex>& used, std::string* why);
  std::vector<std::string> FindPools(const BookNode& node) const;
  core::NodeTraits TraitsOf(NodeIndex node, const BookNode& now) const;
  void Know(NodeIndex node, const BookNode& now);
  bool has_exclusive() const;
  std::vector<core::PoolWish> WishesOf(const std::string& pools) const;

  std::vector<PoolRow> pools_;
  std::vector<std::vector<std::string>> pools_of_;       // By machine.
  std::map<std::string, std::set<int>> exclusive_cpus_;  // By pool: CPUs that machines of it have.
  core::KindBook book_;
  std::map<std::pair<std::string, Bytes>, int> models_;      // Model and memory of GPUs that there are, or were.
  std::map<std::string, std::vector<SliceProfile>> slices_;  // By model: what its GPUs can be cut into, all together.
};

/// One task with `gpus` GPUs and the rest of `request`; of a job on several machines one for each machine, or each of
/// its tasks. CPUs and memory are rounded up to what core counts in.
core::Ask AskOf(const Request& request, PlacementStrategy placement, int gpus);
/// What such a job has on a machine where `tasks` of its tasks are; of a heterogeneous job by `parts`, if any.
NodePlace PlaceOf(const Request& request, NodeIndex node, GpuSet gpus, int tasks, std::vector<SeatPart> parts = {});
/// By machine, in the order in which they come. `ask`: what the pieces are of.
std::vector<NodePlace> PlacesOf(const Request& request, const core::Ask& ask, const std::vector<core::Piece>& pieces);
/// Of a heterogeneous job a place for each part of each, in the order of the components; else the same.
std::vector<NodePlace> PartPlaces(const Request& request, const std::vector<NodePlace>& places);
/// What a job that runs asked for in these places (PartPlaces): as much as it has there, a group for each stretch of
/// equal ones.
core::Ask AskOfPlaces(const Request& request, const std::vector<NodePlace>& places);

/// The GPUs, and of a MIG instance its memory slices, as core has them.
core::GpuPlace PlaceIn(const NodePlace& place);

/// Which alternative of a group GPUs of these kinds are; the first where they are none.
std::uint8_t AlternativeOf(const core::TaskGroup& group, const std::vector<std::uint8_t>& kinds);

std::int32_t CpuMilli(int cpus);
std::int32_t MebibytesUp(Bytes bytes);
std::int32_t MebibytesDown(Bytes bytes);

core::Rules RulesOf(const Policy& policy);
/// How the jobs of a pool stand in line.
core::PoolRules RulesOf(const Policy& policy, const PoolRow& pool);

/// How people are told of the cap of a group: "array 7", "user ada", "team vision", "pool big", "group train".
std::string CapText(const std::string& group);

/// GroupCaps by name. An index that nobody uses any more is given to the next name, so that a server that has seen a
/// million arrays knows as many caps as it has arrays.
class GroupCaps {
 public:
  /// One more user of `name`.
  core::CapIndex Use(core::Cluster& core, const std::string& name);
  void Leave(const std::string& name);
  void SetLimits(core::Cluster& core, const std::string& name, GroupLimits limits);
  /// Those that have one.
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
