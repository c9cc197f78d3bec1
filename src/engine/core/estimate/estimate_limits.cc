#include "engine/core/estimate/estimate_limits.h"

#include <algorithm>

namespace divvy::core {
namespace {

/// The number of running jobs that are examined to see when a limit has room. If there are more, those that end first.
constexpr std::size_t kMostEnds = 20'000;

}  // namespace

Limits::Limits(const ClusterState& state) : state_(state) {
  const bool is_any = state_.teams.has_rules() || std::any_of(state_.caps.begin(), state_.caps.end(),
                                                              [](const Cap& cap) { return cap.is_bound(); });
  if (!is_any) return;
  wanted_.resize(2 * (state_.caps.size() + state_.teams.size()));
  limits_.resize(wanted_.size(), -1);
}

template <typename Visit>
void Limits::ForEachBound(const ClassKey& key, std::int64_t parts, Visit visit) const {
  for (const CapIndex index : key.caps) {
    const Cap& cap = state_.caps[index];
    if (cap.limit > 0) visit(2 * std::size_t{index}, std::int64_t{1});
    if (cap.parts_limit > 0 && parts > 0) visit(2 * std::size_t{index} + 1, parts);
  }
  if (!state_.teams.has_rules()) return;
  const bool is_firm = key.preemptible == Preemptible::kNever;
  for (TeamIndex team = key.team; team != kRootTeam; team = state_.teams.spec(team).parent) {
    const TeamSpec& spec = state_.teams.spec(team);
    const std::size_t bound = 2 * (state_.caps.size() + team);
    if (spec.limit_parts != kNoBound) visit(bound, parts);
    if (spec.quota_parts != kNoBound && is_firm) visit(bound + 1, parts);
  }
}

std::int64_t Limits::RoomOf(std::size_t bound) const {
  const std::size_t index = bound / 2;
  const bool is_second = bound % 2 == 1;
  if (index < state_.caps.size()) {
    const Cap& cap = state_.caps[index];
    return is_second ? cap.parts_limit - cap.parts : std::int64_t{cap.limit} - cap.running;
  }
  const auto team = static_cast<TeamIndex>(index - state_.caps.size());
  const TeamSpec& spec = state_.teams.spec(team);
  return is_second ? spec.quota_parts - state_.teams.firm(team) : spec.limit_parts - state_.teams.running(team);
}

std::string Limits::NameOf(std::uint32_t limit) const {
  const std::size_t index = bounds_[limit] / 2;
  if (index < state_.caps.size()) return state_.caps[index].name;
  return "team " + state_.teams.spec(static_cast<TeamIndex>(index - state_.caps.size())).name;
}

void Limits::Expect(const ClassKey& key, std::int64_t parts, std::uint64_t members) {
  if (wanted_.empty()) return;
  ForEachBound(key, parts, [&](std::size_t bound, std::int64_t amount) {
    wanted_[bound] += amount * static_cast<std::int64_t>(members);
  });
}

std::vector<Limits::Use> Limits::UsesOf(const ClassKey& key, std::int64_t parts) {
  std::vector<Use> uses;
  if (wanted_.empty()) return uses;
  ForEachBound(key, parts, [&](std::size_t bound, std::int64_t amount) {
    if (wanted_[bound] <= RoomOf(bound)) return;
    if (limits_[bound] < 0) {
      limits_[bound] = static_cast<std::int32_t>(bounds_.size());
      bounds_.push_back(bound);
    }
    uses.push_back({static_cast<std::uint32_t>(limits_[bound]), amount});
  });
  return uses;
}

void Limits::FindHolders() {
  if (bounds_.empty()) return;
  const auto look = [&](const Run& run) {
    ForEachBound(state_.classes[run.job_class].key, state_.PartsOf(run), [&](std::size_t bound, std::int64_t amount) {
      if (limits_[bound] >= 0) held_.push_back({static_cast<std::uint32_t>(limits_[bound]), amount, &run});
    });
  };
  if (state_.running.size() <= kMostEnds) {
    for (const auto& [id, run] : state_.running)
      look(run);  // The order does not matter, because stocks are ordered by
                  // time.
    return;
  }
  std::size_t looked = 0;
  for (const auto& [end, job] : state_.ends) {
    if (++looked > kMostEnds) break;
    look(state_.running.at(job));
  }
}

std::vector<Stock> Limits::Stocks(const EndTimes& ends, Time now) const {
  std::vector<std::vector<Stock::Chunk>> chunks(bounds_.size());
  for (const Held& held : held_) {
    const Time end = ends.Of(*held.run);
    if (end != kNever) chunks[held.limit].push_back({end, held.amount});
  }
  std::vector<Stock> stocks;
  stocks.reserve(bounds_.size());
  for (std::size_t limit = 0; limit < bounds_.size(); ++limit) {
    const std::int64_t room = RoomOf(bounds_[limit]);
    if (room > 0) chunks[limit].push_back({now, room});
    stocks.emplace_back(std::move(chunks[limit]), -room);
  }
  return stocks;
}

const char* WhyNeverAllowed(const ClusterState& state, const ClassKey& key, std::int64_t parts) {
  constexpr const char* kLimit = "never: it asks for more than a limit allows at once";
  const bool is_beyond_a_cap = std::any_of(key.caps.begin(), key.caps.end(), [&](CapIndex index) {
    return state.caps[index].parts_limit > 0 && parts > state.caps[index].parts_limit;
  });
  if (is_beyond_a_cap) return kLimit;
  for (TeamIndex team = key.team; team != kRootTeam; team = state.teams.spec(team).parent) {
    const TeamSpec& spec = state.teams.spec(team);
    if (spec.limit_parts != kNoBound && parts > spec.limit_parts) return kLimit;
    if (spec.quota_parts != kNoBound && parts > spec.quota_parts && key.preemptible == Preemptible::kNever) {
      return "never: it asks for more than its team's quota, and may not borrow";
    }
  }
  return nullptr;
}

bool Share(std::span<const Limits::Use> a, std::span<const Limits::Use> b) {
  return std::any_of(a.begin(), a.end(), [&](const Limits::Use& use) {
    return std::any_of(b.begin(), b.end(), [&](const Limits::Use& other) { return other.limit == use.limit; });
  });
}

}  // namespace divvy::core
