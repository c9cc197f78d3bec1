// Classifies nodes: every condition that a request can set (GPU models and memory, features, names, pools) becomes a
// set of classes. A class is a number that placement tests as one bit.
//
// There are at most placement::kMaxModels classes, so only conditions in use distinguish nodes. Nodes with the same
// GPUs are of one class until a filter in use accepts some of them and not others; the accepted ones then get a class
// of their own. If numbers run out, unused filters are dropped and the classes that only they distinguished are merged.
// After that, different GPUs that no filter distinguishes are merged too. A request that still does not fit is refused.
//
// The index only classifies. Call Cluster::SetNodeClasses after a change; the cluster's requests then mean the same as
// before.
//
// A node with GPUs of several models has a class for each of them, and one of its own. A filter accepts the node's own
// class if it accepts any of the node's GPUs (NodeFacts::gpu_classes).
//
// Invariants: each filter in use accepts either all or none of the nodes, or GPUs, of a class; every node's classes are
// in use.
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

struct GpuProperties {
  std::string model;            // As NVML names it.
  std::int32_t memory_mib = 0;  // 0: unknown; then it meets no memory requirement.
  int compute_capability = 0;   // 90 is 9.0. 0: unknown.

  friend auto operator<=>(const GpuProperties&, const GpuProperties&) = default;
};

/// The properties of a node that requests can name.
struct NodeProperties {
  std::string name;
  std::vector<std::string> pools;
  std::vector<std::string> features;
  std::vector<GpuProperties> gpus;  // In the order of the node's GPUs.
};

/// Conditions on a node; all must hold. Empty or 0 means no condition.
struct NodeFilter {
  std::string gpu_type;  // engine/gpu_type.h. This and the next two are conditions on GPUs: nodes without GPUs fail
                         // them.
  std::int32_t least_gpu_memory_mib = 0;
  int least_compute_capability = 0;
  FeatureCondition features;
  std::vector<std::string> nodes;     // Allowed nodes; empty: all.
  std::vector<std::string> excluded;  // Excluded nodes.
  std::string pool;

  friend auto operator<=>(const NodeFilter&, const NodeFilter&) = default;
};

/// How the classes changed: maps old class numbers to new ones.
class NodeClassChange {
 public:
  NodeClassChange();
  bool empty() const { return !has_any_; }
  /// Translates a set of node classes, as numbered before the change, to the new numbers. A class that consists only of
  /// new nodes is not in the result.
  placement::ModelSet Translate(placement::ModelSet set) const;
  /// Nodes with other class numbers than before, ascending. Includes `changed`.
  std::vector<NodeIndex> renumbered;
  /// Nodes whose properties changed, ascending.
  std::vector<NodeIndex> changed;

 private:
  friend class NodeClassIndex;
  std::array<placement::ModelSet, placement::kMaxModels> was_{};  // [new class]: the old classes that it was made
                                                                  // from.
  bool has_any_ = false;
};

class NodeClassIndex {
 public:
  /// Adds a node; nodes are added in the order of the cluster. Fails with kLimitExceeded if too many classes of nodes
  /// would be needed.
  Status AddNode(NodeProperties properties);
  /// Replaces the properties of a node, for example its features. Requires: the number of GPUs is the same.
  Status SetProperties(NodeIndex node, NodeProperties properties);
  /// Sets the class and GPU model of the node, and those of its GPUs if they differ, in `facts`.
  void Fill(NodeIndex node, NodeFacts& facts) const;

  /// Counts one more use of a filter, and returns its index. Equal filters have the same index; a filter without
  /// conditions is kNoFilter. Fails with kLimitExceeded if too many classes of nodes would be needed. Even then, unused
  /// filters may have been dropped, and classes that only they distinguished merged.
  Result<FilterIndex> Use(NodeFilter filter);
  void Leave(FilterIndex filter);
  /// Returns the node classes that meet the filter's conditions; may be empty for a filter that is not in use.
  placement::ModelSet Accepted(FilterIndex filter) const;
  const NodeFilter& filter(FilterIndex filter) const { return filters_[filter].filter; }
  int class_count() const;
  std::size_t node_count() const { return nodes_.size(); }

  /// Returns the GPUs of each node class, in ten-thousandths, for placement::MakeScorer.
  std::vector<std::int64_t> CapacityParts() const;
  std::vector<int> Alike() const;

  /// Returns how the node classes have changed since the last call.
  NodeClassChange TakeChange();

  /// Returns the GPU model of a node class. For nodes with different GPUs, the text has several models; "" if classes
  /// of different GPUs were merged.
  const std::string& ModelOf(int node_class) const {
    return classes_[static_cast<std::size_t>(node_class)].label.first;
  }
  /// Returns the GPU memory of a node class in MiB; 0 if it is unknown, or if classes of different GPUs were merged.
  std::int32_t MemoryOf(int node_class) const {
    const NodeClass& one = classes_[static_cast<std::size_t>(node_class)];
    return one.members > 0 ? one.label.second : 0;
  }
  /// HasSome returns true if some node or GPU meets the filter's conditions, PassesAll if all nodes or GPUs of a class
  /// do. The filter need not be in use.
  bool HasSome(const NodeFilter& filter) const;
  bool PassesAll(const NodeFilter& filter, int node_class) const;

  /// For tests: returns a description of the first inconsistency in the state; "" if there is none.
  std::string CheckInvariants() const;

 private:
  using Label = std::pair<std::string, std::int32_t>;  // Model and memory of a GPU.
  /// Everything that describes a node except its name.
  struct Sort {
    std::vector<std::string> pools;
    std::vector<std::string> features;
    std::vector<GpuProperties> parts;  // Distinct GPUs, in the order in which they first occur.
    std::vector<std::uint8_t> part_of;
    friend auto operator<=>(const Sort&, const Sort&) = default;
  };
  struct Node {
    std::string name;
    std::uint32_t sort = 0;
    std::vector<std::uint8_t> classes;  // One class per part. Nodes without GPUs have one class; nodes with several
                                        // parts have their own class last.
  };
  struct Filter {
    NodeFilter filter;
    std::int64_t users = 0;
    bool is_known = false;  // `accepted` is up to date.
    placement::ModelSet accepted = 0;
  };
  struct NodeClass {
    std::int64_t members = 0;  // The number of its occurrences in Node::kinds.
    Label label;
  };

  static Sort SortOf(const NodeProperties& properties);
  std::uint32_t Know(Sort sort);
  static std::vector<Label> LabelsOf(const Sort& sort);
  /// Returns for each of the node's GPU classes whether it meets the filter's conditions.
  static std::vector<bool> PassesByClass(const NodeFilter& filter, const Sort& sort, const std::string& name);
  template <typename Visit>
  void ForEachNode(const NodeFilter& filter, Visit visit) const;
  Status Place(Node& node);
  bool TryPlace(Node& node, bool minds_label);
  int NewClass(const Label& label);
  void Free(int node_class);
  void Compact(bool minds_label);
  bool Split(FilterIndex index);
  void Note(NodeIndex node);
  std::vector<bool> SignatureOf(int node_class) const;

  std::vector<Sort> sorts_;
  std::map<Sort, std::uint32_t> sort_index_;
  std::vector<Node> nodes_;
  std::array<NodeClass, placement::kMaxModels> classes_;
  placement::ModelSet taken_ = 0;  // The class numbers in use.
  std::vector<Filter> filters_ = std::vector<Filter>(1);
  std::map<NodeFilter, FilterIndex> filter_index_;
  std::vector<std::string> models_;  // Indexed by NodeFacts::gpu_model.
  NodeClassChange change_;
  std::vector<bool> is_renumbered_;
};

}  // namespace divvy::core
