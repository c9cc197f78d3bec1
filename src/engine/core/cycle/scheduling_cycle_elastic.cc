// Gives resources that no waiting job can use to running elastic jobs.
#include <algorithm>
#include <utility>

#include "engine/core/cycle/scheduling_cycle.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/placer.h"

namespace divvy::core {

void SchedulingCycle::GrowElastic() {
  if (state_.elastic.empty()) return;
  const bool somebody_waits = std::any_of(state_.queue_heads.begin(), state_.queue_heads.end(),
                                          [](const QueueHead& front) { return front.wants_gpu && front.is_waiting; });
  if (somebody_waits) return;
  // Gives running elastic jobs one more task each in turn, so that no job takes all that is free.
  std::vector<Growth> growths;
  for (const JobId id : state_.elastic) growths.push_back({id, {}});
  std::vector<Growth*> open;
  for (Growth& growth : growths) open.push_back(&growth);
  while (!open.empty()) {
    std::erase_if(open, [&](Growth* growth) {
      const std::optional<TaskPlacement> placed = GrowByOne(growth->job);
      if (placed) growth->placements.push_back(*placed);
      return !placed;
    });
  }
  for (Growth& growth : growths) {
    if (!growth.placements.empty()) plan_.growths.push_back(std::move(growth));
  }
}

std::optional<TaskPlacement> SchedulingCycle::GrowByOne(JobId id) {
  Run& run = state_.running.at(id);
  if (run.is_leaving || !run.leaving.empty()) return std::nullopt;
  const JobClass& job_class = state_.classes[run.job_class];
  const ResourceRequest& request = state_.requests[job_class.key.request];
  for (std::size_t group = 0; group < request.groups.size(); ++group) {
    const auto has = std::count_if(run.placements.begin(), run.placements.end(),
                                   [&](const TaskPlacement& placed) { return placed.group == group; });
    if (has >= request.groups[group].most) continue;
    const std::int64_t parts = request.groups[group].alternatives.front().gpu_parts();
    if (parts > RoomToGrow(state_, job_class.key.caps)) continue;
    if (state_.teams.has_rules()) {
      const KeptOfTeams kept = KeptByTeam(state_, run.end, IsAnybody);
      if (!TeamsHaveRoom(state_.teams, job_class.key.team, job_class.is_firm(), parts, kept)) continue;
    }
    std::vector<NodeIndex> beside;
    if (request.locality == Locality::kNode && request.requires_locality) beside.push_back(run.placements.front().node);
    std::optional<TaskPlacement> placed;
    {
      Placer placing(state_, now_, now_);
      placed = placing.FindOne(request, group, run, beside);
    }
    if (!placed) continue;
    state_.TakePlacement(id, run, *placed);
    run.placements.push_back(*placed);
    state_.CountStart(job_class, UseOf(request, *placed), 0, now_);
    if (!state_.nodes[placed->node].reserved.empty()) RefitReserved(state_, placed->node, now_);
    return placed;
  }
  return std::nullopt;
}

}  // namespace divvy::core
