#include "engine/core/state/teams.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

namespace divvy::core {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Teams::Reset(std::vector<TeamSpec> specs) {
  teams_.clear();
  teams_.emplace_back();
  for (TeamSpec& spec : specs) {
    const auto index = static_cast<TeamIndex>(teams_.size());
    teams_[spec.parent].children.push_back(index);
    teams_.emplace_back();
    teams_.back().spec = std::move(spec);
    teams_.back().usage = DecayedUsage(half_life_);
  }
  for (const Team& parent : teams_) {
    std::set<int, std::greater<>> priorities;
    for (const TeamIndex child : parent.children) priorities.insert(teams_[child].spec.priority);
    for (const TeamIndex child : parent.children)
      teams_[child].rank = std::distance(priorities.begin(), priorities.find(teams_[child].spec.priority));
  }
  is_divided_ = false;
}

void Teams::SetCapacity(std::int64_t gpu_parts) {
  capacity_ = gpu_parts;
  is_divided_ = false;
}

void Teams::AddRunning(TeamIndex team, GpuUse use, bool is_firm, Time now) {
  is_divided_ = false;
  for (TeamIndex at = team;; at = teams_[at].spec.parent) {
    Team& one = teams_[at];
    if (one.counted_until != kNoTime && now > one.counted_until) {
      one.usage.Add(static_cast<double>(one.worth) * Seconds(now - one.counted_until), now);
    }
    one.counted_until = std::max(one.counted_until, now);
    one.running += use.parts;
    one.worth += use.worth;
    if (is_firm) one.firm += use.parts;
    if (at == kRootTeam) return;
  }
}

void Teams::AddWaiting(TeamIndex team, std::int64_t parts) {
  is_divided_ = false;
  for (TeamIndex at = team;; at = teams_[at].spec.parent) {
    teams_[at].waiting += parts;
    if (at == kRootTeam) return;
  }
}

double Teams::usage(TeamIndex team, Time now) const {
  const Team& one = teams_[team];
  double usage = one.usage.At(now);
  if (one.counted_until != kNoTime && now > one.counted_until) {
    usage += static_cast<double>(one.worth) * Seconds(now - one.counted_until);
  }
  return usage;
}

void Teams::SetUsage(TeamIndex team, double usage, Time at) {
  Team& one = teams_[team];
  one.usage = DecayedUsage(half_life_);
  one.usage.Add(usage, at);
  one.counted_until = at;
}

TeamIndex Teams::OverLimit(TeamIndex team, std::int64_t parts, const TeamUse& kept) const {
  for (TeamIndex at = team; at != kRootTeam; at = teams_[at].spec.parent) {
    const std::int64_t limit = teams_[at].spec.limit_parts;
    const std::int64_t held = teams_[at].running + (at < kept.size() ? kept[at] : 0);
    if (limit != kNoBound && held + parts > limit) return at;
  }
  return kRootTeam;
}

TeamIndex Teams::OverFirmQuota(TeamIndex team, std::int64_t parts, const TeamUse& kept) const {
  for (TeamIndex at = team; at != kRootTeam; at = teams_[at].spec.parent) {
    const std::int64_t quota = teams_[at].spec.quota_parts;
    const std::int64_t held = teams_[at].firm + (at < kept.size() ? kept[at] : 0);
    if (quota != kNoBound && held + parts > quota) return at;
  }
  return kRootTeam;
}

bool Teams::ShareABound(TeamIndex a, TeamIndex b) const {
  const auto is_within = [&](TeamIndex team, TeamIndex above) {
    while (team != kRootTeam && team != above) team = teams_[team].spec.parent;
    return team == above;
  };
  for (; a != kRootTeam; a = teams_[a].spec.parent) {
    const TeamSpec& spec = teams_[a].spec;
    if ((spec.limit_parts != kNoBound || spec.quota_parts != kNoBound) && is_within(b, a)) return true;
  }
  return false;
}

void Teams::DivideShares() const {
  if (is_divided_) return;
  is_divided_ = true;
  teams_[kRootTeam].share = capacity_;
  // Parents precede their children, so one pass divides level by level.
  for (const Team& parent : teams_) {
    if (parent.children.empty()) continue;
    std::vector<TeamDemand> demands;
    demands.reserve(parent.children.size());
    for (const TeamIndex child : parent.children) {
      const Team& team = teams_[child];
      demands.push_back({team.running + team.waiting, team.spec.quota_parts, team.spec.limit_parts, team.spec.weight,
                         team.spec.priority});
    }
    const std::vector<std::int64_t> parts = Divide(parent.share, demands, placement::kGpuParts);
    for (std::size_t i = 0; i < parts.size(); ++i) teams_[parent.children[i]].share = parts[i];
  }
}

std::int64_t Teams::FairShare(TeamIndex team) const {
  DivideShares();
  return teams_[team].share;
}

std::vector<TeamIndex> Teams::PathOf(TeamIndex team) const {
  std::vector<TeamIndex> path;
  for (TeamIndex at = team; at != kRootTeam; at = teams_[at].spec.parent) path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

std::int64_t Teams::Satisfaction(TeamIndex team, std::int64_t parts) const {
  DivideShares();
  const Team& one = teams_[team];
  const bool has_quota = one.spec.quota_parts != kNoBound;
  const std::int64_t base = std::max<std::int64_t>({one.share, has_quota ? one.spec.quota_parts : 0, 1});
  // Packs everything into one number: 24 bits for the ratio, 6 for the priority, 20 for the next ratio, 12 for the
  // size.
  const auto bits = [](std::int64_t value, int count) { return std::min(value, (std::int64_t{1} << count) - 1); };
  const std::int64_t met = has_quota && one.running < one.spec.quota_parts ? 0 : std::int64_t{1} << 62;
  return met + (bits(one.worth * 10'000 / base, 24) << 38) + (bits(one.rank, 6) << 32) +
         (bits((one.worth + parts) * 10'000 / base, 20) << 12) + bits(parts / (placement::kGpuParts / 10), 12);
}

}  // namespace divvy::core
