#include "engine/core/cycle/resize.h"
#include "engine/core/place/limit_reservations.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "engine/core/cycle/preempt.h"
#include "engine/core/place/placer.h"

namespace divvy::core {
namespace {

Shape OnGpus(Shape shape, GpuSet gpus) {
  shape.gpus = static_cast<std::int16_t>(gpus.size());
  shape.parts = shape.gpus > 0 ? placement::kGpuParts : 0;
  return shape;
}

// Returns a request with one task for the GPUs that the job keeps and another for those that it was told to release, so
// that it is known what will be free.
ResourceRequest SplitRequest(Shape shape, const std::vector<FilterIndex>& filters, GpuSet stays, GpuSet goes) {
  ResourceRequest request;
  request.placement = PlacementStrategy::kSequential;
  request.groups.push_back({{OnGpus(shape, stays)}, 1, 1, {}, filters});
  if (goes.empty()) return request;
  shape.cpu_milli = shape.memory_mib = 0;
  request.groups.push_back({{OnGpus(shape, goes)}, 1, 1, {}, filters});
  return request;
}

Job JobOf(const Run& run, const ClassKey& key) {
  Job job;
  job.id = run.id;
  job.team = key.team;
  job.user = key.user;
  job.priority = run.priority;
  job.queued_at = run.queued_at;
  job.limit = key.limit;
  job.predicted = key.predicted;
  job.caps = key.caps;
  job.preemptible = key.preemptible;
  return job;
}

}  // namespace

std::optional<std::vector<Shift>> ShiftsFor(ClusterState& state, const ResourceRequest& request,
                                            const TaskPlacement& placed, Length length, TeamIndex team, UserIndex user,
                                            Time now) {
  {
    Placer placing(state, now, now);
    if (!placing.Keeps(request, {placed}, length, team, user)) return std::nullopt;
  }
  Placer placing(state, now, now);
  return placing.Shifts(request, {placed}, length, team, user);
}

GpuSet GpusOf(const Run& run) { return GpusOf(run.placements); }

GpuSet RequestedOf(const Run& run) { return GpusOf(run.leaving); }

void Resize(Cluster& cluster, JobId id, GpuSet gpus, GpuSet asked, Time now, std::int32_t more_memory_mib) {
  const Run run = *cluster.running(id);
  DIVVY_ASSERT((asked - gpus).empty());
  ClusterState& state = cluster.state();
  const ClassKey key = state.classes[run.job_class].key;
  const NodeIndex node = run.placements.front().node;
  const GpuSet stays = gpus - asked;
  Job job = JobOf(run, key);
  const ResourceRequest& before = state.requests[key.request];
  const TaskPlacement& first = run.placements.front();
  const std::vector<FilterIndex>& filters = before.groups[first.group].filters;
  std::vector<FilterIndex> filter;
  if (!filters.empty()) filter = {filters[first.alternative]};
  Shape shape = ShapeOf(before, first);
  shape.memory_mib += more_memory_mib;
  job.request = cluster.Know(SplitRequest(shape, filter, stays, asked));
  std::vector<TaskPlacement> placements = {{node, {stays}, 0, 0}};
  if (!asked.empty()) placements.push_back({node, {asked}, 1, 0});
  cluster.Finish(id, now);
  cluster.Adopt(job, placements, run.started, now);
  if (run.end != kNever || key.limit > Duration(0)) cluster.SetEnd(id, run.end);
  if (!asked.empty()) {
    state.running.at(id).leaving = {placements.back()};
    MarkLeaving(state, id, {placements.back()});
  }
  if (run.is_leaving) cluster.SetLeaving(id);
}

GpuSet OneMore(Cluster& cluster, JobId id, const Taste& taste, Time now) {
  const Run& run = *cluster.running(id);
  ClusterState& state = cluster.state();
  if (run.is_leaving || !run.leaving.empty() || run.end <= now) return {};
  const JobClass& job_class = state.classes[run.job_class];
  const ClassKey& key = job_class.key;
  if (RoomToGrow(state, key.caps) < placement::kGpuParts) return {};
  if (state.teams.has_rules()) {
    const KeptOfTeams kept = KeptByTeam(state, run.end, IsAnybody);
    if (!TeamsHaveRoom(state.teams, key.team, job_class.is_firm(), placement::kGpuParts, kept)) return {};
  }
  const NodeIndex index = run.placements.front().node;
  const Node& node = state.nodes[index];
  Shape shape;
  shape.gpus = 1;
  shape.parts = placement::kGpuParts;
  shape.models = taste.models;
  const NodeState seen = SeenBy(node, node.state, shape);
  if (!placement::Fits(seen, shape)) return {};
  const GpuSet has = GpusOf(run);
  const GpuTopology* topology = node.facts.topology.get();
  std::vector<std::tuple<int, int, int, int>> candidates;
  for (int gpu = 0; gpu < seen.gpus; ++gpu) {
    if (placement::RoomOfGpu(seen, gpu).free_parts < placement::kGpuParts) continue;
    const GpuSet all = has | GpuSet::Only(gpu);
    if (topology == nullptr) {
      candidates.emplace_back(0, 0, 0, gpu);
      continue;
    }
    if (taste.requires_topology && !topology->Satisfies(all, taste.topology)) continue;
    candidates.emplace_back(-topology->WorstPair(all), -topology->SumOfPairs(all), topology->NumaNodes(all), gpu);
  }
  std::sort(candidates.begin(), candidates.end());
  ResourceRequest request;
  request.groups.push_back({{shape}, 1, 1});
  const Length length(run.end == kNever ? Duration(0) : run.end - now);
  for (const auto& [worst, sum, numa, gpu] : candidates) {
    const auto shifts = ShiftsFor(state, request, {index, {GpuSet::Only(gpu)}, 0, 0}, length, key.team, key.user, now);
    if (!shifts) continue;
    Apply(state, *shifts);
    return GpuSet::Only(gpu);
  }
  return {};
}

}  // namespace divvy::core
