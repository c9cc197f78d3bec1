#include "engine/core/explain/explain.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/explain/explain_blockers.h"
#include "engine/core/explain/explain_change.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/place/explain_ahead.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {
namespace {

std::string TeamText(const Teams& teams, TeamIndex team) {
  if (team == kRootTeam) return "";
  const TeamSpec& spec = teams.spec(team);
  const bool is_below = spec.quota_parts != kNoBound && teams.running(team) < spec.quota_parts;
  const std::int64_t running = teams.running(team), worth = teams.worth(team);
  const std::string by_speed = worth == running ? "" : " (worth " + GpuText(worth) + " by speed)";
  return "team " + spec.name + " runs " + GpuText(running) + by_speed + " of a share of " +
         GpuText(teams.FairShare(team)) + (is_below ? ", below its quota" : "") + ", ";
}

// Describes what the queue policy compares.
std::string KeyText(const ClusterState& state, const Seeker& seeker, Time now) {
  const PoolRules& rules = state.pools[seeker.request.pool];
  const Place& place = seeker.place;
  std::string text = rules.order == QueuePolicy::kFair ? TeamText(state.teams, seeker.key.team) : "";
  text += "priority " + std::to_string(place.priority);
  const bool is_sized = rules.order == QueuePolicy::kSmallFirst || rules.order == QueuePolicy::kFair;
  if (is_sized && IsEscalated(rules, place.since, now)) text += ", escalated";
  if (rules.order != QueuePolicy::kFifo) text += ", " + GpuText(LeastGpuParts(seeker.request));
  if (rules.order == QueuePolicy::kShortest) {
    const Duration length = seeker.key.predicted > Duration(0) ? seeker.key.predicted : seeker.key.limit;
    text += length > Duration(0)
                ? " for " + DurationText(length) + (seeker.key.predicted > Duration(0) ? " by prediction" : " at most")
                : ", of unknown length";
  }
  if (place.since <= now) text += ", waiting " + DurationText(now - place.since);
  return text;
}

// Counts the next `members` elements of the job's own array as ahead of the element in question, too. In its job class
// they come directly after the others that are ahead.
void AddOwn(const ClusterState& state, const Waiting& waiting, std::uint64_t members, Ahead& ahead) {
  const auto own = std::ranges::find(ahead.parts, waiting.job_class, &Ahead::Part::job_class);
  if (own != ahead.parts.end()) own->members += members;
  else ahead.parts.push_back({waiting.job_class, members});
  ahead.members += members;
  ahead.own = members;
  ahead.gpu_parts += static_cast<std::int64_t>(members) * state.classes[waiting.job_class].least_parts;
}

bool HasKind(const std::vector<Blocker>& blockers, BlockerKind kind) {
  return std::ranges::any_of(blockers, [kind](const Blocker& blocker) { return blocker.kind == kind; });
}

// Turns the estimate for the next element of the array into one for the element behind `members` others; the result is
// never earlier.
void FollowOwn(JobPerspective& perspective, Ahead ahead, const Waiting& waiting, std::uint64_t members,
               const SpreadOf& spread, Explanation& answer) {
  Estimate& start = answer.start;
  start.is_guaranteed = false;
  if (start.typical == kNever) return;
  if (!answer.is_queued) {  // Its begin time has not come.
    start.latest = kNever;
    start.basis = "the begin time of its array; other elements go first";
    return;
  }
  AddOwn(perspective.state(), waiting, members, ahead);
  const Estimate next = std::exchange(start, EstimateStart(perspective, ahead, spread));
  start.typical = std::max(start.typical, next.typical);
  start.latest = std::max(start.latest, next.latest);
}

}  // namespace

Explanation Explain(const Cluster& cluster, JobId entry, Time now, const Names& names, const SpreadOf& spread,
                    bool seeks_change, std::uint64_t members_before) {
  Explanation answer;
  // A JobPerspective removes reserved capacity temporarily and restores it: the cluster is the same before and after.
  auto& state = const_cast<ClusterState&>(cluster.state());
  const auto at = state.waiting.find(entry);
  if (at == state.waiting.end()) return answer;
  const Waiting& waiting = at->second;
  const Seeker seeker = SeekerOf(state, entry);
  answer.is_waiting = true;
  answer.is_queued = waiting.lane == Waiting::Lane::kReady;
  answer.key = KeyText(state, seeker, now);
  const bool is_ahead = waiting.lane == Waiting::Lane::kDated && seeker.place.since > now;
  Ahead ahead;
  {
    JobPerspective perspective(state, seeker, now);
    ahead = CountAhead(state, perspective.order(), now);
    members_before = std::min<std::uint64_t>(members_before, waiting.count - 1);
    answer.members_before = members_before;
    answer.blockers = FindBlockers(perspective, names);
    if (answer.is_queued) {
      answer.position = ahead.members + members_before + 1;
      answer.ahead_parts = ahead.gpu_parts + static_cast<std::int64_t>(members_before) * LeastGpuParts(seeker.request);
    }
    if (waiting.lane == Waiting::Lane::kParked) {
      answer.start.basis = "no estimate: it is not in the queue";
      return answer;
    }
    const bool is_next = members_before == 0;
    if (is_next && answer.blockers.empty()) {
      answer.start = {now, now, now, false, "it starts now"};
      return answer;
    }
    const bool is_one_node = state.nodes.size() == 1;
    if (HasKind(answer.blockers, BlockerKind::kImpossible)) {
      answer.start.basis = is_one_node ? "never on this server as it is" : "never on this cluster as it is";
    } else if (HasKind(answer.blockers, BlockerKind::kUnusable)) {
      answer.start.basis = "no estimate: not enough of what it needs is in service";
    } else {
      answer.start =
          answer.blockers.empty() ? Estimate{now, now, now, false, ""} : EstimateStart(perspective, ahead, spread);
      if (is_ahead && answer.start.typical <= seeker.place.since) {
        answer.start = {seeker.place.since, seeker.place.since, answer.start.latest, false, "its begin time"};
        if (answer.start.latest < seeker.place.since) answer.start.latest = seeker.place.since;
      }
      if (!is_next) FollowOwn(perspective, std::move(ahead), waiting, members_before, spread, answer);
    }
  }
  if (answer.is_queued && seeks_change && !answer.blockers.empty())
    answer.change = FindChange(cluster, seeker, now, names);
  return answer;
}

}  // namespace divvy::core
