#include "model/steps/task_layout.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

constexpr int kLayoutTasksMost = 1'000'000;

/// The nodes that the step may use, in order: the requested ones, or all.
Result<std::vector<std::size_t>> Candidates(const LayoutRequest& ask, std::size_t machines) {
  std::vector<std::size_t> node_indices = ask.node_indices;
  std::ranges::sort(node_indices);
  node_indices.erase(std::unique(node_indices.begin(), node_indices.end()), node_indices.end());
  const auto is_left_out = [&](std::size_t node_index) {
    return std::ranges::find(ask.left_out, node_index) != ask.left_out.end();
  };
  if (std::ranges::any_of(node_indices, is_left_out))
    return InvalidArgument("the same node is both requested and excluded");
  std::vector<std::size_t> all;
  for (std::size_t node_index = 0; node_index < machines; ++node_index) {
    if (!is_left_out(node_index)) all.push_back(node_index);
  }
  if (all.empty()) return InvalidArgument("it excludes every node of the job");
  if (node_indices.empty()) node_indices = all;
  const auto wanted = static_cast<std::size_t>(std::max(ask.nodes, 0));
  if (wanted > all.size()) {
    return InvalidArgument(
        "it asks for " + Plural(ask.nodes, "node") + ", the job has " + std::to_string(machines) +
        (all.size() < machines ? ", of which it excludes " + std::to_string(machines - all.size()) : ""));
  }
  for (const std::size_t node_index : all) {
    if (node_indices.size() < wanted && std::ranges::find(node_indices, node_index) == node_indices.end())
      node_indices.push_back(node_index);
  }
  std::ranges::sort(node_indices);
  return node_indices;
}

/// How many of the allowed nodes the step uses; it takes the first ones.
std::size_t CountOf(const LayoutRequest& ask, const std::vector<int>& room) {
  if (!ask.node_indices.empty()) return room.size();
  std::size_t most = room.size();
  if (ask.nodes_most > 0) most = std::min(most, static_cast<std::size_t>(ask.nodes_most));
  std::size_t count = std::min(most, static_cast<std::size_t>(std::max(ask.nodes, 0)));
  if (ask.tasks == 0) return ask.nodes > 0 ? count : most;
  std::int64_t holds = 0;
  for (std::size_t i = 0; i < count; ++i) holds += room[i];
  while (count < most && holds < ask.tasks) holds += room[count++];
  return std::max<std::size_t>(count, 1);
}

/// The nodes that `node_of_rank` names, each with its number of tasks.
std::vector<TaskLayout::Machine> MachinesOf(const std::vector<std::size_t>& node_of_rank) {
  std::map<std::size_t, int> counts;
  for (const std::size_t node_index : node_of_rank) counts[node_index] += 1;
  std::vector<TaskLayout::Machine> machines;
  for (const auto& [node_index, tasks] : counts) machines.push_back({node_index, tasks, 0});
  return machines;
}

Result<TaskLayout> LayAsListed(const LayoutRequest& ask, std::size_t machines) {
  TaskLayout layout;
  layout.node_of_rank = ask.node_of_rank;
  const std::size_t listed = layout.node_of_rank.size();
  if (static_cast<std::size_t>(ask.tasks) > listed) {
    return InvalidArgument(Plural(ask.tasks, "task") + " need " + std::to_string(ask.tasks) +
                           " entries in the list of hosts, which has " + std::to_string(listed));
  }
  if (ask.tasks > 0) layout.node_of_rank.resize(static_cast<std::size_t>(ask.tasks));
  layout.machines = MachinesOf(layout.node_of_rank);
  for (const TaskLayout::Machine& machine : layout.machines) {
    if (machine.node_index >= machines)
      return InvalidArgument("the job has no node " + std::to_string(machine.node_index));
    if (std::ranges::find(ask.left_out, machine.node_index) != ask.left_out.end())
      return InvalidArgument("the list of hosts names a node that --exclude or --relative leaves out");
  }
  const std::size_t used = layout.machines.size();
  if (used < static_cast<std::size_t>(ask.nodes) ||
      (ask.nodes_most > 0 && used > static_cast<std::size_t>(ask.nodes_most)))
    return InvalidArgument("it asks for " + Plural(ask.nodes, "node") + ", the list of hosts names " +
                           std::to_string(used));
  return layout;
}

void Deal(int tasks, const std::vector<int>& room, std::vector<int>& out) {
  out.assign(room.size(), 0);
  int left = tasks;
  for (std::size_t i = 0; i < out.size() && left > 0; ++i, --left) out[i] = 1;
  // Then fill the capacity of each node. Each round adds the full capacity once more.
  for (int times = 1; left > 0; ++times) {
    for (std::size_t i = 0; i < out.size() && left > 0; ++i) {
      const int more = std::min(left, std::max(room[i] * times - out[i], 0));
      out[i] += more;
      left -= more;
    }
  }
}

}  // namespace

int TaskLayout::tasks() const {
  int all = 0;
  for (const Machine& machine : machines) all += machine.tasks;
  return all;
}

std::vector<std::vector<int>> TaskLayout::Ranks() const {
  std::vector<std::vector<int>> ranks(machines.size());
  int next = 0;
  if (!node_of_rank.empty()) {
    std::map<std::size_t, std::size_t> place;
    for (std::size_t i = 0; i < machines.size(); ++i) place[machines[i].node_index] = i;
    for (const std::size_t node_index : node_of_rank) ranks[place.at(node_index)].push_back(next++);
    return ranks;
  }
  const int all = tasks();
  if (!is_cyclic) {
    for (std::size_t i = 0; i < machines.size(); ++i) {
      for (int task = 0; task < machines[i].tasks; ++task) ranks[i].push_back(next++);
    }
    return ranks;
  }
  while (next < all) {
    for (std::size_t i = 0; i < machines.size(); ++i) {
      if (ranks[i].size() < static_cast<std::size_t>(machines[i].tasks)) ranks[i].push_back(next++);
    }
  }
  return ranks;
}

std::optional<std::size_t> TaskLayout::Find(std::size_t node_index) const {
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (machines[i].node_index == node_index) return i;
  }
  return std::nullopt;
}

Result<TaskLayout> LayTasks(const LayoutRequest& ask, const std::vector<int>& capacities) {
  if (ask.tasks < 0 || ask.tasks > kLayoutTasksMost)
    return InvalidArgument("the number of tasks must be from 0 to " + std::to_string(kLayoutTasksMost));
  if (!ask.node_of_rank.empty()) return LayAsListed(ask, capacities.size());
  DIVVY_TRY(std::vector<std::size_t> node_indices, Candidates(ask, capacities.size()));
  std::vector<int> room;
  for (const std::size_t node_index : node_indices) {
    if (node_index >= capacities.size()) return InvalidArgument("the job has no node " + std::to_string(node_index));
    room.push_back(ask.tasks_per_node > 0 ? ask.tasks_per_node : std::max(capacities[node_index], 1));
  }
  const std::size_t count = CountOf(ask, room);
  room.resize(count);
  node_indices.resize(count);
  std::int64_t all = 0;
  for (const int here : room) all += here;
  if (ask.tasks_per_node > 0 && ask.tasks > all) {
    return InvalidArgument(Plural(ask.tasks, "task") + " need more than " +
                           Plural(static_cast<std::int64_t>(count), "node") + " with " +
                           std::to_string(ask.tasks_per_node) + " on each");
  }
  const int tasks = ask.tasks > 0 ? ask.tasks : static_cast<int>(std::min<std::int64_t>(all, kLayoutTasksMost));
  const auto needed = ask.node_indices.empty() ? static_cast<std::size_t>(std::max(ask.nodes, 0)) : node_indices.size();
  if (static_cast<std::size_t>(tasks) < needed && (!ask.node_indices.empty() || ask.nodes > 1)) {
    // As in Slurm, every node gets a task, so there are at most as many nodes as tasks.
    node_indices.resize(static_cast<std::size_t>(tasks));
    room.resize(node_indices.size());
  }
  std::vector<int> dealt;
  Deal(tasks, room, dealt);
  TaskLayout layout;
  layout.is_cyclic = ask.is_cyclic;
  for (std::size_t i = 0; i < node_indices.size(); ++i) {
    if (dealt[i] > 0) layout.machines.push_back({node_indices[i], dealt[i], 0});
  }
  return layout;
}

std::string CountsText(const std::vector<int>& counts) {
  std::vector<std::string> words;
  for (std::size_t first = 0, next = 0; first < counts.size(); first = next) {
    while (next < counts.size() && counts[next] == counts[first]) ++next;
    words.push_back(std::to_string(counts[first]));
    if (next - first > 1) words.back() += "(x" + std::to_string(next - first) + ")";
  }
  return Join(words, ",");
}

std::string LayoutText(const TaskLayout& layout) {
  std::vector<std::string> words;
  const std::vector<std::size_t>& listed = layout.node_of_rank;
  for (std::size_t first = 0, next = 0; first < listed.size(); first = next) {
    while (next < listed.size() && listed[next] == listed[first]) ++next;
    words.push_back(std::to_string(listed[first]) + ":" + std::to_string(next - first));
  }
  if (!listed.empty()) return "ranks " + Join(words, ",");
  for (const auto& machine : layout.machines) {
    words.push_back(std::to_string(machine.node_index) + ":" + std::to_string(machine.tasks));
    if (layout.has_parts) words.back() += ":" + std::to_string(machine.part);
  }
  return (layout.has_parts ? "parts " : layout.is_cyclic ? "cyclic " : "block ") + Join(words, ",");
}

std::optional<TaskLayout> ReadLayout(std::string_view text) {
  const auto words = SplitWords(text);
  constexpr std::array<std::string_view, 4> kKinds = {"block", "cyclic", "parts", "ranks"};
  if (words.size() != 2 || std::ranges::find(kKinds, words[0]) == kKinds.end()) return std::nullopt;
  TaskLayout layout;
  layout.is_cyclic = words[0] == "cyclic";
  layout.has_parts = words[0] == "parts";
  std::int64_t all = 0;
  for (const std::string_view word : Split(words[1], ',')) {
    const auto fields = Split(word, ':');
    if (fields.size() != (layout.has_parts ? 3 : 2)) return std::nullopt;
    const auto node_index = ParseInteger(fields[0]);
    const auto tasks = ParseInteger(fields[1]);
    const auto part = layout.has_parts ? ParseInteger(fields[2]) : 0;
    if (!node_index || !tasks || *node_index < 0 || *node_index > kLayoutTasksMost || *tasks < 1 ||
        *tasks > kLayoutTasksMost)
      return std::nullopt;
    if (!part || *part < 0 || *part > 255) return std::nullopt;
    const TaskLayout::Machine machine{static_cast<std::size_t>(*node_index), static_cast<int>(*tasks),
                                      static_cast<int>(*part)};
    if (words[0] == "ranks") {
      all += *tasks;
      if (all > kLayoutTasksMost) return std::nullopt;
      layout.node_of_rank.insert(layout.node_of_rank.end(), static_cast<std::size_t>(*tasks), machine.node_index);
      continue;
    }
    if (!layout.machines.empty()) {
      const TaskLayout::Machine& before = layout.machines.back();
      if (std::pair(before.part, before.node_index) >= std::pair(machine.part, machine.node_index)) return std::nullopt;
    }
    all += *tasks;
    if (all > kLayoutTasksMost) return std::nullopt;
    layout.machines.push_back(machine);
  }
  if (words[0] == "ranks") layout.machines = MachinesOf(layout.node_of_rank);
  return layout;
}

}  // namespace divvy
