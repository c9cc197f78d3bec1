#include "engine/cluster.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/cluster_state.h"
#include "engine/gpu_type.h"

namespace divvy {
namespace {

Group& GroupOf(std::map<GroupName, Group>& groups, const GroupName& name) {
  const auto [at, is_new] = groups.try_emplace(name);
  if (is_new) at->second.name = name;
  return at->second;
}

// An array's cap must not outlive the array.
void ForgetIfUnused(std::map<GroupName, Group>& groups, const GroupName& name) {
  const auto at = groups.find(name);
  if (at != groups.end() && !at->second.is_used()) groups.erase(at);
}

}  // namespace

std::vector<GroupName> Normalised(std::vector<GroupName> groups) {
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

ClassKey ClassKeyOf(const WaitingEntry& entry) {
  ClassKey key;
  key.request = entry.request;
  key.time_limit = entry.time_limit;
  key.groups = Normalised(entry.groups);
  key.placement = entry.placement;
  if (entry.is_held || !entry.unmet_dependencies.empty()) key.lane = Lane::kParked;
  else if (entry.begin > entry.queued_at) key.lane = Lane::kDated;
  return key;
}

Place PlaceOf(const WaitingEntry& entry) { return {std::max(entry.queued_at, entry.begin), entry.id, entry.priority}; }

GpuSet MatchingGpus(const NodeCapacity& capacity, const Request& request) {
  GpuSet matches;
  if (request.gpus == 0) return matches;
  for (const GpuFacts& gpu : capacity.gpus) {
    if (gpu.memory_total < request.gpu_memory) continue;
    if (request.gpu_type.empty() || MatchesGpuType(request.gpu_type, gpu.model)) matches.Insert(gpu.index);
  }
  return matches;
}

Cluster::Cluster() : state_(std::make_unique<State>()) {}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

void Cluster::SetCapacity(NodeCapacity capacity) {
  DIVVY_ASSERT(capacity.gpus.size() <= GpuSet::kCapacity);
  DIVVY_ASSERT(capacity.gpus.size() >= state_->availability.size());
  // Its tables are worth keeping where nothing has changed.
  if (state_->capacity.gpus != capacity.gpus) state_->topology = GpuTopology(capacity.gpus);
  state_->capacity = std::move(capacity);
  state_->availability.resize(state_->capacity.gpus.size());
  state_->present = GpuSet::FirstN(static_cast<int>(state_->capacity.gpus.size()));
  state_->usable = GpuSet();
  for (std::size_t i = 0; i < state_->availability.size(); ++i) {
    DIVVY_ASSERT(state_->capacity.gpus[i].index == i);
    if (state_->availability[i].is_usable()) state_->usable.Insert(static_cast<GpuIndex>(i));
  }
  for (auto& [key, job_class] : state_->queue.classes) job_class.matches = MatchingGpus(state_->capacity, key.request);
}

void Cluster::SetAvailability(GpuIndex gpu, GpuAvailability availability) {
  DIVVY_ASSERT(gpu < state_->availability.size());
  if (availability.is_usable()) state_->usable.Insert(gpu);
  else state_->usable.Erase(gpu);
  state_->availability[gpu] = std::move(availability);
}

void Cluster::SetGroupLimit(const GroupName& group, int limit) {
  GroupOf(state_->groups, group).limit = std::max(limit, 0);
  ForgetIfUnused(state_->groups, group);
}

void Cluster::Put(WaitingEntry entry) {
  DIVVY_ASSERT(entry.count > 0);
  ClassKey key = ClassKeyOf(entry);
  const auto old = state_->waiting.find(entry.id);
  if (old != state_->waiting.end()) {
    // An array that loses a member is put again with nothing but a smaller count: spare it the way through the classes.
    State::Slot& slot = old->second;
    if (slot.job_class->key == key && PlaceOf(slot.entry) == PlaceOf(entry)) {
      state_->waiting_count = state_->waiting_count - slot.entry.count + entry.count;
      slot.job_class->line.SetCount(PlaceOf(entry), entry.count);
      slot.entry = std::move(entry);
      return;
    }
    Remove(entry.id);
  }
  const auto [at, is_new] = state_->queue.classes.try_emplace(std::move(key));
  JobClass& job_class = at->second;
  if (is_new) {
    job_class.key = at->first;
    job_class.matches = MatchingGpus(state_->capacity, entry.request);
    for (const GroupName& name : at->first.groups) {
      Group& group = GroupOf(state_->groups, name);
      group.classes += 1;
      job_class.groups.push_back(&group);
    }
  }
  job_class.line.Insert(PlaceOf(entry), entry.count);
  state_->waiting_count += entry.count;
  const JobId id = entry.id;
  state_->waiting.insert_or_assign(id, State::Slot{std::move(entry), &job_class});
}

void Cluster::Remove(JobId waiting) {
  const auto at = state_->waiting.find(waiting);
  DIVVY_ASSERT(at != state_->waiting.end());
  JobClass& job_class = *at->second.job_class;
  job_class.line.Erase(PlaceOf(at->second.entry));
  state_->waiting_count -= at->second.entry.count;
  state_->waiting.erase(at);
  if (!job_class.line.empty()) return;
  const std::vector<GroupName> groups = job_class.key.groups;
  for (Group* group : job_class.groups) group->classes -= 1;
  state_->queue.classes.erase(state_->queue.classes.find(job_class.key));
  for (const GroupName& group : groups) ForgetIfUnused(state_->groups, group);
}

void Cluster::Start(JobId entry, RunningJob job) {
  const auto at = state_->waiting.find(entry);
  DIVVY_ASSERT(at != state_->waiting.end());
  State::Slot& slot = at->second;
  // The running job is taken in first, so that its groups stay known while the last of the class leaves.
  Adopt(std::move(job));
  if (slot.entry.count == 1) {
    Remove(entry);
    return;
  }
  slot.entry.count -= 1;
  slot.job_class->line.SetCount(PlaceOf(slot.entry), slot.entry.count);
  state_->waiting_count -= 1;
}

void Cluster::Adopt(RunningJob job) {
  job.groups = Normalised(std::move(job.groups));
  DIVVY_ASSERT((job.gpus & state_->owned).empty());
  DIVVY_ASSERT((job.gpus - state_->present).empty());
  DIVVY_ASSERT(!state_->running.contains(job.id));
  for (int gpu : job.gpus.ToVector()) state_->owners[static_cast<std::size_t>(gpu)] = job.id;
  state_->owned = state_->owned | job.gpus;
  state_->cpus_claimed += job.cpus;
  state_->memory_claimed += job.memory;
  if (job.gpus.empty()) state_->cpu_jobs_running += 1;
  for (const GroupName& group : job.groups) GroupOf(state_->groups, group).running += 1;
  const JobId id = job.id;
  state_->running.emplace(id, std::move(job));
}

void Cluster::SetKnownEnd(JobId running, Time end) {
  const auto at = state_->running.find(running);
  DIVVY_ASSERT(at != state_->running.end());
  at->second.known_end = end;
}

void Cluster::Finish(JobId running) {
  const auto at = state_->running.find(running);
  DIVVY_ASSERT(at != state_->running.end());
  const RunningJob job = std::move(at->second);
  state_->running.erase(at);
  for (int gpu : job.gpus.ToVector()) state_->owners[static_cast<std::size_t>(gpu)] = JobId();
  state_->owned = state_->owned - job.gpus;
  state_->cpus_claimed -= job.cpus;
  state_->memory_claimed -= job.memory;
  if (job.gpus.empty()) state_->cpu_jobs_running -= 1;
  for (const GroupName& group : job.groups) {
    GroupOf(state_->groups, group).running -= 1;
    ForgetIfUnused(state_->groups, group);
  }
}

const NodeCapacity& Cluster::capacity() const { return state_->capacity; }
const GpuTopology& Cluster::topology() const { return state_->topology; }
const GpuAvailability& Cluster::availability(GpuIndex gpu) const { return state_->availability[gpu]; }
GpuSet Cluster::usable() const { return state_->usable; }
GpuSet Cluster::free() const { return state_->usable - state_->owned; }

std::optional<JobId> Cluster::owner(GpuIndex gpu) const {
  if (!state_->owned.Contains(gpu)) return std::nullopt;
  return state_->owners[gpu];
}

const WaitingEntry* Cluster::waiting(JobId id) const {
  const auto at = state_->waiting.find(id);
  return at == state_->waiting.end() ? nullptr : &at->second.entry;
}

const RunningJob* Cluster::running(JobId id) const {
  const auto at = state_->running.find(id);
  return at == state_->running.end() ? nullptr : &at->second;
}

const std::map<JobId, RunningJob>& Cluster::running_jobs() const { return state_->running; }
std::uint64_t Cluster::waiting_count() const { return state_->waiting_count; }
const Cluster::Queue& Cluster::queue() const { return state_->queue; }

int Cluster::group_limit(const GroupName& group) const {
  const auto at = state_->groups.find(group);
  return at == state_->groups.end() ? 0 : at->second.limit;
}

int Cluster::group_running(const GroupName& group) const {
  const auto at = state_->groups.find(group);
  return at == state_->groups.end() ? 0 : at->second.running;
}

int Cluster::cpus_claimed() const { return state_->cpus_claimed; }
Bytes Cluster::memory_claimed() const { return state_->memory_claimed; }
int Cluster::cpu_jobs_running() const { return state_->cpu_jobs_running; }

}  // namespace divvy
