#include "engine/core/state/state.h"

#include <algorithm>
#include <utility>

namespace divvy::core {

void ClusterState::MakeFleet() {
  if (fleet) return;
  if (!scorer) scorer = std::make_shared<placement::AnyRoom>();
  std::vector<NodeState> states;
  states.reserve(nodes.size());
  for (const Node& node : nodes) states.push_back(node.state);
  fleet.emplace(std::move(states), scorer);
  for (const NodeIndex node : held) Show(node);
  for (const NodeIndex node : mixed) Show(node);
}

NodeState ClusterState::EmptyState(const NodeFacts& facts) {
  NodeState state = placement::MakeNode(facts.cpu_milli, facts.memory_mib, facts.gpus, facts.node_class);
  for (std::size_t gpu = 0; gpu < facts.gpu_memory_mib.size(); ++gpu) {
    state.rooms()[gpu].memory_free = facts.gpu_memory_mib[gpu];
  }
  placement::MakeSliceable(state, facts.sliceable, facts.only_sliced);
  return state;
}

// Recomputes the free room of a node from its placements.
void ClusterState::Rebuild(NodeIndex index) {
  Node& node = nodes[index];
  NodeState state = EmptyState(node.facts);
  state.carved = node.carved;
  for (const RunningTask& placed : node.placements) placement::Take(state, placed.shape, placed.place);
  placement::Block(state, node.accepts ? node.blocked : GpuSet::FirstN(node.facts.gpus));
  // A node that takes no work gets -1 free CPUs and memory: with 0, a job that requests none would fit.
  if (!node.accepts) state.cpu_free = state.memory_free = -1;
  node.state = state;
  Show(index);
}

void ClusterState::Show(NodeIndex index) {
  if (!fleet) return;
  const Node& node = nodes[index];
  if (node.reserved.empty() && !node.is_mixed()) {
    fleet->Set(index, node.state);
    return;
  }
  NodeState hidden = node.state;
  placement::Block(hidden, GpuSet::FirstN(node.facts.gpus));
  hidden.cpu_free = hidden.memory_free = -1;
  fleet->Set(index, hidden);
}

void ClusterState::Grow(NodeIndex node) {
  if (nodes[node].has_grown) return;
  nodes[node].has_grown = true;
  grown.push_back(node);
}

void ClusterState::Freshen(ClassIndex index) {
  JobClass& job_class = classes[index];
  if (job_class.is_fresh || job_class.queue.empty()) return;
  job_class.is_fresh = true;
  fresh.push_back(index);
}

void ClusterState::FreshenAll() {
  for (ClassIndex index = 0; index < classes.size(); ++index) {
    Freshen(index);
    stale_heads.push_back(index);  // Its key may have changed.
  }
  must_find_head = true;
  preempt_epoch += 1;
  for (ReservationSlot& slot : reservations) slot.is_stale = true;
}

ClassIndex ClusterState::ClassOf(const Job& job) {
  ClassKey key{job.request, job.team, job.user, job.limit, job.predicted, job.caps, job.preemptible};
  const auto [at, is_new] = class_index.try_emplace(std::move(key), static_cast<ClassIndex>(classes.size()));
  if (is_new) {
    JobClass job_class;
    job_class.key = at->first;
    job_class.least_parts = LeastGpuParts(requests[job.request]);
    job_class.wants_gpu = WantsGpu(requests[job.request]);
    QueueHead front;
    front.wants_gpu = job_class.wants_gpu;
    front.team = job.team;
    front.pool = requests[job.request].pool;
    front.is_plain =
        requests[job.request].groups.size() == 1 && requests[job.request].groups.front().alternatives.size() == 1;
    front.shape = requests[job.request].groups.front().alternatives.front();
    queue_heads.push_back(front);
    keys.emplace_back();
    classes.push_back(std::move(job_class));
  }
  return at->second;
}

Standing ClusterState::StandingOf(ClassIndex index, const Place& place) const {
  const JobClass& job_class = classes[index];
  const Duration predicted = job_class.key.predicted > Duration(0) ? job_class.key.predicted : job_class.key.limit;
  const TeamIndex team = job_class.key.team;
  const std::size_t at = TeamHeadOf(index);
  const bool has_front = at < team_heads.size() && team_heads[at].is_set;
  const std::int64_t front = has_front ? team_heads[at].parts : job_class.least_parts;
  return {place, job_class.least_parts, predicted, team, front, PoolOf(index), job_class.key.limit > Duration(0)};
}

Key ClusterState::KeyAt(ClassIndex index, const Place& place, Time now) const {
  return KeyOf(RulesOf(index), teams, StandingOf(index, place), now);
}

bool ClusterState::IsAnyFair() const {
  return std::any_of(pools.begin(), pools.end(),
                     [](const PoolRules& pool) { return pool.order == QueuePolicy::kFair; });
}

// Finds the next job of each team. Teams are compared by it, so that all jobs of a team have one position among the
// teams.
void ClusterState::FindTeamHeads(Time now) {
  constexpr ClassIndex kNone = ~ClassIndex{0};
  std::vector<ClassIndex> first(pools.size() * teams.size(), kNone);
  const auto is_before = [&](ClassIndex a, ClassIndex b) {
    const auto& one = keys[a].rank;
    const auto& other = keys[b].rank;
    constexpr std::size_t kSame = kPoolRanks + kTeamRanks;
    return std::lexicographical_compare(one.begin() + kSame, one.end(), other.begin() + kSame, other.end());
  };
  for (ClassIndex index = 0; index < queue_heads.size(); ++index) {
    if (!queue_heads[index].is_waiting || !IsFair(index)) continue;
    ClassIndex& known = first[TeamHeadOf(index)];
    if (known == kNone || is_before(index, known)) known = index;
  }
  team_heads.assign(first.size(), {});
  for (std::size_t at = 0; at < first.size(); ++at) {
    if (first[at] == kNone) continue;
    TeamHead& front = team_heads[at];
    front.is_set = true;
    front.parts = classes[first[at]].least_parts;
    RankTeam(teams, classes[first[at]].key.team, front.parts, now, front.rank.data());
  }
}

void ClusterState::HeadChanged(ClassIndex index, Time now) {
  JobClass& job_class = classes[index];
  if (job_class.queue.empty()) return;
  const Place& place = job_class.queue.At(job_class.queue.begin()).place;
  keys[index] = KeyAt(index, place, now);
  queue_heads[index].since = place.since;
  // When the next job of the class escalates: it may then get a reservation and pass others.
  job_class.head_changes_at = kNever;
  const PoolRules& own = RulesOf(index);
  const auto changes_at = [&](Time at) {
    if (at <= now) return;
    job_class.head_changes_at = std::min(job_class.head_changes_at, at);
    next_change = std::min(next_change, at);
  };
  if (job_class.wants_gpu) changes_at(AddSaturating(place.since, kWaitsUnsurelyAfter));
  if (own.order == QueuePolicy::kShortest) changes_at(ShortestEscalatesAt(own, StandingOf(index, place)));
  if (own.escalate_after <= Duration(0)) return;
  const Place young = {now - own.escalate_after + Duration(1), JobId(0), place.priority};
  const ClassQueue::Position at = job_class.queue.LowerBound(young);
  if (job_class.queue.IsEnd(at) || job_class.queue.At(at).place.priority != place.priority) return;
  changes_at(EscalatesAt(own, job_class.queue.At(at).place.since));
}

void ClusterState::Enqueue(Waiting& entry) {
  JobClass& job_class = classes[entry.job_class];
  const bool was_empty = job_class.queue.empty();
  const bool is_first = was_empty || entry.place < job_class.queue.At(job_class.queue.begin()).place;
  job_class.queue.Insert(entry.place, entry.count);
  entry.lane = Waiting::Lane::kReady;
  teams.AddWaiting(job_class.key.team, job_class.least_parts * entry.count);
  preempt_epoch += 1;
  // If an equal job before this one could not start, this one cannot start either.
  queue_heads[entry.job_class].is_waiting = true;
  if (is_first) {
    stale_heads.push_back(entry.job_class);
    Freshen(entry.job_class);
  } else {
    next_change = std::min(next_change, EscalatesAt(RulesOf(entry.job_class), entry.place.since));
  }
  if (was_empty) {
    for (const CapIndex cap : job_class.key.caps) caps[cap].classes.insert(entry.job_class);
  }
}

void ClusterState::Dequeue(JobId id, const Waiting& entry) {
  switch (entry.lane) {
    case Waiting::Lane::kParked:
      return;
    case Waiting::Lane::kDated:
      dated.erase({entry.place.since, id});
      return;
    case Waiting::Lane::kReady:
      break;
  }
  JobClass& job_class = classes[entry.job_class];
  const bool was_first = job_class.queue.At(job_class.queue.begin()).place.id == id;
  job_class.queue.Erase(entry.place);
  teams.AddWaiting(job_class.key.team, -job_class.least_parts * entry.count);
  if (job_class.queue.empty()) {
    queue_heads[entry.job_class].is_waiting = false;
    for (const CapIndex cap : job_class.key.caps) caps[cap].classes.erase(entry.job_class);
  } else if (was_first) {
    stale_heads.push_back(entry.job_class);
  }
  if (heads[HeadOf(entry.job_class)] == id) must_find_head = true;
  for (std::size_t i = 0; i < reservations.size(); ++i) {
    if (reservations[i].reservation.entry != id) continue;
    DropReservation(i);
    break;
  }
}

}  // namespace divvy::core
