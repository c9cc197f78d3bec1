// Running jobs: their use of nodes, teams and caps, and their expected ends.
#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/state.h"

namespace divvy::core {

namespace {

// Returns the first of origin + step, origin + 2 step, origin + 4 step ... after `now`. It seldom changes, so plans
// made with it stay valid for a while.
Time NextDoubling(Time origin, Duration step, Time now) {
  while (AddSaturating(origin, step) <= now) step *= 2;
  return AddSaturating(origin, step);
}

Time EndOf(const Rules& rules, Time started, Time end, Time predicted_end, Time now) {
  // A job past its time limit is about to end. It is expected to end just after `now`, because only jobs that can start
  // at once may have the start `now`.
  if (end != kNever) return end > now ? end : NextDoubling(end, std::chrono::seconds(1), now);
  if (!rules.uses_predictions || predicted_end == kNever) return kNever;
  if (predicted_end > now) return predicted_end;
  // A job that has run longer than predicted is assumed to run as long again.
  return NextDoubling(started, std::max<Duration>(predicted_end - started, std::chrono::minutes(1)), now);
}

}  // namespace

Time EndOf(const Rules& rules, const RunningTask& placed, Time now) {
  return EndOf(rules, placed.started, placed.end, placed.predicted_end, now);
}

Time EndOf(const Rules& rules, const Run& run, Time now) {
  return EndOf(rules, run.started, run.end, run.predicted_end, now);
}

GpuUse ClusterState::UseOf(const Run& run) const {
  GpuUse use;
  for (const TaskPlacement& placed : run.placements) use += core::UseOf(request_of(run), placed);
  return use;
}

std::uint64_t ClusterState::DrawOf(JobId entry) const {
  const auto at = draws.find(entry);
  return at == draws.end() ? 0 : at->second + waiting.at(entry).count;
}

void ClusterState::TakePlacement(JobId job, const Run& run, const TaskPlacement& placed) {
  Node& node = nodes[placed.node];
  const Shape& shape = ShapeOf(request_of(run), placed);
  node.placements.push_back({job, shape, placed.place, run.started, run.end, run.predicted_end});
  const GpuSet gpus = placed.place.gpus;
  for (const int gpu : shape.slice ? gpus - node.carved : gpus& node.carved) {
    carvings.push_back({placed.node, gpu, !shape.slice, job});
  }
  node.carved = shape.slice ? node.carved | gpus : node.carved - gpus;
  if (node.blocked.empty() && node.accepts) {
    placement::Take(node.state, shape, placed.place);
    Show(placed.node);
  } else {
    Rebuild(placed.node);
  }
}

void ClusterState::DropPlacement(JobId job, const TaskPlacement& placed) {
  Node& node = nodes[placed.node];
  const Shape& shape = ShapeOf(request_of(running.at(job)), placed);
  const auto is_it = [&](const RunningTask& one) {
    return one.job == job && one.place == placed.place && one.shape == shape;
  };
  // If the job has several equal placements here (tasks without GPUs), removes one that it was told to release first.
  auto at = std::find_if(node.placements.begin(), node.placements.end(),
                         [&](const RunningTask& one) { return one.is_leaving && is_it(one); });
  if (at == node.placements.end()) at = std::find_if(node.placements.begin(), node.placements.end(), is_it);
  DIVVY_ASSERT(at != node.placements.end());
  const RunningTask gone = *at;
  node.placements.erase(at);
  if (gone.end == kNever) room_epoch += 1;
  if (node.blocked.empty() && node.accepts) {
    placement::Release(node.state, gone.shape, gone.place);
    Show(placed.node);
  } else {
    Rebuild(placed.node);
  }
  Grow(placed.node);
}

void ClusterState::CountStart(const JobClass& job_class, GpuUse use, int jobs, Time now) {
  const std::int64_t parts = use.parts;
  teams.AddRunning(job_class.key.team, use, job_class.is_firm(), now);
  preempt_epoch += 1;
  if (parts < 0) {
    for (const ClassIndex index : std::exchange(team_blocked, {})) Freshen(index);
  }
  for (const CapIndex cap : job_class.key.caps) {
    caps[cap].running += jobs;
    caps[cap].parts += parts;
    if ((jobs >= 0 && parts >= 0) || !caps[cap].is_bound()) continue;
    for (const ClassIndex index : caps[cap].classes) Freshen(index);
  }
}

void ClusterState::AddRun(Run run, Time now) {
  const JobId id = run.id;
  CountStart(classes[run.job_class], UseOf(run), 1, now);
  for (const TaskPlacement& placed : run.placements) TakePlacement(id, run, placed);
  if (IsElastic(request_of(run))) elastic.insert(id);
  const auto [at, is_new] = running.emplace(id, std::move(run));
  DIVVY_ASSERT(is_new);
  limited_runs += at->second.end != kNever;
  Expect(at->second, EndOf(rules, at->second, at->second.started));
}

void ClusterState::Expect(Run& run, Time end) {
  if (run.expected != kNever) ends.erase({run.expected, run.id});
  run.expected = end;
  if (end != kNever) ends.insert({end, run.id});
}

bool ClusterState::PutOffOverdue(Time now) {
  bool has_any = false;
  while (!ends.empty() && ends.begin()->first <= now) {
    Run& run = running.at(ends.begin()->second);
    Expect(run, EndOf(rules, run, now));
    has_any = true;
  }
  return has_any;
}

}  // namespace divvy::core
