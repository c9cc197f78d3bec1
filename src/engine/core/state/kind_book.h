// Which nodes are alike for whoever asks: everything that a request may say of its nodes (models of GPUs, their memory,
// features, names, pools) becomes a set of kinds, and a kind is a number that placement tests in one bit.
//
// There is room for placement::kMaxModels kinds, so only what somebody asks for tells nodes apart: nodes with the same
// GPUs are of one kind until a filter in use accepts some of them and not others; then those that it accepts get a
// number of their own. Where numbers run short, filters that nobody uses any more are forgotten and the kinds that only
// they told apart become one again; then also GPUs that no filter tells apart. What still has no room is refused.
//
// The book only says what is what; a Cluster follows with SetKinds, and then its asks mean what they did before.
//
// A node with GPUs of several models has a kind for each of these, and one of its own that a filter accepts where it
// accepts one of its GPUs (NodeFacts::gpu_kinds).
//
// Invariants: for every filter in use all nodes, or all GPUs, of a kind are accepted or none is; every node has kinds
// that are in use.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/core/state/cluster.h"
#include "engine/feature_expression.h"

namespace divvy::core {

struct GpuTraits {
  std::string model;            // As NVML names it.
  std::int32_t memory_mib = 0;  // 0: not known; then no request for memory is met.
  int compute_capability = 0;   // 90 is 9.0. 0: not known.

  friend auto operator<=>(const GpuTraits&, const GpuTraits&) = default;
};

/// What requests can name of a node.
struct NodeTraits {
  std::string name;
  std::vector<std::string> pools;
  std::vector<std::string> features;
  std::vector<GpuTraits> gpus;  // In the order of the node's GPUs.
};

/// What a request says of its nodes; all of it has to hold. What is empty or 0 asks nothing.
struct NodeFilter {
  std::string gpu_type;  // engine/gpu_type.h. Of GPUs, as the next two: a node without any does not pass.
  std::int32_t least_gpu_memory_mib = 0;
  int least_compute_capability = 0;
  FeatureCondition features;
  std::vector<std::string> nodes;     // One of these.
  std::vector<std::string> excluded;  // None of these.
  std::string pool;

  friend auto operator<=>(const NodeFilter&, const NodeFilter&) = default;
};

/// How the kinds of a cluster became others. Values: at(old numbers) -> new numbers.
class KindChange {
 public:
  KindChange();
  bool empty() const { return !has_any_; }
  /// A set of kinds that no filter stands for (shapes that were counted as demand) in the new numbers. Nodes that are
  /// new are in none.
  placement::ModelSet Translate(placement::ModelSet set) const;
  /// Those with other numbers than before, ascending; among them those that are something else now.
  std::vector<NodeIndex> renumbered;
  std::vector<NodeIndex> changed;

 private:
  friend class KindBook;
  std::array<placement::ModelSet, placement::kMaxModels> was_{};  // Any of these, of before.
  bool has_any_ = false;
};

class KindBook {
 public:
  /// The next node of the cluster, in its order. Refuses with kLimitExceeded one that needs more kinds than there are.
  Status AddNode(NodeTraits traits);
  /// It is something else now: features were given to it or taken away. Requires: it has as many GPUs as before.
  Status SetTraits(NodeIndex node, NodeTraits traits);
  /// Sets kind, gpu_kinds, gpu_model and gpu_models.
  void Fill(NodeIndex node, NodeFacts& facts) const;

  /// One more user of a filter. The same filter has the same index for ever; one that asks nothing has kNoFilter.
  /// Refuses with kLimitExceeded one that would need more kinds than there are; then nothing has changed but that
  /// filters without users may be forgotten.
  Result<FilterIndex> Use(NodeFilter filter);
  void Leave(FilterIndex filter);
  /// Those that pass; of a filter that nobody uses any more there may be none.
  placement::ModelSet Accepted(FilterIndex filter) const;
  const NodeFilter& filter(FilterIndex filter) const { return filters_[filter].filter; }
  int kinds() const;
  std::size_t node_count() const { return nodes_.size(); }

  /// For placement::MakeScorer: all GPUs of each kind, and which kinds are of GPUs that are alike but for who asked.
  std::vector<std::int64_t> CapacityParts() const;
  std::vector<int> Alike() const;

  /// What has happened since this was last called.
  KindChange TakeChange();

  /// The model of the GPUs of a kind; several models of the nodes that mix them, "" where kinds were joined.
  const std::string& ModelOf(int kind) const { return kinds_[static_cast<std::size_t>(kind)].label.first; }
  /// The memory of the GPUs of a kind in MiB; 0: not known, or kinds were joined.
  std::int32_t MemoryOf(int kind) const {
    const Kind& one = kinds_[static_cast<std::size_t>(kind)];
    return one.members > 0 ? one.label.second : 0;
  }
  /// Some node passes it, or some GPU; all of a kind do. Of any filter, used or not.
  bool HasSome(const NodeFilter& filter) const;
  bool PassesAll(const NodeFilter& filter, int kind) const;

  /// Empty when all is well; else the first broken invariant.
  std::string CheckInvariants() const;

 private:
  using Label = std::pair<std::string, std::int32_t>;  // Model and memory of a GPU.
  /// Nodes that differ in their names alone.
  struct Sort {
    std::vector<std::string> pools;
    std::vector<std::string> features;
    std::vector<GpuTraits> parts;  // Each once, in the order of the GPUs.
    std::vector<std::uint8_t> part_of;
    friend auto operator<=>(const Sort&, const Sort&) = default;
  };
  struct Node {
    std::string name;
    std::uint32_t sort = 0;
    std::vector<std::uint8_t> kinds;  // Of each part, or of the node without; behind several parts the node's own.
  };
  struct Filter {
    NodeFilter filter;
    std::int64_t users = 0;
    bool is_known = false;  // Its set is kept.
    placement::ModelSet accepted = 0;
  };
  struct Kind {
    std::int64_t members = 0;  // Places in Node::kinds.
    Label label;
  };

  static Sort SortOf(const NodeTraits& traits);
  std::uint32_t Know(Sort sort);
  static std::vector<Label> LabelsOf(const Sort& sort);
  /// Of each of the node's `kinds`, whether it passes.
  static std::vector<bool> Pass(const NodeFilter& filter, const Sort& sort, const std::string& name);
  template <typename Visit>
  void ForEachNode(const NodeFilter& filter, Visit visit) const;
  Status Place(Node& node);
  bool TryPlace(Node& node, bool minds_label);
  int NewKind(const Label& label);
  void Free(int kind);
  void Compact(bool minds_label);
  bool Split(FilterIndex index);
  void Note(NodeIndex node);
  std::vector<bool> SignatureOf(int kind) const;

  std::vector<Sort> sorts_;
  std::map<Sort, std::uint32_t> sort_index_;
  std::vector<Node> nodes_;
  std::array<Kind, placement::kMaxModels> kinds_;
  placement::ModelSet taken_ = 0;  // Numbers that are in use.
  std::vector<Filter> filters_ = std::vector<Filter>(1);
  std::map<NodeFilter, FilterIndex> filter_index_;
  std::vector<std::string> models_;  // By NodeFacts::gpu_model.
  KindChange change_;
  std::vector<bool> is_renumbered_;
};

}  // namespace divvy::core
