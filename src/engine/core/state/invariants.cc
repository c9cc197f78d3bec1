#include <algorithm>

#include "engine/core/state/state.h"

namespace divvy::core {
namespace {

std::string OnNode(const Node& node, const std::string& what) { return "node " + node.facts.name + ": " + what; }

}  // namespace

std::string BrokenInvariant(const ClusterState& s) {
  // Each node's free room must follow from its placements.
  std::size_t placements = 0;
  for (NodeIndex index = 0; index < s.nodes.size(); ++index) {
    const Node& node = s.nodes[index];
    std::vector<int> used(static_cast<std::size_t>(node.facts.gpus));
    std::int64_t cpu = 0;
    std::int64_t memory = 0;
    for (const RunningTask& placed : node.placements) {
      ++placements;
      if (!s.running.contains(placed.job))
        return OnNode(node, "has a task placement of job " + ToString(placed.job) + ", which does not run");
      cpu += placed.shape.cpu_milli;
      memory += placed.shape.memory_mib;
      for (const int gpu : placed.place.gpus& GpuSet::FirstN(node.facts.gpus)) {
        used[static_cast<std::size_t>(gpu)] += placed.shape.parts;
      }
    }
    // A removed node has a negative CPU count.
    if (cpu > std::max(node.facts.cpu_milli, 0)) return OnNode(node, "its jobs hold more CPUs than it has");
    if (memory > node.facts.memory_mib) return OnNode(node, "its jobs hold more memory than it has");
    for (int gpu = 0; gpu < node.facts.gpus; ++gpu) {
      const placement::GpuRoom& room = placement::RoomOfGpu(node.state, gpu);
      const bool is_blocked = !node.accepts || node.blocked.Contains(gpu);
      const int taken = used[static_cast<std::size_t>(gpu)];
      if (taken > placement::kGpuParts) return OnNode(node, "GPU " + std::to_string(gpu) + " has more than one owner");
      const bool is_closed = is_blocked || node.facts.only_sliced.Contains(gpu);
      const bool is_cut = !is_blocked && room.cut != placement::MigCut{};
      if (room.free_parts != (is_closed || is_cut ? 0 : placement::kGpuParts - taken)) {
        return OnNode(node, "GPU " + std::to_string(gpu) + " has other free room than its task placements leave");
      }
    }
    NodeState from_nothing = ClusterState::EmptyState(node.facts);
    for (const RunningTask& placed : node.placements) placement::Take(from_nothing, placed.shape, placed.place);
    placement::Block(from_nothing, node.accepts ? node.blocked : GpuSet::FirstN(node.facts.gpus));
    if (!std::ranges::equal(from_nothing.rooms(), node.state.rooms())) {
      return OnNode(node, "has other free MIG slices or GPU memory than its task placements leave");
    }
    for (const RunningTask& placed : node.placements) {
      const GpuSet carved = placed.place.gpus & node.carved;
      if (carved != (placed.shape.slice ? placed.place.gpus : GpuSet())) {
        return OnNode(node,
                      "a GPU recorded as divided into MIG instances has other work, or one with an instance is not "
                      "recorded as divided");
      }
    }
    if (node.state.carved != node.carved)
      return OnNode(node, "MIG instances that were only tried were not removed again");
    if (node.accepts && node.state.cpu_free != node.facts.cpu_milli - cpu) return OnNode(node, "free CPUs are wrong");
    if (node.reserved.empty() == s.held.contains(index))
      return OnNode(node, "the list of nodes with reservations is wrong about it");
    if (s.fleet && node.reserved.empty() && !node.is_mixed() && !(s.fleet->nodes()[index] == node.state)) {
      return OnNode(node, "the index of nodes has another state of it");
    }
  }
  std::size_t expected = 0;
  GpuUse running;
  std::vector<CapUse> cap_uses(s.caps.size());
  std::size_t limited_runs = 0;
  for (const auto& [id, run] : s.running) {
    limited_runs += run.end != kNever;
    expected += run.placements.size();
    running += s.UseOf(run);
    const ResourceRequest& request = s.request_of(run);
    for (std::size_t group = 0; group < request.groups.size(); ++group) {
      const auto has = std::count_if(run.placements.begin(), run.placements.end(),
                                     [&](const TaskPlacement& placed) { return placed.group == group; });
      if (has < request.groups[group].least || has > request.groups[group].most) {
        return "job " + ToString(id) + " runs with " + std::to_string(has) + " tasks of group " + std::to_string(group);
      }
    }
    const auto differs = [&](const TaskPlacement& placed) {
      return placed.alternative != run.placements.front().alternative;
    };
    if (TakesOneAlternative(request) && std::any_of(run.placements.begin(), run.placements.end(), differs)) {
      return "job " + ToString(id) + " runs with tasks of several alternatives, but all must use the same one";
    }
    for (const CapIndex cap : s.classes[run.job_class].key.caps) {
      cap_uses[cap].jobs += 1;
      cap_uses[cap].parts += s.PartsOf(run);
    }
  }
  if (limited_runs != s.limited_runs) return "the count of running jobs with time limits is wrong";
  if (placements != expected) return "the task placements of the nodes are not those of the running jobs";
  if (s.teams.running(kRootTeam) != running.parts)
    return "the GPUs of all teams together are not those of the running jobs";
  if (s.teams.worth(kRootTeam) != running.worth)
    return "the GPUs of all teams, weighted by speed, are not those of the running jobs";
  for (CapIndex cap = 0; cap < s.caps.size(); ++cap) {
    if (s.caps[cap].running != cap_uses[cap].jobs) return "cap " + s.caps[cap].name + " counts wrong";
    if (s.caps[cap].parts != cap_uses[cap].parts)
      return "cap " + s.caps[cap].name + " counts other GPUs than its jobs hold";
  }
  std::uint64_t members = 0;
  std::uint64_t in_line = 0;
  for (const auto& [id, entry] : s.waiting) {
    members += entry.count;
    if (entry.lane == Waiting::Lane::kReady) in_line += entry.count;
  }
  std::uint64_t lines = 0;
  for (const JobClass& job_class : s.classes) lines += job_class.queue.members();
  if (members != s.waiting_count || in_line != lines)
    return "the queues of the job classes do not have the waiting jobs";
  for (const ReservationSlot& slot : s.reservations) {
    if (!s.waiting.contains(slot.reservation.entry)) {
      return "there is a backfill reservation for job " + ToString(slot.reservation.entry) + ", which does not wait";
    }
  }
  if (!std::is_sorted(s.reservations.begin(), s.reservations.end(),
                      [](const ReservationSlot& a, const ReservationSlot& b) { return a.key < b.key; }) &&
      !s.IsAnyFair()) {
    return "the backfill reservations are not in queue order";
  }
  return "";
}

}  // namespace divvy::core
