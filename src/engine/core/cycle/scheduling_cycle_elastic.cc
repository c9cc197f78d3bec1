// Gives resources that no waiting job can use to running elastic jobs.
#include <algorithm>
#include <utility>

#include "engine/core/cycle/scheduling_cycle.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/placer.h"

namespace divvy::core {

void SchedulingCycle::GrowElastic() {
  if (state_.elastic.empty()) return;
  const bool somebody_waits = std::any_of(state_.fronts.begin(), state_.fronts.end(),
                                          [](const QueueHead& front) { return front.wants_gpu && front.is_waiting; });
  if (somebody_waits) return;
  // One task per job in turn, so that no job takes all.
  std::vector<Growth> growths;
  for (const JobId id : state_.elastic) growths.push_back({id, {}});
  std::vector<Growth*> open;
  for (Growth& growth : growths) open.push_back(&growth);
  while (!open.empty()) {
    std::erase_if(open, [&](Growth* growth) {
      const std::optional<TaskPlacement> piece = GrowByOne(growth->job);
      if (piece) growth->pieces.push_back(*piece);
      return !piece;
    });
  }
  for (Growth& growth : growths) {
    if (!growth.pieces.empty()) plan_.growths.push_back(std::move(growth));
  }
}

std::optional<TaskPlacement> SchedulingCycle::GrowByOne(JobId id) {
  Run& run = state_.running.at(id);
  if (run.is_leaving || !run.leaving.empty()) return std::nullopt;
  const JobClass& job_class = state_.classes[run.job_class];
  const Ask& ask = state_.asks[job_class.key.ask];
  for (std::size_t group = 0; group < ask.groups.size(); ++group) {
    const auto has = std::count_if(run.pieces.begin(), run.pieces.end(),
                                   [&](const TaskPlacement& piece) { return piece.group == group; });
    if (has >= ask.groups[group].most) continue;
    const std::int64_t parts = ask.groups[group].alternatives.front().gpu_parts();
    if (parts > RoomToGrow(state_, job_class.key.caps)) continue;
    if (state_.teams.has_rules()) {
      const KeptOfTeams kept = KeptByTeam(state_, run.end, IsAnybody);
      if (!TeamsHaveRoom(state_.teams, job_class.key.team, job_class.is_firm(), parts, kept)) continue;
    }
    std::vector<NodeIndex> beside;
    if (ask.together == Locality::kNode && ask.requires_together) beside.push_back(run.pieces.front().node);
    std::optional<TaskPlacement> piece;
    {
      Placer placing(state_, now_, now_);
      piece = placing.FindOne(ask, group, run, beside);
    }
    if (!piece) continue;
    state_.TakePiece(id, run, *piece);
    run.pieces.push_back(*piece);
    state_.CountStart(job_class, UseOf(ask, *piece), 0, now_);
    if (!state_.nodes[piece->node].holds.empty()) RefitHolds(state_, piece->node, now_);
    return piece;
  }
  return std::nullopt;
}

}  // namespace divvy::core
