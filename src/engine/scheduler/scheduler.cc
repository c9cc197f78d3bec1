#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/result.h"
#include "engine/core/cycle/resize.h"
#include "engine/core/explain/node_class_text.h"
#include "engine/core/place/nominations.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"
#include "engine/core/state/predicted_end.h"
#include "engine/core/state/state.h"
#include "engine/placement/policy.h"
#include "engine/scheduler/translate.h"

namespace divvy {
namespace {

// Elastic and heterogeneous jobs cannot be migrated, so they are requeued instead of paused. A running elastic job is
// known to the core with the GPUs that it has, but would wait again with a different request.
Preemptible PreemptibleOf(Preemptible preemptible, const Request& request) {
  const bool moves = !request.is_elastic() && !request.is_heterogeneous();
  return preemptible == Preemptible::kPause && !moves ? Preemptible::kRequeue : preemptible;
}

// TeamUsage counts in thousandths of GPU-seconds, the core in GPU parts.
constexpr double kPartsOfMilli = placement::kGpuParts / 1000.0;

/// The number of unused job classes that the core may keep.
constexpr std::size_t kClassesKept = 4'096;

}  // namespace

Scheduler::Scheduler(Duration usage_half_life) : usage_half_life_(usage_half_life), core_(RulesOf(Policy())) {
  Rebuild(core::Teams(usage_half_life_));
}

// Removes all jobs from the core and returns its teams with their usage.
core::Teams Scheduler::TakeTeams() {
  for (const auto& [id, job] : facts_.running_jobs()) core_.Finish(id, now_);
  for (const auto& [id, entry] : facts_.waiting_entries()) core_.Remove(id, now_);
  return std::move(core_.teams());
}

// Rebuilds the core from all facts: nodes and job classes cannot be removed from it one by one.
void Scheduler::Rebuild(core::Teams teams) {
  std::vector<std::pair<core::AdvanceReservation, core::ResourceRequest>> advance_reservations;
  for (const core::AdvanceReservation& advance : core_.state().advance_reservations)
    advance_reservations.emplace_back(advance, core_.request(advance.request));
  core_ = core::Cluster(core_.rules());
  core_.teams() = std::move(teams);
  for (const PoolRow& pool : pools_) core_.AddPool(RulesOf(policy_, pool));
  classifier_ = NodeClassifier(pools_);
  filters_.clear();
  for (const NodeUsage& node : facts_.nodes()) classifier_.Add(node);
  const std::map<std::string, GroupLimits> limits = caps_.limits();
  caps_ = GroupCaps();
  is_overcommitted_ = false;
  cpu_jobs_cap_ = core_.AddCap("jobs without GPUs", cpu_jobs_at_once_);
  for (NodeIndex node = 0; node < facts_.nodes().size(); ++node) core_.AddNode(FactsOf(node));
  static_cast<void>(classifier_.class_index().TakeChange());
  core_.SetScorer(MakeScorer());
  CountGpus();
  for (const auto& [name, limit] : limits) caps_.SetLimits(core_, name, limit);
  for (const auto& [id, job] : facts_.running_jobs()) AdoptInCore(job);
  for (NodeIndex node = 0; node < facts_.nodes().size(); ++node) ShowUsable(node);
  // In id order, so that the same facts make the same core.
  std::vector<const WaitingEntry*> entries;
  entries.reserve(facts_.waiting_entries().size());
  for (const auto& [id, entry] : facts_.waiting_entries()) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  for (const WaitingEntry* entry : entries) PutInCore(*entry);
  for (auto& [advance, resources] : advance_reservations) {
    advance.request = core_.Know(resources);
    core_.Reserve(std::move(advance), now_);
  }
}

// The core never removes a job class. If time limits, predictions and users have made far more classes than there are
// jobs, the core is rebuilt. The classes added since the last rebuild pay for its cost.
void Scheduler::ForgetOldClasses() {
  const std::size_t known = core_.state().classes.size();
  if (known <= kClassesKept + 4 * (facts_.waiting_entries().size() + facts_.running_jobs().size())) return;
  Rebuild(TakeTeams());
}

void Scheduler::ShowUsable(NodeIndex node) {
  core_.SetUsable(node, facts_.node(node).usable, facts_.node(node).takes_work);
}

core::NodeFacts Scheduler::FactsOf(NodeIndex index) {
  const NodeUsage& node = facts_.node(index);
  core::NodeFacts facts = classifier_.FactsOf(index, node.capacity);
  facts.name = has_many() && !node.attributes.name.empty() ? node.attributes.name : "this server";
  // A node without a rack gets a rack of its own. A rack without a block gets a block of its own.
  constexpr std::uint32_t kAlone = std::uint32_t{1} << 31, kRackAlone = std::uint32_t{1} << 30;
  const auto number = [](std::map<std::string, std::uint32_t>& numbers, const std::string& name, std::uint32_t alone) {
    if (name.empty()) return alone;
    return numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size() + 1)).first->second;
  };
  facts.rack = number(racks_, node.attributes.rack, kAlone | index);
  facts.block = number(blocks_, node.attributes.block, facts.rack | (node.attributes.rack.empty() ? 0 : kRackAlone));
  return facts;
}

void Scheduler::CountGpus() { core_.teams().SetCapacity(std::int64_t{gpu_count()} * placement::kGpuParts); }

int Scheduler::gpu_count() const {
  std::size_t count = 0;
  for (const NodeUsage& node : facts_.nodes()) count += node.capacity.gpus.size();
  return static_cast<int>(count);
}

int Scheduler::free_count() const {
  int count = 0;
  for (const NodeUsage& node : facts_.nodes()) count += node.free().size();
  return count;
}

std::optional<NodeIndex> Scheduler::FindNode(std::string_view name) const {
  const auto at = nodes_.find(name);
  return at == nodes_.end() ? std::nullopt : std::optional(at->second);
}

void Scheduler::SetNode(NodeIndex node, NodeAttributes attributes, NodeCapacity capacity) {
  DIVVY_ASSERT(node <= facts_.nodes().size());
  const bool is_new = node == facts_.nodes().size();
  const bool is_same = !is_new && facts_.node(node).capacity == capacity && facts_.node(node).attributes == attributes;
  if (is_same && core_.node_count() > node) return;
  // With the first agent's node, the controller's own node gets its name, which needs a rebuild.
  const bool may_add = is_new && node > 1;
  const bool may_rename = !is_new && facts_.node(node).capacity == capacity && core_.node_count() > node;
  const auto enter = [&] {
    if (!attributes.name.empty()) nodes_[attributes.name] = node;
    facts_.SetCapacity(node, std::move(capacity));
    facts_.SetAttributes(node, std::move(attributes));
  };
  if (may_rename) {
    const bool is_moved =
        attributes.rack != facts_.node(node).attributes.rack || attributes.block != facts_.node(node).attributes.block;
    enter();
    const std::size_t sizes = classifier_.told_apart();
    const bool is_told = !is_moved && classifier_.Change(node, facts_.node(node));
    if (is_told && classifier_.told_apart() == sizes) return FollowNodeClasses();
    return Rebuild(TakeTeams());
  }
  if (may_add) {
    enter();
    const std::size_t sizes = classifier_.told_apart();
    classifier_.Add(facts_.node(node));
    // If the new node has a CPU count or MIG profile that no other node has, requests of known jobs have no alternative
    // for it, so the core is rebuilt.
    if (classifier_.told_apart() != sizes) return Rebuild(TakeTeams());
    core_.AddNode(FactsOf(node));
    FollowNodeClasses();
    ShowUsable(node);
    CountGpus();
    return;
  }
  core::Teams teams = TakeTeams();
  enter();
  Rebuild(std::move(teams));
}

void Scheduler::SetTakesWork(NodeIndex node, bool takes_work, std::string idle_reason) {
  const bool did = facts_.node(node).takes_work;
  facts_.SetTakesWork(node, takes_work, std::move(idle_reason));
  if (did != takes_work) ShowUsable(node);
}

void Scheduler::SetAvailability(NodeIndex node, GpuIndex gpu, GpuAvailability availability) {
  const GpuSet before = facts_.node(node).usable;
  facts_.SetAvailability(node, gpu, std::move(availability));
  if (facts_.node(node).usable != before) ShowUsable(node);
}

void Scheduler::SetGroupLimits(const GroupName& group, GroupLimits limits) {
  limits = {std::max(limits.jobs, 0), std::max(limits.gpus, 0)};
  if (facts_.group_limits(group) == limits) return;
  facts_.SetGroupLimits(group, limits);
  caps_.SetLimits(core_, group, limits);
}

void Scheduler::SetGroupLimit(const GroupName& group, int jobs) {
  SetGroupLimits(group, {jobs, facts_.group_limits(group).gpus});
}

void Scheduler::SetGroupGpuLimit(const GroupName& group, int gpus) {
  SetGroupLimits(group, {facts_.group_limits(group).jobs, gpus});
}

void Scheduler::SetTeams(std::vector<core::TeamSpec> teams, Time now) {
  now_ = std::max(now_, now);
  const std::map<std::string, double> used = TeamUsage(now_);
  static_cast<void>(TakeTeams());
  core::Teams made(usage_half_life_);
  teams_.clear();
  for (std::size_t i = 0; i < teams.size(); ++i) teams_[teams[i].name] = static_cast<core::TeamIndex>(i + 1);
  made.Reset(std::move(teams));
  for (const auto& [name, amount] : used) {
    if (const auto team = teams_.find(name); team != teams_.end() && amount > 0)
      made.SetUsage(team->second, amount * kPartsOfMilli, now_);
  }
  core_.state().advance_reservations.clear();
  Rebuild(std::move(made));
}

std::map<std::string, double> Scheduler::TeamUsage(Time now) const {
  std::map<std::string, double> used;
  for (const auto& [name, team] : teams_) used.emplace(name, core_.teams().usage(team, now) / kPartsOfMilli);
  return used;
}

void Scheduler::SetTeamUsage(const std::string& team, double usage, Time at) {
  if (const auto known = teams_.find(team); known != teams_.end())
    core_.teams().SetUsage(known->second, usage * kPartsOfMilli, at);
}

core::TeamIndex Scheduler::TeamOf(const std::string& name) const {
  const auto at = teams_.find(name);
  return at == teams_.end() ? core::kRootTeam : at->second;
}

core::UserIndex Scheduler::UserOf(const std::string& name) {
  return users_.try_emplace(name, static_cast<core::UserIndex>(users_.size() + 1)).first->second;
}

std::vector<core::CapIndex> Scheduler::UseCaps(std::vector<GroupName> groups, bool is_cpu_job) {
  std::vector<core::CapIndex> caps;
  for (const GroupName& group : Normalised(std::move(groups))) caps.push_back(caps_.Use(core_, group));
  if (is_cpu_job) caps.push_back(cpu_jobs_cap_);
  std::sort(caps.begin(), caps.end());
  return caps;
}

void Scheduler::LeaveCaps(std::vector<GroupName> groups) {
  for (const GroupName& group : Normalised(std::move(groups))) caps_.Leave(group);
}

// --- Node classes and demand statistics --------------------------------------------------------------------------

core::ResourceRequest Scheduler::UseRequest(JobId id, core::ResourceRequest resources, const Request& request,
                                            const std::string& pool, const std::vector<ModelSpeed>& speeds) {
  std::vector<core::FilterIndex> used;
  core::ResourceRequest made = classifier_.Use(std::move(resources), request, pool, speeds, used);
  FollowNodeClasses();
  if (std::ranges::any_of(used, [](core::FilterIndex filter) { return filter != core::kNoFilter; }))
    filters_[id] = std::move(used);
  return made;
}

void Scheduler::LeaveRequest(JobId id) {
  const auto at = filters_.find(id);
  if (at == filters_.end()) return;
  classifier_.Leave(at->second);
  filters_.erase(at);
}

void Scheduler::KeepRequest(JobId entry, JobId job, bool is_last) {
  const auto at = filters_.find(entry);
  if (at == filters_.end() || (is_last && entry == job)) return;
  std::vector<core::FilterIndex> used = at->second;
  if (is_last) filters_.erase(at);
  else classifier_.UseAgain(used);
  filters_[job] = std::move(used);
}

core::ResourceRequest Scheduler::AskAbout(const Request& request, const std::string& pool, PlacementStrategy placement,
                                          std::string* why) const {
  std::vector<core::FilterIndex> used;
  core::ResourceRequest resources =
      classifier_.Use(ResourceRequestOf(request, placement, request.gpus), request, pool, {}, used, why);
  FollowNodeClasses();
  classifier_.Leave(used);
  return resources;
}

void Scheduler::FollowNodeClasses() const {
  const core::NodeClassChange change = classifier_.class_index().TakeChange();
  if (!change.empty()) core_.SetNodeClasses(classifier_.class_index(), change, MakeScorer());
}

// A single node needs no scorer: there is nothing to choose.
std::shared_ptr<const placement::Scorer> Scheduler::MakeScorer() const {
  if (!has_many()) return nullptr;
  return placement::MakeScorer("default", demand_.Snapshot(), demand_.Requests(),
                               classifier_.class_index().CapacityParts(), classifier_.class_index().Alike());
}

void Scheduler::RecordDemand(const core::ResourceRequest& resources, std::uint32_t count) {
  if (!has_many()) return;
  constexpr std::uint32_t kMostOfOne = 100;  // Keeps one large array from dominating the statistics.
  for (std::uint32_t i = 0; i < std::min(count, kMostOfOne); ++i)
    demand_.Add(resources.groups.front().alternatives.front());
  if (demand_.seen() < next_lesson_) return;
  next_lesson_ = demand_.seen() + std::max(kMinDemandSamples, demand_.seen() / 4);
  core_.SetScorer(MakeScorer());
}

// --- Waiting ---------------------------------------------------------------------------------------------------

// A job that names several pools waits in the one with the lowest priority. So naming more pools never moves it
// forward.
core::PoolIndex Scheduler::LineOf(const std::string& pools) const {
  core::PoolIndex pool_index = core::kWholeCluster;
  int tier = 0;
  bool is_first = true;
  for (const std::string& name : PoolsIn(pools)) {
    const auto at = std::ranges::find(pools_, name, &PoolRow::name);
    const int its = at == pools_.end() ? 0 : at->priority;
    if (!is_first && its >= tier) continue;
    is_first = false;
    tier = its;
    pool_index = at == pools_.end() ? core::kWholeCluster : static_cast<core::PoolIndex>(at - pools_.begin() + 1);
  }
  return pool_index;
}

core::Job Scheduler::JobOf(const WaitingEntry& entry) {
  core::Job job;
  job.id = entry.id;
  job.count = entry.count;
  core::ResourceRequest resources =
      UseRequest(entry.id, ResourceRequestOf(entry.request, entry.placement, entry.request.gpus), entry.request,
                 entry.pool, entry.speeds);
  resources.pool = LineOf(entry.pool);
  job.request = core_.Know(resources);
  job.team = TeamOf(entry.team);
  job.user = UserOf(entry.user);
  job.priority = entry.priority;
  job.queued_at = entry.queued_at;
  if (entry.begin > entry.queued_at) job.begin = entry.begin;
  job.limit = entry.time_limit;
  job.predicted = entry.predicted;
  job.preemptible = PreemptibleOf(entry.preemptible, entry.request);
  job.is_parked = entry.is_held || !entry.unmet_dependencies.empty();
  job.draw = entry.placement_draw;
  return job;
}

void Scheduler::PutInCore(const WaitingEntry& entry) {
  core::Job job = JobOf(entry);
  job.caps = UseCaps(entry.groups, entry.request.gpus_in_all() == 0);
  RecordDemand(core_.request(job.request), entry.count);
  // A job with a begin time stays out of the queue until a decision finds it due.
  core_.Put(std::move(job), kNoTime);
}

void Scheduler::RemoveFromCore(const WaitingEntry& entry) {
  core_.Remove(entry.id, now_);
  LeaveRequest(entry.id);
  LeaveCaps(entry.groups);
}

void Scheduler::Put(WaitingEntry entry) {
  if (const WaitingEntry* old = facts_.waiting(entry.id)) RemoveFromCore(*old);
  PutInCore(entry);
  facts_.Put(std::move(entry));
  ForgetOldClasses();
}

void Scheduler::Remove(JobId waiting) {
  const WaitingEntry* entry = facts_.waiting(waiting);
  DIVVY_ASSERT(entry != nullptr);
  RemoveFromCore(*entry);
  facts_.Remove(waiting);
}

// --- Running ---------------------------------------------------------------------------------------------------

void Scheduler::AdoptInCore(const RunningJob& job) {
  core::Job known;
  known.id = job.id;
  known.team = TeamOf(job.team);
  known.user = UserOf(job.user);
  known.priority = job.priority;
  known.queued_at = job.queued_at;
  known.predicted = job.predicted;
  known.preemptible = PreemptibleOf(job.preemptible, job.request);
  known.caps = UseCaps(job.groups, job.is_cpu_job());
  // The job's original request is kept, because it determines where the job may continue if it is moved
  // (Policy::preemption.consolidates).
  const std::vector<NodeResources> places = PartPlaces(job.request, job.places());
  core::ResourceRequest resources =
      UseRequest(job.id, RequestOfPlaces(job.request, places), job.request, job.pool, job.speeds);
  // Speeds of GPU models are ignored for elastic jobs from their start, because a resized job counts without them
  // (core::Resize).
  if (job.request.is_elastic()) resources.groups.front().speeds.clear();
  if (job.slice.any()) KeepSlice(places.front(), resources);
  resources.pool = LineOf(job.pool);
  FitHosts(places, resources);
  known.request = core_.Know(resources);
  core_.Adopt(known, PlacementsOf(places, resources), job.started, now_);
  if (job.known_end != kNever) core_.SetEnd(job.id, job.known_end);
  if (job.predicted_end != kNever) core::SetPredictedEnd(core_, job.id, job.predicted_end);
  if (!job.asked_back.empty()) core::Resize(core_, job.id, job.gpus, job.asked_back, now_);
  if (job.is_leaving) core_.SetLeaving(job.id);
}

// Sets the MIG instance that the job really has, even if such a request would get another one now.
void Scheduler::KeepSlice(const NodeResources& place, core::ResourceRequest& resources) const {
  for (core::Shape& shape : resources.groups.front().alternatives) {
    shape.slice = placement::MigProfileOf(place.slice.compute, place.slice.size);
    shape.parts = static_cast<std::int16_t>(place.share.ten_thousandths());
  }
}

// Reduces CPUs and memory in the request to what the nodes have free. A job may claim more if its node has lost CPUs or
// memory since the job started.
void Scheduler::FitHosts(const std::vector<NodeResources>& places, core::ResourceRequest& resources) {
  std::size_t group = 0;
  int left = resources.groups.front().least;
  std::map<NodeIndex, std::pair<std::int32_t, std::int32_t>> used;  // CPUs and memory of earlier places on the node.
  for (const NodeResources& place : places) {
    if (left-- == 0) left = resources.groups[++group].least - 1;
    const core::NodeState& state = core_.state_of(place.node);
    auto& [cpu_used, memory_used] = used[place.node];
    for (core::Shape& shape : resources.groups[group].alternatives) {
      const std::int32_t cpu = std::min(shape.cpu_milli, std::max(state.cpu_free - cpu_used, 0));
      const std::int32_t memory = std::min(shape.memory_mib, std::max(state.memory_free - memory_used, 0));
      is_overcommitted_ = is_overcommitted_ || cpu < shape.cpu_milli || memory < shape.memory_mib;
      shape.cpu_milli = cpu;
      shape.memory_mib = memory;
    }
    cpu_used += resources.groups[group].alternatives.front().cpu_milli;
    memory_used += resources.groups[group].alternatives.front().memory_mib;
  }
}

std::vector<core::TaskPlacement> Scheduler::PlacementsOf(const std::vector<NodeResources>& places,
                                                         const core::ResourceRequest& resources) const {
  std::vector<core::TaskPlacement> placements;
  std::uint8_t group = 0;
  int left = resources.groups.front().least;
  for (const NodeResources& place : places) {
    if (left-- == 0) left = resources.groups[++group].least - 1;
    std::vector<std::uint8_t> node_classes;
    const core::NodeFacts& facts = core_.node(place.node);
    for (const int gpu : place.gpus.ToVector()) {
      node_classes.push_back(facts.gpu_classes.empty() ? static_cast<std::uint8_t>(facts.node_class)
                                                       : facts.gpu_classes[static_cast<std::size_t>(gpu)]);
    }
    if (node_classes.empty()) node_classes.push_back(static_cast<std::uint8_t>(facts.node_class));
    placements.push_back({place.node, PlaceIn(place), group, AlternativeOf(resources.groups[group], node_classes)});
  }
  return placements;
}

void Scheduler::Adopt(RunningJob job) {
  AdoptInCore(job);
  facts_.Adopt(std::move(job));
}

void Scheduler::SetKnownEnd(JobId running, Time end) {
  RunningJob* job = facts_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  job->known_end = end;
  core_.SetEnd(running, end);
}

void Scheduler::SetPredictedEnd(JobId running, Time end) {
  RunningJob* job = facts_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  job->predicted_end = end;
  core::SetPredictedEnd(core_, running, end);
}

void Scheduler::SetName(JobId running, std::string name) {
  RunningJob* job = facts_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  job->name = std::move(name);
}

void Scheduler::SetLeaving(JobId running) {
  RunningJob* job = facts_.find_running(running);
  DIVVY_ASSERT(job != nullptr);
  if (job->is_leaving) return;
  job->is_leaving = true;
  core_.SetLeaving(running);
}

void Scheduler::Finish(JobId running) {
  const RunningJob* job = facts_.running(running);
  DIVVY_ASSERT(job != nullptr);
  LeaveCaps(job->groups);
  core_.Finish(running, now_);
  LeaveRequest(running);
  facts_.Finish(running);
  if (is_overcommitted_) Rebuild(TakeTeams());
}

void Scheduler::SetResizable(JobId running) {
  RunningJob* job = facts_.find_running(running);
  DIVVY_ASSERT(job != nullptr && job->request.is_elastic());
  job->is_resizable = true;
}

void Scheduler::Resize(JobId running, GpuSet gpus) {
  core::Resize(core_, running, gpus, {}, now_);
  facts_.Resize(running, gpus, GpuSet());
}

void Scheduler::SetDisplaced(JobId running, GpuSet gpus, Bytes memory, bool is_displaced) {
  RunningJob job = *facts_.running(running);
  DIVVY_ASSERT(job.gang.empty());
  job.gpus = gpus;
  job.memory = memory;
  job.is_displaced = is_displaced;
  job.asked_back = GpuSet();
  Finish(running);
  Adopt(std::move(job));
}

GpuSet Scheduler::NominatedOn(NodeIndex node) const {
  GpuSet nominated;
  for (const core::ReservedCapacity& reserved : core_.state().nodes[node].reserved) {
    if (reserved.is_nomination) nominated |= reserved.place.gpus;
  }
  return nominated;
}

bool Scheduler::IsNominated(JobId waiting) const {
  const core::ReservationSlot* slot = core::SlotOf(core_.state(), waiting);
  return slot != nullptr && slot->reservation.is_nomination;
}

GpuSet Scheduler::ClosedTo(JobId running, NodeIndex node, Time now) const {
  const core::Run* run = core_.running(running);
  DIVVY_ASSERT(run != nullptr);
  const core::ClassKey& key = core_.state().classes[run->job_class].key;
  GpuSet closed;
  for (const core::AdvanceReservation& advance : core_.state().advance_reservations) {
    if (advance.from > now || advance.until <= now || core::IsTheirs(advance, key.team, key.user)) continue;
    for (const core::TaskPlacement& placed : advance.placements) {
      if (placed.node == node) closed |= placed.place.gpus;
    }
  }
  return closed;
}

Status Scheduler::SetPortion(JobId running, const GpuPortion& portion) {
  RunningJob job = *facts_.running(running);
  DIVVY_ASSERT(job.request.is_portioned() && portion.any() && job.gang.empty());
  const NodeUsage& node = facts_.node(job.node);
  const GpuShare before = job.share;
  for (const int index : job.gpus.ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    const GpuShare wanted = PartsOf(portion, node.capacity.gpus[gpu].memory_total);
    const GpuShare most = node.room(gpu) + before;
    if (wanted > most) {
      return LimitExceeded("GPU " + std::to_string(index) + " has room for " + PartsText(most) +
                           " next to its other tenants, but " + PartsText(wanted) + " is requested");
    }
    job.share = wanted;
  }
  job.request.portion = portion;
  Finish(running);
  Adopt(std::move(job));
  return {};
}

void Scheduler::SetPlannedGpus(JobId running, GpuSet gpus) {
  RunningJob job = *facts_.running(running);
  DIVVY_ASSERT(job.request.is_portioned() && job.gang.empty() && gpus.size() == job.gpus.size());
  job.gpus = gpus;
  Finish(running);
  Adopt(std::move(job));
}

// --- Questions -------------------------------------------------------------------------------------------------

bool Scheduler::IsBarredByTeam(JobId waiting) const {
  const core::ClusterState& state = core_.state();
  const auto at = state.waiting.find(waiting);
  if (at == state.waiting.end() || !state.teams.has_rules()) return false;
  const core::StartBlocker barrier = core::StartBlockerOf(state, at->second.job_class);
  return barrier.over_limit != core::kRootTeam || barrier.over_quota != core::kRootTeam;
}

std::string Scheduler::CheckInvariants() const {
  if (std::string broken = facts_.CheckInvariants(); !broken.empty()) return broken;
  if (std::string broken = core_.CheckInvariants(); !broken.empty()) return "core: " + broken;
  if (core_.waiting_count() != facts_.waiting_count()) return "the core has another number of waiting jobs";
  if (core_.running_count() != facts_.running_jobs().size()) return "the core has another number of running jobs";
  for (const auto& [id, job] : facts_.running_jobs()) {
    const core::Run* run = core_.running(id);
    if (run == nullptr) return "in the core, job " + ToString(id) + " does not run";
    std::map<NodeIndex, core::GpuPlace> held;
    for (const core::TaskPlacement& placed : run->placements) {
      core::GpuPlace& place = held[placed.node];
      place.gpus |= placed.place.gpus;
      place.slices |= placed.place.slices;
    }
    for (const NodeResources& place : job.places()) {
      if (held[place.node] != PlaceIn(place)) return "the core has job " + ToString(id) + " on other GPUs";
      held.erase(place.node);
    }
    if (!held.empty()) return "the core has job " + ToString(id) + " on more nodes";
    if (core::RequestedOf(*run) != job.asked_back)
      return "the core has other GPUs that job " + ToString(id) + " was asked to release";
    if (run->started != job.started) return "the core has another start time of job " + ToString(id);
    if (run->end != job.known_end) return "the core has another end time of job " + ToString(id);
    if (run->is_leaving != job.is_leaving)
      return "the core has another answer to whether job " + ToString(id) + " was told to end";
  }
  for (const auto& [id, entry] : facts_.waiting_entries()) {
    if (!core_.is_waiting(id)) return "in the core, job " + ToString(id) + " does not wait";
  }
  return "";
}

}  // namespace divvy
