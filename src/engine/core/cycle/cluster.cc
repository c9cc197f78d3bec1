// The facade of the engine: it changes the state, and calls what the other files decide about it. It is in the last
// sub-folder because it uses all of them; its header is in the first, because they are used through it.
#include "engine/core/state/cluster.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/cycle/preempt.h"
#include "engine/core/cycle/scheduling_cycle.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/node_class_index.h"
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

void Cluster::SetNodeClasses(const NodeClassIndex& class_index, const NodeClassChange& change,
                             std::shared_ptr<const placement::Scorer> scorer) {
  ClusterState& s = *state_;
  DIVVY_ASSERT(class_index.node_count() == s.nodes.size());
  s.fleet.reset();
  SetScorer(std::move(scorer));
  if (change.empty()) return;
  Reclassify(s, class_index, change);
  for (const NodeIndex index : change.changed) {
    const GpuSet usable = GpuSet::FirstN(s.nodes[index].facts.gpus) - s.nodes[index].blocked;
    SetUsable(index, usable, s.nodes[index].accepts);
  }
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
  // With new rules, other jobs may get backfill reservations, so all are dropped. Resources that were preempted for a
  // job (nominations) stay reserved for it.
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
  if (!s.moving.empty()) ResumeMoved(s, job.id, now);
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

// --- Running --------------------------------------------------------------------------------------------------------

void Cluster::Adopt(const Job& job, std::vector<TaskPlacement> placements, Time started, Time now) {
  ClusterState& s = *state_;
  Run run;
  run.id = job.id;
  run.job_class = s.ClassOf(job);
  run.priority = job.priority;
  run.queued_at = job.queued_at;
  run.placements = std::move(placements);
  run.started = started;
  if (job.limit > Duration(0)) run.end = AddSaturating(started, job.limit);
  if (job.predicted > Duration(0)) run.predicted_end = AddSaturating(started, job.predicted);
  const std::vector<TaskPlacement> taken = run.placements;
  s.AddRun(std::move(run), now);
  s.carvings.clear();  // It runs already, so its GPUs are in the right mode.
  // The adopted job was placed without regard to reservations, so these may have to be changed to other GPUs.
  for (const TaskPlacement& placed : taken) {
    if (!s.nodes[placed.node].reserved.empty()) RefitReserved(s, placed.node, now);
  }
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
}

void Cluster::Finish(JobId id, Time now) {
  ClusterState& s = *state_;
  const auto at = s.running.find(id);
  DIVVY_ASSERT(at != s.running.end());
  const Run& run = at->second;
  s.CountStart(s.classes[run.job_class], -s.UseOf(run), -1, now);
  for (const TaskPlacement& placed : run.placements) s.DropPlacement(id, placed);
  if (run.expected != kNever) s.ends.erase({run.expected, id});
  s.elastic.erase(id);
  s.leaving.erase(id);
  s.limited_runs -= run.end != kNever;
  s.running.erase(at);
}

void Cluster::GiveBack(JobId id, const std::vector<TaskPlacement>& placements, Time now) {
  ClusterState& s = *state_;
  Run& run = s.running.at(id);
  GpuUse use;
  for (const TaskPlacement& placed : placements) {
    const auto at = std::find(run.placements.begin(), run.placements.end(), placed);
    DIVVY_ASSERT(at != run.placements.end());
    use += core::UseOf(s.request_of(run), placed);
    s.DropPlacement(id, placed);
    run.placements.erase(at);
    if (const auto left = std::find(run.leaving.begin(), run.leaving.end(), placed); left != run.leaving.end()) {
      run.leaving.erase(left);
    }
  }
  if (run.leaving.empty() && !run.is_leaving) s.leaving.erase(id);
  s.CountStart(s.classes[run.job_class], -use, 0, now);
}

void Cluster::SetEnd(JobId running, Time end) {
  ClusterState& s = *state_;
  Run& run = s.running.at(running);
  s.limited_runs += static_cast<std::size_t>(end != kNever) - static_cast<std::size_t>(run.end != kNever);
  run.end = end;
  s.Expect(run, EndOf(s.rules, run, run.started));
  for (const TaskPlacement& placed : run.placements) {
    for (RunningTask& one : s.nodes[placed.node].placements) {
      if (one.job == running) one.end = end;
    }
    s.Grow(placed.node);
  }
  s.room_epoch += 1;
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
}

void Cluster::SetLeaving(JobId running) {
  Run& run = state_->running.at(running);
  if (run.is_leaving) return;
  run.is_leaving = true;
  MarkLeaving(*state_, running, run.placements);
}

// --- Advance reservations -------------------------------------------------------------------------------------------

std::optional<AdvanceReservation> Cluster::Reserve(AdvanceReservation advance, Time now) {
  ClusterState& s = *state_;
  DIVVY_ASSERT(advance.id != 0 && advance.until > advance.from);
  if (advance.placements.empty()) {
    Placer placing(s, now, std::max(advance.from, now));
    advance.placements = placing.Find(s.requests[advance.request], advance.until - std::max(advance.from, now), {},
                                      true, advance.team, advance.user.value_or(0));
  }
  if (advance.placements.empty()) return std::nullopt;
  for (const TaskPlacement& placed : advance.placements) {
    ReservedCapacity reserved;
    reserved.advance = advance.id;
    reserved.shape = ShapeOf(s.requests[advance.request], placed);
    reserved.place = placed.place;
    reserved.from = advance.from;
    reserved.until = advance.until;
    s.AddReserved(placed.node, reserved);
  }
  s.advance_reservations.push_back(advance);
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
  return advance;
}

void Cluster::CancelReservation(std::uint64_t id) {
  ClusterState& s = *state_;
  for (std::size_t i = 0; i < s.advance_reservations.size(); ++i) {
    if (s.advance_reservations[i].id != id) continue;
    s.DropAdvanceReservation(i);
    return;
  }
}

// --- Decisions ------------------------------------------------------------------------------------------------------

Plan Cluster::Decide(Time now, const NameMember& name) { return SchedulingCycle(*state_, now, name).Decide(); }

Plan Cluster::DecideAnew(Time now, const NameMember& name) {
  for (ClassIndex index = 0; index < state_->classes.size(); ++index) state_->Freshen(index);
  SchedulingCycle cycle(*state_, now, name, 0);
  cycle.KeepReservations();
  return cycle.Decide();
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

std::vector<Move> Cluster::moving() const {
  std::vector<Move> moves;
  for (const auto& [id, moved] : state_->moving) {
    const Run* run = running(id);
    if (run != nullptr) moves.push_back({id, run->is_leaving ? run->placements : run->leaving, moved.to, JobId()});
  }
  return moves;
}

std::string Cluster::CheckInvariants() const { return BrokenInvariant(*state_); }

}  // namespace divvy::core
