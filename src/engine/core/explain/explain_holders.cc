#include "engine/core/explain/explain_holders.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace divvy::core {
namespace {

constexpr std::size_t kMostLooked = 4'000;

Holder HolderOf(const ClusterState& state, const Run& run, const std::vector<NodeIndex>& nodes, Time now) {
  Holder holder;
  holder.job = run.id;
  std::copy_if(
      run.placements.begin(), run.placements.end(), std::back_inserter(holder.placements),
      [&](const TaskPlacement& placed) { return std::find(nodes.begin(), nodes.end(), placed.node) != nodes.end(); });
  if (holder.placements.empty()) holder.placements = run.placements;
  holder.until = EndOf(state.rules, {run.id, Shape(), {}, run.started, run.end, run.predicted_end, false}, now);
  holder.is_leaving = run.is_leaving;
  return holder;
}

}  // namespace

void AddHolders(const ClusterState& state, Time now, const std::function<bool(const Run&)>& has,
                const std::vector<NodeIndex>& nodes, Blocker& blocker) {
  const auto is_known = [&](JobId job) {
    return std::any_of(blocker.holders.begin(), blocker.holders.end(),
                       [&](const Holder& one) { return one.job == job; });
  };
  const auto offer = [&](const Run& run) {
    if (!has(run)) return true;
    if (blocker.holders.size() == kMostHolders) {
      blocker.has_more_holders = true;
      return false;
    }
    blocker.holders.push_back(HolderOf(state, run, nodes, now));
    return true;
  };
  std::size_t looked = 0;
  for (const auto& [end, job] : state.ends) {
    if (++looked > kMostLooked || !offer(state.running.at(job))) break;
  }
  looked = 0;
  for (const NodeIndex node : nodes) {
    if (blocker.has_more_holders || looked > kMostLooked) break;
    for (const RunningTask& placed : state.nodes[node].placements) {
      ++looked;
      const auto run = state.running.find(placed.job);
      if (run == state.running.end() || run->second.expected != kNever || is_known(placed.job)) continue;
      if (!offer(run->second)) break;
    }
  }
  std::sort(blocker.holders.begin(), blocker.holders.end(),
            [](const Holder& a, const Holder& b) { return std::tie(a.until, a.job) < std::tie(b.until, b.job); });
}

bool IsOnNodeClasses(const ClusterState& state, const Run& run, placement::ModelSet node_classes, bool with_gpus) {
  return std::any_of(run.placements.begin(), run.placements.end(), [&](const TaskPlacement& placed) {
    return (!with_gpus || !placed.place.gpus.empty()) &&
           ((node_classes >> state.nodes[placed.node].facts.node_class) & 1) != 0;
  });
}

}  // namespace divvy::core
