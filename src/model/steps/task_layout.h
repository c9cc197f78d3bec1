// The nodes of a job on which the tasks of a step run, and the ranks of each node. A pure function of the request and
// the job's resources on each node. It is computed once, where the step is started; the other nodes get the result as
// text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

struct TaskLayout {
  struct Machine {
    std::size_t node_index = 0;  // Index of the node in the job.
    int tasks = 1;
    int part = 0;  // For a step in several parts: its part.

    friend bool operator==(const Machine&, const Machine&) = default;
  };
  std::vector<Machine> machines;  // In the order of the job's nodes. The index is the node's number in the step.
  bool is_cyclic = false;         // Ranks are assigned round-robin over the nodes. False: each node has consecutive
                                  // ranks.
  /// The step has one part for each component of a heterogeneous job in which it runs. Parts are ascending, and so are
  /// the node allocations inside each part. A node may occur in several parts. Ranks are consecutive.
  bool has_parts = false;
  /// In a layout that lists the node of each rank: indices in the job. Empty: consecutive or cyclic.
  std::vector<std::size_t> node_of_rank = {};

  int tasks() const;
  /// Returns the ranks of the tasks on each node of the step, ascending.
  std::vector<std::vector<int>> Ranks() const;
  /// Returns the number in the step of the job's node `node_index`. Returns std::nullopt if the step has no task there.
  std::optional<std::size_t> Find(std::size_t node_index) const;

  friend bool operator==(const TaskLayout&, const TaskLayout&) = default;
};

struct LayoutRequest {
  int tasks = 0;           // 0: as many as the chosen nodes have.
  int nodes = 0;           // Minimal number of nodes. 0: as many as the tasks need.
  int nodes_most = 0;      // Maximal number of nodes. 0: all.
  int tasks_per_node = 0;  // Maximum per node; without `tasks`, the exact number. 0: the job's tasks there.
  std::vector<std::size_t> node_indices;   // All of these, and others only if `nodes` is larger. Empty: any.
  std::vector<std::size_t> left_out = {};  // Nodes to exclude.
  bool is_cyclic = false;
  /// The node of each rank, in rank order. Empty: as above. With `tasks`, the first entries count.
  std::vector<std::size_t> node_of_rank = {};
};

/// Chooses the nodes and ranks of a step. `capacities`: the job's tasks on each of its nodes. Block layout fills the
/// first nodes first, but each node that `nodes` or `node_indices` demands gets at least one task. If there are more
/// tasks than the total capacity, the nodes are filled again in the same proportion.
Result<TaskLayout> LayTasks(const LayoutRequest& ask, const std::vector<int>& capacities);

/// Returns the counts of nodes in Slurm's format: "2(x3),1" for 2, 2, 2 and 1.
std::string CountsText(const std::vector<int>& counts);

/// Returns the layout as text that ReadLayout parses: "block 0:4,2:1" if the job's node 0 has four tasks and node 2 has
/// one. For a step in several parts, each entry ends with its part: "parts 0:4:0,0:2:1,2:1:1". A layout that lists the
/// nodes has them in rank order: "ranks 2:1,0:2,2:1" if ranks 0 and 3 are on node 2.
std::string LayoutText(const TaskLayout& layout);
std::optional<TaskLayout> ReadLayout(std::string_view text);

}  // namespace divvy
