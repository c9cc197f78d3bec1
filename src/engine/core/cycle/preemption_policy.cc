#include "engine/core/cycle/preemption_policy.h"

#include <algorithm>

namespace divvy::core {

PreemptionPolicy::PreemptionPolicy(const ClusterState& state)
    : state_(state), change_(state.teams.size()), firm_change_(state.teams.size()) {
  for (const JobId id : state.leaving) {
    const Run& run = state.running.at(id);
    const JobClass& job_class = state.classes[run.job_class];
    const std::vector<TaskPlacement>& gone = run.is_leaving ? run.placements : run.leaving;
    for (const TaskPlacement& placed : gone) {
      Add(job_class.key.team, -ShapeOf(state.request_of(run), placed).gpu_parts(), job_class.is_firm());
    }
    // A job that is being moved leaves its old place, but its team then holds the new one, so both cancel out.
    const auto moving = state.moving.find(id);
    if (moving == state.moving.end()) continue;
    for (const TaskPlacement& placed : moving->second.to) {
      Add(job_class.key.team, ShapeOf(state.requests[moving->second.request], placed).gpu_parts(), job_class.is_firm());
    }
  }
  for (const ReservationSlot& slot : state.reservations) {
    if (!slot.reservation.is_nomination) continue;
    const JobClass& job_class = state.classes[slot.job_class];
    Add(job_class.key.team, job_class.least_parts, job_class.is_firm());
  }
}

void PreemptionPolicy::Add(TeamIndex team, std::int64_t parts, bool is_firm) {
  for (TeamIndex at = team;; at = state_.teams.spec(at).parent) {
    change_[at] += parts;
    if (is_firm) firm_change_[at] += parts;
    if (at == kRootTeam) return;
  }
}

std::int64_t PreemptionPolicy::Share(TeamIndex team) const {
  const Teams& teams = state_.teams;
  const std::int64_t quota = teams.spec(team).quota_parts;
  // A team without a quota is guaranteed nothing: it has what the quotas of other teams leave.
  if (quota == kNoBound) return teams.FairShare(team);
  return std::max(teams.FairShare(team), std::min(quota, teams.running(team) + teams.waiting(team)));
}

bool PreemptionPolicy::IsAbove(TeamIndex ancestor, TeamIndex team) const {
  for (TeamIndex at = team;; at = state_.teams.spec(at).parent) {
    if (at == ancestor) return true;
    if (at == kRootTeam) return false;
  }
}

// The ancestor of `team` just below the lowest common ancestor with `other`.
TeamIndex PreemptionPolicy::LevelOf(TeamIndex team, TeamIndex other) const {
  while (!IsAbove(state_.teams.spec(team).parent, other)) team = state_.teams.spec(team).parent;
  return team;
}

std::int64_t PreemptionPolicy::Saturation(ClassIndex preemptor, TeamIndex victim) const {
  const TeamIndex level = LevelOf(victim, state_.classes[preemptor].key.team);
  return Held(level) * 1000 / std::max<std::int64_t>(Share(level), 1);
}

bool PreemptionPolicy::FitsItsTeams(ClassIndex preemptor, const std::vector<Loss>& losses) const {
  if (!state_.teams.has_rules()) return true;
  const JobClass& job_class = state_.classes[preemptor];
  for (TeamIndex at = job_class.key.team; at != kRootTeam; at = state_.teams.spec(at).parent) {
    const TeamSpec& spec = state_.teams.spec(at);
    std::int64_t freed = 0;
    for (const Loss& loss : losses) freed += IsAbove(at, loss.team) ? loss.parts : 0;
    const std::int64_t after = Held(at) - freed + job_class.least_parts;
    if (spec.limit_parts != kNoBound && after > spec.limit_parts) return false;
    // Only jobs that may not be preempted count against the quota here, and victims are none of these. So victims do
    // not make room in it.
    if (job_class.is_firm() && spec.quota_parts != kNoBound &&
        state_.teams.firm(at) + firm_change_[at] + job_class.least_parts > spec.quota_parts) {
      return false;
    }
  }
  return true;
}

bool PreemptionPolicy::IsReclaimable(ClassIndex preemptor, TeamIndex victim) const {
  const JobClass& job_class = state_.classes[preemptor];
  const TeamIndex team = job_class.key.team;
  // A job without a team has no entitlement, and a job without GPUs has no share of them.
  if (team == kRootTeam || victim == kRootTeam || job_class.least_parts == 0 || IsAbove(team, victim) ||
      IsAbove(victim, team)) {
    return false;
  }
  const TeamIndex level = LevelOf(victim, team);
  return Held(level) > std::min(Share(level), state_.teams.spec(level).quota_parts);
}

bool PreemptionPolicy::MayReclaim(ClassIndex preemptor, const std::vector<Loss>& losses) const {
  if (!FitsItsTeams(preemptor, losses)) return false;
  const JobClass& job_class = state_.classes[preemptor];
  // The loss of each team. A victim's loss counts for that of its teams which is just below the common ancestor with
  // the preemptor's team.
  struct Side {
    TeamIndex preemptor = kRootTeam;
    std::int64_t lost = 0;
    std::int64_t largest = 0;
  };
  std::map<TeamIndex, Side> sides;
  for (const Loss& loss : losses) {
    Side& side = sides[LevelOf(loss.team, job_class.key.team)];
    side.preemptor = LevelOf(job_class.key.team, loss.team);
    side.lost += loss.parts;
    side.largest = std::max(side.largest, loss.parts);
  }
  const auto after = [&](TeamIndex at) {
    std::int64_t freed = 0;
    for (const Loss& loss : losses) freed += IsAbove(at, loss.team) ? loss.parts : 0;
    return Held(at) - freed + job_class.least_parts;
  };
  for (const auto& [level, side] : sides) {
    // The team must be above its share before its largest victim is taken. So a team can be brought down to its share
    // even if one big job takes it below.
    const std::int64_t before_last = Held(level) - side.lost + side.largest;
    bool is_within = true;
    for (TeamIndex at = job_class.key.team; at != side.preemptor; at = state_.teams.spec(at).parent) {
      is_within = is_within && after(at) <= Share(at);
    }
    const std::int64_t own = after(side.preemptor);
    const bool by_share = is_within && own <= Share(side.preemptor) && before_last > Share(level);
    const bool by_level = is_within && before_last > Share(level) && Share(side.preemptor) > 0 && Share(level) > 0 &&
                          own * Share(level) < (Held(level) - side.lost) * Share(side.preemptor);
    const std::int64_t quota = state_.teams.spec(side.preemptor).quota_parts;
    const bool by_quota = (quota == kNoBound || own <= quota) && state_.teams.spec(level).quota_parts != kNoBound &&
                          before_last > state_.teams.spec(level).quota_parts;
    if (!by_share && !by_quota && !by_level) return false;
  }
  return true;
}

bool PreemptionPolicy::MayPreempt(ClassIndex preemptor, int priority, const std::vector<Loss>& losses) const {
  return std::all_of(losses.begin(), losses.end(), [&](const Loss& loss) { return loss.priority < priority; }) &&
         FitsItsTeams(preemptor, losses);
}

}  // namespace divvy::core
