#include "engine/scheduler/scheduler_facts.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/gpu_type.h"

namespace divvy {
namespace {

constexpr GpuShare kWholeGpu{GpuShare::kWhole};

}  // namespace

GpuShare NodeUsage::room(GpuIndex gpu) const {
  if (!owned.Contains(gpu)) return kWholeGpu;
  const auto shared = sharers.find(gpu);
  if (shared == sharers.end()) return GpuShare();
  GpuShare rest = kWholeGpu;
  for (const auto& [job, share] : shared->second) rest = rest - share;
  return rest;
}

GpuSet MatchingGpus(const NodeCapacity& capacity, const Request& request) {
  GpuSet matches;
  if (request.gpus == 0) return matches;
  for (const GpuFacts& gpu : capacity.gpus) {
    if (gpu.memory_total < request.gpu_memory) continue;
    const bool is_cut_so = std::ranges::any_of(
        gpu.slices, [&](const SliceProfile& profile) { return IsSuchSlice(profile, request.slice); });
    if (request.slice.empty() ? gpu.is_only_sliced : !is_cut_so) continue;
    if (request.is_portioned() && PartsOf(request.portion, gpu.memory_total) > GpuShare(GpuShare::kWhole)) continue;
    if (request.gpu_type.empty() || MatchesGpuType(request.gpu_type, gpu.model)) matches.Insert(gpu.index);
  }
  return matches;
}

std::vector<GroupName> Normalised(std::vector<GroupName> groups) {
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

void SchedulerFacts::SetCapacity(NodeIndex node, NodeCapacity capacity) {
  DIVVY_ASSERT(node <= nodes_.size());
  if (node == nodes_.size()) nodes_.emplace_back();
  NodeUsage& known = nodes_[node];
  DIVVY_ASSERT(capacity.gpus.size() <= GpuSet::kCapacity);
  DIVVY_ASSERT((known.owned - GpuSet::FirstN(static_cast<int>(capacity.gpus.size()))).empty());
  // The topology tables are expensive, so they are rebuilt only if the GPUs have changed.
  if (known.capacity.gpus != capacity.gpus) known.topology = GpuTopology(capacity.gpus);
  known.capacity = std::move(capacity);
  known.availability.resize(known.capacity.gpus.size());
  known.usable = GpuSet();
  for (std::size_t i = 0; i < known.availability.size(); ++i) {
    DIVVY_ASSERT(known.capacity.gpus[i].index == i);
    if (known.availability[i].is_usable()) known.usable.Insert(static_cast<GpuIndex>(i));
  }
}

void SchedulerFacts::SetTakesWork(NodeIndex node, bool takes_work, std::string idle_reason) {
  nodes_[node].takes_work = takes_work;
  nodes_[node].idle_reason = std::move(idle_reason);
}

void SchedulerFacts::SetAvailability(NodeIndex node, GpuIndex gpu, GpuAvailability availability) {
  NodeUsage& known = nodes_[node];
  DIVVY_ASSERT(gpu < known.availability.size());
  if (availability.is_usable()) known.usable.Insert(gpu);
  else known.usable.Erase(gpu);
  known.availability[gpu] = std::move(availability);
}

void SchedulerFacts::SetGroupLimits(const GroupName& group, GroupLimits limits) {
  Group& known = groups_[group];
  known.limits = limits;
  if (!known.is_used()) groups_.erase(group);
}

void SchedulerFacts::Put(WaitingEntry entry) {
  DIVVY_ASSERT(entry.count > 0);
  const JobId id = entry.id;
  CountWaiting(entry, entry.count);
  const auto [at, is_new] = waiting_.try_emplace(id, std::move(entry));
  if (is_new) return;
  CountWaiting(at->second, -std::int64_t{at->second.count});
  at->second = std::move(entry);
}

void SchedulerFacts::CountWaiting(const WaitingEntry& entry, std::int64_t members) {
  waiting_count_ += static_cast<std::uint64_t>(members);
  std::uint64_t& of_user = waiting_of_user_[entry.user];
  of_user += static_cast<std::uint64_t>(members);
  if (of_user == 0) waiting_of_user_.erase(entry.user);
}

std::uint64_t SchedulerFacts::waiting_of(const std::string& user) const {
  const auto found = waiting_of_user_.find(user);
  return found == waiting_of_user_.end() ? 0 : found->second;
}

void SchedulerFacts::Remove(JobId waiting) {
  const auto at = waiting_.find(waiting);
  DIVVY_ASSERT(at != waiting_.end());
  CountWaiting(at->second, -std::int64_t{at->second.count});
  waiting_.erase(at);
}

void SchedulerFacts::Leave(JobId entry) {
  const auto at = waiting_.find(entry);
  DIVVY_ASSERT(at != waiting_.end());
  CountWaiting(at->second, -1);
  if (--at->second.count == 0) waiting_.erase(at);
}

void SchedulerFacts::Take(JobId job, const NodeResources& place) {
  NodeUsage& node = nodes_[place.node];
  DIVVY_ASSERT((place.gpus - node.present()).empty());
  for (int index : place.gpus.ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    DIVVY_ASSERT(node.room(gpu) >= place.share);
    if (place.share == kWholeGpu) node.owners[gpu] = job;
    else node.sharers[gpu][job] = place.share;
  }
  node.owned = node.owned | place.gpus;
  node.cpus_claimed += place.cpus;
  node.memory_claimed += place.memory;
}

void SchedulerFacts::Free(JobId job, const NodeResources& place) {
  NodeUsage& node = nodes_[place.node];
  for (int index : place.gpus.ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    node.owners[gpu] = JobId();
    const auto shared = node.sharers.find(gpu);
    if (shared != node.sharers.end()) {
      shared->second.erase(job);
      if (!shared->second.empty()) continue;
      node.sharers.erase(shared);
    }
    node.owned.Erase(gpu);
  }
  node.cpus_claimed -= place.cpus;
  node.memory_claimed -= place.memory;
}

void SchedulerFacts::Adopt(RunningJob job) {
  job.groups = Normalised(std::move(job.groups));
  DIVVY_ASSERT(!running_.contains(job.id));
  for (const NodeResources& place : job.places()) Take(job.id, place);
  if (job.is_cpu_job()) cpu_jobs_running_ += 1;
  for (const GroupName& name : job.groups) {
    Group& group = groups_[name];
    group.running += 1;
    group.gpu_parts += job.gpu_parts();
  }
  const JobId id = job.id;
  running_.emplace(id, std::move(job));
}

void SchedulerFacts::Finish(JobId running) {
  const auto at = running_.find(running);
  DIVVY_ASSERT(at != running_.end());
  const RunningJob job = std::move(at->second);
  running_.erase(at);
  for (const NodeResources& place : job.places()) Free(running, place);
  if (job.is_cpu_job()) cpu_jobs_running_ -= 1;
  for (const GroupName& name : job.groups) {
    const auto group = groups_.find(name);
    group->second.running -= 1;
    group->second.gpu_parts -= job.gpu_parts();
    if (!group->second.is_used()) groups_.erase(group);
  }
}

void SchedulerFacts::Resize(JobId running, GpuSet gpus, GpuSet asked_back) {
  RunningJob& job = running_.at(running);
  DIVVY_ASSERT(job.gang.empty() && (asked_back - gpus).empty() && !gpus.empty());
  NodeResources place = job.places().front();
  Free(running, place);
  place.gpus = gpus;
  Take(running, place);
  for (const GroupName& group : job.groups)
    groups_.at(group).gpu_parts += (std::int64_t{gpus.size()} - job.gpus.size()) * GpuShare::kWhole;
  if (gpus != job.gpus) job.predicted_end = kNever;  // The prediction was for its previous GPUs.
  job.gpus = gpus;
  job.asked_back = asked_back;
}

void SchedulerFacts::Park(JobId running, Bytes more_memory) {
  RunningJob& job = running_.at(running);
  DIVVY_ASSERT(job.gang.empty() && !job.is_displaced);
  job.is_displaced = true;
  job.asked_back = job.gpus;
  job.memory += more_memory;
  nodes_[job.node].memory_claimed += more_memory;
}

RunningJob* SchedulerFacts::find_running(JobId id) {
  const auto at = running_.find(id);
  return at == running_.end() ? nullptr : &at->second;
}

std::vector<JobId> SchedulerFacts::holders(NodeIndex node, GpuIndex gpu) const {
  const NodeUsage& known = nodes_[node];
  if (!known.owned.Contains(gpu)) return {};
  const auto shared = known.sharers.find(gpu);
  if (shared == known.sharers.end()) return {known.owners[gpu]};
  std::vector<JobId> all;
  for (const auto& [job, share] : shared->second) all.push_back(job);
  return all;
}

const WaitingEntry* SchedulerFacts::waiting(JobId id) const {
  const auto at = waiting_.find(id);
  return at == waiting_.end() ? nullptr : &at->second;
}

const RunningJob* SchedulerFacts::running(JobId id) const {
  const auto at = running_.find(id);
  return at == running_.end() ? nullptr : &at->second;
}

GroupLimits SchedulerFacts::group_limits(const GroupName& group) const {
  const auto at = groups_.find(group);
  return at == groups_.end() ? GroupLimits() : at->second.limits;
}

int SchedulerFacts::group_running(const GroupName& group) const {
  const auto at = groups_.find(group);
  return at == groups_.end() ? 0 : at->second.running;
}

int SchedulerFacts::group_gpus(const GroupName& group) const {
  const auto at = groups_.find(group);
  if (at == groups_.end()) return 0;
  return static_cast<int>((at->second.gpu_parts + GpuShare::kWhole - 1) / GpuShare::kWhole);
}

std::string SchedulerFacts::CheckNode(NodeIndex index) const {
  const NodeUsage& node = nodes_[index];
  const std::string where = " of machine " + std::to_string(index);
  GpuSet owned;
  std::map<GpuIndex, std::map<JobId, GpuShare>> sharers;
  int cpus = 0;
  Bytes memory;
  for (const auto& [id, job] : running_) {
    for (const NodeResources& place : job.places()) {
      if (place.node != index) continue;
      const std::string name = "running job " + ToString(id);
      if (!(place.gpus - node.present()).empty()) return name + " holds a GPU that is none" + where;
      for (const int number : place.gpus.ToVector()) {
        const auto gpu = static_cast<GpuIndex>(number);
        const bool is_whole = place.share == kWholeGpu;
        const bool is_taken = is_whole ? owned.Contains(gpu) : owned.Contains(gpu) && !sharers.contains(gpu);
        if (is_taken) return name + " holds a GPU" + where + " that another job holds";
        if (!is_whole) sharers[gpu][id] = place.share;
        else if (node.owners[gpu] != id) return name + " is not noted as the owner of its GPU";
      }
      owned = owned | place.gpus;
      cpus += place.cpus;
      memory += place.memory;
    }
  }
  if (owned != node.owned) return "the set of owned GPUs" + where + " is not the sum of the running jobs' GPUs";
  if (sharers != node.sharers)
    return "the jobs recorded as sharing GPUs" + where + " are not the running jobs that have fractions of them";
  for (const auto& [gpu, parts] : sharers) {
    GpuShare sum;
    for (const auto& [job, share] : parts) sum = sum + share;
    if (sum > kWholeGpu) return "GPU " + std::to_string(gpu) + where + " is allocated more than once";
  }
  for (std::size_t gpu = 0; gpu < node.owners.size(); ++gpu) {
    const bool is_owned = owned.Contains(static_cast<GpuIndex>(gpu));
    if (!is_owned && node.owners[gpu].is_set())
      return "GPU " + std::to_string(gpu) + where + " is recorded for a job that does not have it";
  }
  if (cpus != node.cpus_claimed) return "the claimed CPUs" + where + " are not the sum of the running jobs' CPUs";
  if (memory != node.memory_claimed)
    return "the claimed memory" + where + " is not the sum of the running jobs' memory";
  return "";
}

std::string SchedulerFacts::CheckInvariants() const {
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    if (std::string broken = CheckNode(node); !broken.empty()) return broken;
  }
  int cpu_jobs = 0;
  std::map<GroupName, int> running_of_group;
  std::map<GroupName, std::int64_t> parts_of_group;
  for (const auto& [id, job] : running_) {
    const std::string name = "running job " + ToString(id);
    if (job.id != id) return name + " is stored under another id";
    if (!(job.asked_back - job.gpus).empty()) return name + " was asked to release a GPU that it does not hold";
    if (job.is_resizable && (job.gpus - job.asked_back).size() < job.request.gpus)
      return name + " was asked to release so many GPUs that it would have fewer than its minimum";
    const bool agrees = job.gang.empty() || (job.gang.front().node == job.node && job.gang.front().gpus == job.gpus);
    if (!agrees) return name + " has a first node that is not the first of its node list";
    if (job.is_cpu_job()) cpu_jobs += 1;
    for (const GroupName& group : job.groups) {
      running_of_group[group] += 1;
      parts_of_group[group] += job.gpu_parts();
    }
  }
  if (cpu_jobs != cpu_jobs_running_) return "the count of running jobs without GPUs is wrong";
  std::uint64_t members = 0;
  std::unordered_map<std::string, std::uint64_t> of_user;
  for (const auto& [id, entry] : waiting_) {
    const std::string name = "waiting job " + ToString(id);
    if (entry.id != id) return name + " is stored under another id";
    if (entry.count == 0) return name + " has no waiting job left";
    members += entry.count;
    of_user[entry.user] += entry.count;
  }
  if (of_user != waiting_of_user_) return "the counts of waiting jobs by user are not the sums of their entries";
  if (members != waiting_count_) return "the count of waiting jobs is not the sum of the entries";
  for (const auto& [name, group] : groups_) {
    if (group.running != running_of_group[name]) return "group " + name + " counts other running jobs than it has";
    if (group.gpu_parts != parts_of_group[name]) return "group " + name + " counts other GPUs than its jobs hold";
    if (!group.is_used()) return "group " + name + " is stored, but no job is in it";
  }
  for (const auto& [name, count] : running_of_group) {
    if (count > 0 && !groups_.contains(name)) return "group " + name + " has running jobs, but is not stored";
  }
  return "";
}

}  // namespace divvy
