#include "engine/core/state/cluster.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/state/state.h"

namespace divvy::core {
Cluster::Cluster(Rules rules, Duration usage_half_life) : state_(std::make_unique<State>(rules, usage_half_life)) {
  state_->pools.front() = rules;
}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

Cluster Cluster::Copy() const {
  Cluster copy(state_->rules);
  *copy.state_ = *state_;
  return copy;
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

NodeIndex Cluster::AddNode(NodeFacts facts) {
  State& s = *state_;
  const auto index = static_cast<NodeIndex>(s.nodes.size());
  Node node;
  node.facts = std::move(facts);
  DIVVY_ASSERT(node.facts.gpu_classes.empty() ||
               node.facts.gpu_classes.size() == static_cast<std::size_t>(node.facts.gpus));
  DIVVY_ASSERT(node.facts.gpu_models.empty() || node.facts.gpu_models.size() == node.facts.gpu_classes.size());
  if (node.is_mixed()) s.mixed.push_back(index);
  s.nodes.push_back(std::move(node));
  s.fleet.reset();
  s.usable_epoch += 1;
  s.room_epoch += 1;
  s.must_find_head = true;
  s.Rebuild(index);
  s.Grow(index);
  std::int64_t parts = 0;
  for (const Node& one : s.nodes) parts += std::int64_t{one.facts.gpus} * placement::kGpuParts;
  s.teams.SetCapacity(parts);
  return index;
}

void Cluster::SetUsable(NodeIndex node, GpuSet usable, bool accepts) {
  State& s = *state_;
  s.nodes[node].blocked = GpuSet::FirstN(s.nodes[node].facts.gpus) - usable;
  s.nodes[node].accepts = accepts;
  s.preempt_epoch += 1;
  s.usable_epoch += 1;
  s.room_epoch += 1;
  s.must_find_head = true;
  s.Rebuild(node);
  s.Grow(node);
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
}

void Cluster::SetScorer(std::shared_ptr<const placement::Scorer> scorer) {
  state_->scorer = std::move(scorer);
  if (state_->fleet) state_->fleet->SetScorer(state_->scorer);
}

PoolIndex Cluster::AddPool(PoolRules rules) {
  state_->pools.push_back(rules);
  state_->heads.resize(2 * state_->pools.size());
  state_->team_heads.clear();
  return static_cast<PoolIndex>(state_->pools.size() - 1);
}

void Cluster::SetPool(PoolIndex pool, PoolRules rules) {
  DIVVY_ASSERT(pool != kWholeCluster);
  state_->pools[pool] = rules;
  SetRules(state_->rules);
}

void Cluster::SetRules(Rules rules) {
  state_->rules = rules;
  state_->pools.front() = rules;
  for (auto& [id, run] : state_->running) state_->Expect(run, EndOf(rules, run, run.started));
  // New rules may grant reservations to other jobs, so all are dropped. Nominations stay.
  for (std::size_t i = state_->reservations.size(); i-- > 0;) {
    if (!state_->reservations[i].reservation.is_nomination) state_->DropReservation(i);
  }
  state_->room_epoch += 1;
  state_->FreshenAll();
}

void Cluster::State::MakeFleet() {
  if (fleet) return;
  if (!scorer) scorer = std::make_shared<placement::AnyRoom>();
  std::vector<NodeState> states;
  states.reserve(nodes.size());
  for (const Node& node : nodes) states.push_back(node.state);
  fleet.emplace(std::move(states), scorer);
  for (const NodeIndex node : held) Show(node);
  for (const NodeIndex node : mixed) Show(node);
}

NodeState Cluster::State::EmptyState(const NodeFacts& facts) {
  NodeState state = placement::MakeNode(facts.cpu_milli, facts.memory_mib, facts.gpus, facts.node_class);
  for (std::size_t gpu = 0; gpu < facts.gpu_memory_mib.size(); ++gpu) {
    state.rooms()[gpu].memory_free = facts.gpu_memory_mib[gpu];
  }
  placement::MakeSliceable(state, facts.sliceable, facts.only_sliced);
  return state;
}

// Recomputes the free room of a node from its placements.
void Cluster::State::Rebuild(NodeIndex index) {
  Node& node = nodes[index];
  NodeState state = EmptyState(node.facts);
  state.carved = node.carved;
  for (const RunningTask& placed : node.placements) placement::Take(state, placed.shape, placed.place);
  placement::Block(state, node.accepts ? node.blocked : GpuSet::FirstN(node.facts.gpus));
  if (!node.accepts) state.cpu_free = state.memory_free = 0;
  node.state = state;
  Show(index);
}

void Cluster::State::Show(NodeIndex index) {
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

void Cluster::State::Grow(NodeIndex node) {
  if (nodes[node].has_grown) return;
  nodes[node].has_grown = true;
  grown.push_back(node);
}

// --- Teams and caps -------------------------------------------------------------------------------------------------

Teams& Cluster::teams() { return state_->teams; }
const Teams& Cluster::teams() const { return state_->teams; }

void Cluster::RecountTeams(Time now) {
  State& s = *state_;
  std::int64_t capacity = 0;
  for (const Node& node : s.nodes) capacity += std::int64_t{node.facts.gpus} * placement::kGpuParts;
  s.teams.SetCapacity(capacity);
  for (const auto& [id, run] : s.running) {
    const JobClass& job_class = s.classes[run.job_class];
    s.teams.AddRunning(job_class.key.team, s.UseOf(run), job_class.is_firm(), now);
  }
  for (const auto& [id, entry] : s.waiting) {
    if (entry.lane != Waiting::Lane::kReady) continue;
    const JobClass& job_class = s.classes[entry.job_class];
    s.teams.AddWaiting(job_class.key.team, job_class.least_parts * entry.count);
  }
  s.team_heads.clear();  // Queries before the next decision use each job's own request instead.
  s.FreshenAll();
}

CapIndex Cluster::AddCap(std::string name, int limit, std::int64_t parts_limit) {
  state_->caps.push_back({std::move(name), limit, 0, {}, parts_limit, 0});
  return static_cast<CapIndex>(state_->caps.size() - 1);
}

void Cluster::SetCap(CapIndex cap, int limit, std::int64_t parts_limit) {
  state_->caps[cap].limit = limit;
  state_->caps[cap].parts_limit = parts_limit;
  for (const ClassIndex index : state_->caps[cap].classes) state_->Freshen(index);
  state_->preempt_epoch += 1;
}

void Cluster::State::Freshen(ClassIndex index) {
  JobClass& job_class = classes[index];
  if (job_class.is_fresh || job_class.queue.empty()) return;
  job_class.is_fresh = true;
  fresh.push_back(index);
}

void Cluster::State::FreshenAll() {
  for (ClassIndex index = 0; index < classes.size(); ++index) {
    Freshen(index);
    stale_heads.push_back(index);  // Its key may have changed.
  }
  must_find_head = true;
  preempt_epoch += 1;
  for (ReservationSlot& slot : reservations) slot.is_stale = true;
}

// --- Waiting --------------------------------------------------------------------------------------------------------

RequestIndex Cluster::Know(const ResourceRequest& request) {
  State& s = *state_;
  const auto [at, is_new] = s.request_index.try_emplace(request, static_cast<RequestIndex>(s.requests.size()));
  if (is_new) s.requests.push_back(request);
  return at->second;
}

ClassIndex Cluster::State::ClassOf(const Job& job) {
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

Standing Cluster::State::StandingOf(ClassIndex index, const Place& place) const {
  const JobClass& job_class = classes[index];
  const Duration predicted = job_class.key.predicted > Duration(0) ? job_class.key.predicted : job_class.key.limit;
  const TeamIndex team = job_class.key.team;
  const std::size_t at = TeamHeadOf(index);
  const bool has_front = at < team_heads.size() && team_heads[at].is_set;
  const std::int64_t front = has_front ? team_heads[at].parts : job_class.least_parts;
  return {place, job_class.least_parts, predicted, team, front, PoolOf(index)};
}

Key Cluster::State::KeyAt(ClassIndex index, const Place& place, Time now) const {
  return KeyOf(RulesOf(index), teams, StandingOf(index, place), now);
}

bool Cluster::State::IsAnyFair() const {
  return std::any_of(pools.begin(), pools.end(), [](const PoolRules& pool) { return pool.order == Order::kFair; });
}

// Teams are compared by the job that each would start next, so that all jobs of a team have one position among teams.
void Cluster::State::FindTeamHeads(Time now) {
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

void Cluster::State::HeadChanged(ClassIndex index, Time now) {
  JobClass& job_class = classes[index];
  if (job_class.queue.empty()) return;
  const Place& place = job_class.queue.At(job_class.queue.begin()).place;
  keys[index] = KeyAt(index, place, now);
  queue_heads[index].since = place.since;
  // When the next job of the class escalates: it may then get a reservation and pass others.
  job_class.head_changes_at = kNever;
  const PoolRules& own = RulesOf(index);
  if (own.escalate_after <= Duration(0)) return;
  const Place young = {now - own.escalate_after + Duration(1), JobId(0), place.priority};
  const ClassQueue::Position at = job_class.queue.LowerBound(young);
  if (job_class.queue.IsEnd(at) || job_class.queue.At(at).place.priority != place.priority) return;
  job_class.head_changes_at = EscalatesAt(own, job_class.queue.At(at).place.since);
  next_change = std::min(next_change, job_class.head_changes_at);
}

void Cluster::State::Enqueue(Waiting& entry) {
  JobClass& job_class = classes[entry.job_class];
  const bool was_empty = job_class.queue.empty();
  const bool is_first = was_empty || entry.place < job_class.queue.At(job_class.queue.begin()).place;
  job_class.queue.Insert(entry.place, entry.count);
  entry.lane = Waiting::Lane::kReady;
  teams.AddWaiting(job_class.key.team, job_class.least_parts * entry.count);
  preempt_epoch += 1;
  // Behind an equal job that could not start, no other can start.
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

void Cluster::State::Dequeue(JobId id, const Waiting& entry) {
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

void Cluster::Put(Job job, Time now) {
  State& s = *state_;
  std::uint32_t named = 0;
  if (const auto old = s.waiting.find(job.id); old != s.waiting.end()) {
    named = old->second.named;
    Remove(job.id, now);
  }
  Waiting entry;
  entry.job_class = s.ClassOf(job);
  entry.count = job.count;
  entry.named = named;
  entry.place = {std::max(job.queued_at, job.begin), job.id, job.priority};
  s.waiting_count += job.count;
  if (job.is_parked) {
    entry.lane = Waiting::Lane::kParked;
  } else if (job.begin > now) {
    entry.lane = Waiting::Lane::kDated;
    s.dated.insert({entry.place.since, job.id});
  } else {
    s.Enqueue(entry);
  }
  s.waiting.emplace(job.id, entry);
  if (s.requests[job.request].placement == PlacementStrategy::kRandom) s.draws[job.id] = job.draw;
  if (!s.moving.empty()) s.ResumeMoved(job.id, now);
}

void Cluster::Remove(JobId id, Time) {
  State& s = *state_;
  const auto at = s.waiting.find(id);
  DIVVY_ASSERT(at != s.waiting.end());
  s.Dequeue(id, at->second);
  s.waiting_count -= at->second.count;
  s.waiting.erase(at);
  s.draws.erase(id);
}

// --- Questions ------------------------------------------------------------------------------------------------------

const NodeState& Cluster::state_of(NodeIndex node) const { return state_->nodes[node].state; }
const ResourceRequest& Cluster::request(RequestIndex index) const { return state_->requests[index]; }
const Rules& Cluster::rules() const { return state_->rules; }
bool Cluster::is_waiting(JobId id) const { return state_->waiting.contains(id); }
std::uint64_t Cluster::waiting_count() const { return state_->waiting_count; }
std::size_t Cluster::running_count() const { return state_->running.size(); }
std::size_t Cluster::node_count() const { return state_->nodes.size(); }
const NodeFacts& Cluster::node(NodeIndex node) const { return state_->nodes[node].facts; }

const Run* Cluster::running(JobId id) const {
  const auto at = state_->running.find(id);
  return at == state_->running.end() ? nullptr : &at->second;
}

std::vector<BackfillReservation> Cluster::reservations() const {
  std::vector<BackfillReservation> all;
  for (const ReservationSlot& slot : state_->reservations) all.push_back(slot.reservation);
  return all;
}

}  // namespace divvy::core
