#include "control/jobs/scheduler_feed.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/books/progress.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"
#include "control/state/displacement.h"
#include "engine/scheduler/explain.h"

namespace divvy {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): spreads a seed and an id over all bits.
std::uint64_t Draw(std::uint64_t seed, std::uint64_t id) {
  std::uint64_t z = seed + id * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

SchedulerFeed::SchedulerFeed(Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects, const Rules& rules,
                             Policy policy, std::uint64_t seed)
    : scheduler_(scheduler),
      jobs_(jobs),
      effects_(effects),
      nodes_(rules.nodes),
      dependencies_(rules.dependencies),
      pools_(rules.pools),
      teams_(rules.teams),
      predictions_(rules.predictions),
      deadlines_(rules.deadlines),
      policy_(std::move(policy)),
      seed_(seed) {
  scheduler_.SetPolicy(policy_);
}

void SchedulerFeed::LoadGroupLimit(const std::string& group, int limit) {
  group_limits_[group] = limit;
  scheduler_.SetGroupLimit(group, limit);
}

void SchedulerFeed::SetGroupLimit(const std::string& group, int limit) {
  LoadGroupLimit(group, limit);
  effects_.KeepSetting(std::string(kGroupPrefix) + group, limit == 0 ? "" : std::to_string(limit));
}

std::optional<int> SchedulerFeed::group_limit(const std::string& group) const {
  const auto known = group_limits_.find(group);
  return known == group_limits_.end() ? std::nullopt : std::optional(known->second);
}

void SchedulerFeed::RestoreGroupLimit(const std::string& group, std::optional<int> limit) {
  if (limit.value_or(0) > 0) group_limits_[group] = *limit;
  else group_limits_.erase(group);
  scheduler_.SetGroupLimit(group, limit.value_or(0));
}

void SchedulerFeed::SetArrayLimit(const JobRecord& array) {
  scheduler_.SetGroupLimit(ArrayGroupName(array.id), array.array_at_once);
}

void SchedulerFeed::Remove(JobId waiting) {
  if (scheduler_.waiting(waiting) != nullptr) scheduler_.Remove(waiting);
}

void SchedulerFeed::Adopt(const JobRecord& record) { scheduler_.Adopt(RunningJobOf(record)); }

void SchedulerFeed::Regroup(const JobRecord& record) {
  const RunningJob* running = scheduler_.running(record.id);
  if (running == nullptr || set_aside_.contains(record.id) || running->groups == GroupsOf(record)) return;
  Readopt(record);
}

void SchedulerFeed::Readopt(const JobRecord& record) {
  RunningJob job = *scheduler_.running(record.id);
  const bool is_set_aside = set_aside_.contains(record.id);
  job.groups = is_set_aside ? std::vector<GroupName>() : GroupsOf(record);
  if (job.gang.empty()) job.cpus = is_set_aside ? 0 : record.request.cpus;
  scheduler_.Finish(record.id);
  scheduler_.Adopt(std::move(job));
}

void SchedulerFeed::SetAside(JobId job, bool is_set_aside) {
  const bool has_changed = is_set_aside ? set_aside_.insert(job).second : set_aside_.erase(job) > 0;
  const JobRecord* record = jobs_.Find(job);
  if (has_changed && record != nullptr && scheduler_.running(job) != nullptr) Readopt(*record);
}

bool SchedulerFeed::HasCpusAgain(const JobRecord& record) const {
  const NodeUsage& node = scheduler_.node(nodes_.IndexOf(record.node).value_or(kOwnNode));
  return node.cpus_claimed + record.request.cpus <= node.capacity.cpus;
}

bool SchedulerFeed::AreGroupsBelowLimits(const JobRecord& record) const {
  return std::ranges::none_of(GroupsOf(record), [&](const GroupName& group) {
    const int jobs = scheduler_.group_limit(group), gpus = scheduler_.group_gpu_limit(group);
    return (jobs > 0 && scheduler_.group_running(group) >= jobs) ||
           (gpus > 0 && scheduler_.facts().group_gpus(group) + record.request.gpus > gpus);
  });
}

void SchedulerFeed::NoteStart(const JobRecord& record) {
  if (NamesSeveralPools(record)) multi_pool_jobs_.insert(record.id);
}

void SchedulerFeed::PutAllAgain() {
  for (const auto& [id, record] : jobs_.live()) {
    if (scheduler_.waiting(id) != nullptr) Put(record);
  }
}

void SchedulerFeed::FollowTeams(Time now) {
  for (const auto& [id, record] : jobs_.live()) {
    if (scheduler_.running(id) != nullptr) Readopt(record);
  }
  teams_.budgets().Reset();
  WatchBudgets(now);
  PutAllAgain();
}

void SchedulerFeed::WatchBudgets(Time now) {
  if (teams_.budgets().Watch(now)) PutAllAgain();
}

void SchedulerFeed::SetKeptNodes(std::map<std::string, KeptNode> nodes) {
  if (nodes == kept_nodes_) return;
  const auto is_for_all = [](const auto& one) { return one.second.is_for_all; };
  const bool concerns_all = std::ranges::any_of(nodes, is_for_all) || std::ranges::any_of(kept_nodes_, is_for_all);
  kept_nodes_ = std::move(nodes);
  for (const auto& [id, record] : jobs_.live()) {
    if (scheduler_.waiting(id) == nullptr || (!concerns_all && IsParkable(record))) continue;
    // Resources that were nominated for a job stay its own.
    if (!scheduler_.IsNominated(id)) Put(record);
  }
}

void SchedulerFeed::KeepFrom(const JobRecord& record, WaitingEntry& entry) const {
  const Request& request = record.request;
  if (kept_nodes_.empty() || (request.gpus_in_all() == 0 && !request.is_elastic())) return;
  for (const auto& [key, kept] : kept_nodes_) {
    if (!kept.is_for_all && IsParkable(record)) continue;
    const std::string& node = key.empty() ? scheduler_.node(kOwnNode).attributes.name : key;
    const bool has_others = !node.empty() && scheduler_.has_many() && request.node_list.empty();
    if (has_others && !request.is_heterogeneous()) {
      entry.request.excluded_nodes.push_back(node);
      continue;
    }
    const bool is_named = request.node_list.empty() || std::ranges::count(request.node_list, node) > 0;
    if (!is_named && !node.empty()) continue;
    entry.unmet_dependencies.push_back(kept.why);
    entry.waits_for.clear();
  }
}

void SchedulerFeed::Put(const JobRecord& record) {
  WaitingEntry entry;
  entry.id = record.id;
  entry.count = record.array_count > 0 ? static_cast<std::uint32_t>(record.array_waiting.size()) : 1;
  if (entry.count == 0) return;
  entry.request = record.request;
  entry.request.others = InOpenPools(pools_.registry(), scheduler_, record);
  entry.priority = record.priority;
  entry.queued_at = record.queued_at;
  entry.time_limit = record.time_limit;
  const std::vector<std::string> pools = pools_.OpenPools(record);
  entry.pool = pools.empty() ? pools_.PlacePool(record.pool) : Join(pools, ",");
  if (pools_.NamesLimitedPools(record)) multi_pool_jobs_.insert(record.id);
  const PoolRow* first = pools.empty() ? nullptr : pools_.registry().Find(pools.front());
  const PlacementStrategy own = first == nullptr ? policy_.placement : first->placement.value_or(policy_.placement);
  entry.groups = GroupsOf(record);
  entry.placement = record.is_placement_set ? record.placement : own;
  // "First node with room" suits a single node. Over several nodes it fragments what large jobs need.
  const bool is_default = !record.is_placement_set && own == PlacementStrategy::kSequential;
  if (is_default && scheduler_.has_many()) entry.placement = PlacementStrategy::kBest;
  entry.placement_draw = Draw(seed_, record.id.value() + record.attempt);
  entry.user = record.user.name;
  entry.team = record.team;
  entry.predicted = predictions_.Predict(record);
  entry.preemptible = PreemptibleOf(record);
  entry.speeds = predictions_.LearnedSpeeds(record);
  entry.is_held = record.is_held;
  entry.begin = record.begin;
  entry.unmet_dependencies = dependencies_.UnmetDependencies(record);
  entry.waits_for = dependencies_.EndsWaitedFor(record);
  // Time-sharing may park running jobs so that a newcomer starts at once and gets its trial time. Only a job that has
  // never run is a newcomer, because a restarted one has had its trial time.
  entry.is_newcomer = policy_.time_sharing.is_on() && record.restarts == 0 && IsParkable(record);
  for (const std::string& bar : {teams_.TeamBar(record), pools_.PoolBar(record)}) {
    if (bar.empty()) continue;
    entry.unmet_dependencies.push_back(bar);
    entry.waits_for.clear();
  }
  KeepFrom(record, entry);
  teams_.KnowUserCap(record);
  deadlines_.Watch(record);
  scheduler_.Put(std::move(entry));
  effects_.RequestPlan();
}

RunningJob SchedulerFeed::RunningJobOf(const JobRecord& record) const {
  RunningJob job;
  job.id = record.id;
  job.node = nodes_.IndexOf(record.node).value_or(kOwnNode);
  job.gpus = record.gpus;
  job.share = record.gpu_parts;
  job.slice = record.gpu_slice;
  job.cpus = record.request.cpus;
  job.memory = record.request.memory;
  for (const NodeAllocation& allocation : record.gang)
    job.gang.push_back(PlaceOf(record.request, nodes_.IndexOf(allocation.node).value_or(kOwnNode), allocation.gpus,
                               allocation.tasks, allocation.parts));
  if (!job.gang.empty()) {
    job.cpus = job.gang.front().cpus;
    job.memory = job.gang.front().memory;
  }
  job.pool = record.pool_of_run.empty() ? record.pool : record.pool_of_run;
  job.groups = GroupsOf(record);
  job.started = record.started;
  job.known_end = Deadline(record);
  job.user = record.user.name;
  job.name = record.name;
  job.team = record.team;
  job.priority = record.priority;
  // Without a setting of its own, the job keeps what the configuration said at its start (RunTracker).
  job.preemptible = record.is_preemptible_set ? PreemptibleOf(record) : record.preemptible;
  job.is_leaving = WasPreempted(record);
  job.queued_at = record.queued_at;
  job.request = record.request;
  job.is_resizable = record.takes_resizes;
  job.asked_back = record.gpus_asked_back;
  job.asked_at = record.asked_back_at;
  job.grown_at = record.grown_at;
  job.predicted_end = ExpectedEnd(record).value_or(kNever);
  job.speeds = predictions_.LearnedSpeeds(record);
  return job;
}

Status SchedulerFeed::CheckTeamGpus(const JobRecord& record) const {
  if (record.request.gpus_in_all() == 0) return {};
  return CheckTeamFeasible(scheduler_, record.request, pools_.PlacePool(record.pool), record.team,
                           PreemptibleOf(record));
}

// A job with a terminal, or one that may run only once, cannot be queued again.
Preemptible SchedulerFeed::PreemptibleOf(const JobRecord& record) const {
  if (record.is_foreground || record.is_run_once) return Preemptible::kNever;
  return record.is_preemptible_set ? record.preemptible : policy_.preemptible;
}

std::vector<GroupName> SchedulerFeed::GroupsOf(const JobRecord& record) const {
  std::vector<GroupName> groups;
  if (!record.group.empty()) groups.push_back(GroupNameOf(record.group, record.user.name));
  if (record.array_count > 0 && record.array_at_once > 0) groups.push_back(ArrayGroupName(record.id));
  if (record.array.is_set()) groups.push_back(ArrayGroupName(record.array));
  for (GroupName& pool : pools_.GroupsOf(record)) groups.push_back(std::move(pool));
  for (GroupName& group : teams_.GroupsOf(record)) groups.push_back(std::move(group));
  return groups;
}

// Counts a started job in its own pool only.
void SchedulerFeed::CountInItsPool(const JobRecord& record) {
  if (NamesSeveralPools(record)) Regroup(record);
}

bool SchedulerFeed::FollowPools() {
  bool has_changed = false;
  for (auto at = multi_pool_jobs_.begin(); at != multi_pool_jobs_.end();) {
    const JobRecord* record = jobs_.Find(*at);
    const WaitingEntry* entry = record == nullptr ? nullptr : scheduler_.waiting(*at);
    if (entry == nullptr) {
      // The job may just have started; then its groups are those of its running record.
      const RunningJob* running = scheduler_.running(*at);
      const std::vector<GroupName> groups = running == nullptr ? std::vector<GroupName>() : running->groups;
      if (running != nullptr && record != nullptr) {
        CountInItsPool(*record);
        has_changed = has_changed || scheduler_.running(*at)->groups != groups;
      }
      at = multi_pool_jobs_.erase(at);
      continue;
    }
    ++at;
    const std::vector<std::string> open = pools_.OpenPools(*record);
    if ((open.empty() ? pools_.PlacePool(record->pool) : Join(open, ",")) == entry->pool &&
        InOpenPools(pools_.registry(), scheduler_, *record) == entry->request.others)
      continue;
    Put(*record);
    has_changed = true;
  }
  return has_changed;
}

// Elements that started while the array had no limit count against it from now on.
void SchedulerFeed::CountElements(const JobRecord& array) {
  for (const JobId element : jobs_.ElementsOf(array)) Regroup(jobs_.live().at(element));
}

}  // namespace divvy
