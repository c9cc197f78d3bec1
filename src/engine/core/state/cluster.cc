#include "engine/core/state/cluster.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/state/state.h"

namespace divvy::core {
Cluster::Cluster(Rules rules, Duration usage_half_life)
    : state_(std::make_unique<ClusterState>(rules, usage_half_life)) {
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
  ClusterState& s = *state_;
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
  ClusterState& s = *state_;
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

// --- Teams and caps -------------------------------------------------------------------------------------------------

Teams& Cluster::teams() { return state_->teams; }
const Teams& Cluster::teams() const { return state_->teams; }

void Cluster::RecountTeams(Time now) {
  ClusterState& s = *state_;
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

// --- Waiting --------------------------------------------------------------------------------------------------------

RequestIndex Cluster::Know(const ResourceRequest& request) {
  ClusterState& s = *state_;
  const auto [at, is_new] = s.request_index.try_emplace(request, static_cast<RequestIndex>(s.requests.size()));
  if (is_new) s.requests.push_back(request);
  return at->second;
}

void Cluster::Put(Job job, Time now) {
  ClusterState& s = *state_;
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
  ClusterState& s = *state_;
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
