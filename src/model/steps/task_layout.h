// On which machines of a job the tasks of a step run, and which ranks each machine has. A pure function of what is
// asked and of what the job has on each machine, worked out once, where the step was called; the others get it as text.
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
    std::size_t seat = 0;  // Of the job's machines.
    int tasks = 1;
    int part = 0;  // Of a step in several parts: which.

    friend bool operator==(const Machine&, const Machine&) = default;
  };
  std::vector<Machine> machines;  // Seats ascending; the place here is the machine's number in the step.
  bool is_cyclic = false;         // Ranks go round the machines; else each machine has its ranks in a row.
  /// In parts, one for each component of a heterogeneous job that it runs in: parts ascending, and seats inside each. A
  /// machine may stand in several. Ranks are in rows.
  bool has_parts = false;

  int tasks() const;
  /// By machine: its ranks, ascending.
  std::vector<std::vector<int>> Ranks() const;
  /// The machine's number in the step; nothing: it has no part in it.
  std::optional<std::size_t> Find(std::size_t seat) const;

  friend bool operator==(const TaskLayout&, const TaskLayout&) = default;
};

struct LayoutAsk {
  int tasks = 0;                   // 0: as many as the machines that are taken have together.
  int nodes = 0;                   // So many machines at least; 0: as many as the tasks need.
  int nodes_most = 0;              // 0: all.
  int tasks_per_node = 0;          // At most on each; alone, without `tasks`, just so many. 0: what the job has there.
  std::vector<std::size_t> seats;  // Each of these, and others only where `nodes` are more; empty: any.
  std::vector<std::size_t> left_out = {};  // None of these.
  bool is_cyclic = false;
};

/// `capacities`: the job's tasks on each of its machines. Block: the first machines are filled first, and each machine
/// that `nodes` or `seats` ask for has a task at least. More tasks than all have together go round in the same
/// proportion.
Result<TaskLayout> LayTasks(const LayoutAsk& ask, const std::vector<int>& capacities);

/// "2(x3),1": a count for each machine, as Slurm writes them.
std::string CountsText(const std::vector<int>& counts);

/// "block 0:4,2:1"; in parts "parts 0:4:0,0:2:1,2:1:1".
std::string LayoutText(const TaskLayout& layout);
std::optional<TaskLayout> ReadLayout(std::string_view text);

}  // namespace divvy
