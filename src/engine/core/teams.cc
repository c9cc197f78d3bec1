#include "engine/core/teams.h"

#include <algorithm>

namespace divvy::core {
namespace {

constexpr std::int64_t kGpu = placement::kGpuMilli;

// Whole GPUs that hold `milli`.
std::int64_t Gpus(std::int64_t milli) { return milli == kNoBound ? kNoBound : (milli + kGpu - 1) / kGpu; }

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
  is_divided_ = false;
}

void Teams::SetCapacity(std::int64_t gpu_milli) {
  capacity_ = gpu_milli;
  is_divided_ = false;
}

void Teams::AddRunning(TeamIndex team, std::int64_t milli, bool is_firm, Time now) {
  is_divided_ = false;
  for (TeamIndex at = team;; at = teams_[at].spec.parent) {
    Team& one = teams_[at];
    if (one.counted_until != kNoTime && now > one.counted_until) {
      one.usage.Add(static_cast<double>(one.running) * Seconds(now - one.counted_until), now);
    }
    one.counted_until = now;
    one.running += milli;
    if (is_firm) one.firm += milli;
    if (at == kRootTeam) return;
  }
}

void Teams::AddWaiting(TeamIndex team, std::int64_t milli) {
  is_divided_ = false;
  for (TeamIndex at = team;; at = teams_[at].spec.parent) {
    teams_[at].waiting += milli;
    if (at == kRootTeam) return;
  }
}

double Teams::usage(TeamIndex team, Time now) const {
  const Team& one = teams_[team];
  double usage = one.usage.At(now);
  if (one.counted_until != kNoTime && now > one.counted_until) {
    usage += static_cast<double>(one.running) * Seconds(now - one.counted_until);
  }
  return usage;
}

TeamIndex Teams::OverLimit(TeamIndex team, std::int64_t milli) const {
  for (TeamIndex at = team; at != kRootTeam; at = teams_[at].spec.parent) {
    if (teams_[at].spec.limit_milli != kNoBound && teams_[at].running + milli > teams_[at].spec.limit_milli) return at;
  }
  return kRootTeam;
}

TeamIndex Teams::OverFirmQuota(TeamIndex team, std::int64_t milli) const {
  for (TeamIndex at = team; at != kRootTeam; at = teams_[at].spec.parent) {
    if (teams_[at].spec.quota_milli != kNoBound && teams_[at].firm + milli > teams_[at].spec.quota_milli) return at;
  }
  return kRootTeam;
}

void Teams::DivideShares() const {
  if (is_divided_) return;
  is_divided_ = true;
  teams_[kRootTeam].share = capacity_;
  // Parents come before their children, so one sweep divides level by level.
  for (const Team& parent : teams_) {
    if (parent.children.empty()) continue;
    std::vector<Claim> claims;
    claims.reserve(parent.children.size());
    for (const TeamIndex child : parent.children) {
      const Team& team = teams_[child];
      claims.push_back({Gpus(team.running + team.waiting), Gpus(team.spec.quota_milli), Gpus(team.spec.limit_milli),
                        team.spec.weight, team.spec.priority});
    }
    const std::vector<std::int64_t> parts = Divide(parent.share / kGpu, claims);
    for (std::size_t i = 0; i < parts.size(); ++i) teams_[parent.children[i]].share = parts[i] * kGpu;
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

std::int64_t Teams::Satisfaction(TeamIndex team) const {
  DivideShares();
  const Team& one = teams_[team];
  const bool is_below_quota = one.spec.quota_milli == kNoBound ? false : one.running < one.spec.quota_milli;
  const std::int64_t share = std::max<std::int64_t>(one.share, 1);
  const std::int64_t ratio = std::min<std::int64_t>(one.running * 1'000'000 / share, std::int64_t{1} << 40);
  return (is_below_quota ? 0 : std::int64_t{1} << 42) + ratio;
}

}  // namespace divvy::core
