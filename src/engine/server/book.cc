#include "engine/server/book.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/gpu_type.h"

namespace divvy {

GpuSet MatchingGpus(const NodeCapacity& capacity, const Request& request) {
  GpuSet matches;
  if (request.gpus == 0) return matches;
  for (const GpuFacts& gpu : capacity.gpus) {
    if (gpu.memory_total < request.gpu_memory) continue;
    if (request.gpu_type.empty() || MatchesGpuType(request.gpu_type, gpu.model)) matches.Insert(gpu.index);
  }
  return matches;
}

std::vector<GroupName> Normalised(std::vector<GroupName> groups) {
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

void Book::SetCapacity(NodeCapacity capacity) {
  DIVVY_ASSERT(capacity.gpus.size() <= GpuSet::kCapacity);
  DIVVY_ASSERT(capacity.gpus.size() >= availability_.size());
  // Its tables are worth keeping where nothing has changed.
  if (capacity_.gpus != capacity.gpus) topology_ = GpuTopology(capacity.gpus);
  capacity_ = std::move(capacity);
  availability_.resize(capacity_.gpus.size());
  usable_ = GpuSet();
  for (std::size_t i = 0; i < availability_.size(); ++i) {
    DIVVY_ASSERT(capacity_.gpus[i].index == i);
    if (availability_[i].is_usable()) usable_.Insert(static_cast<GpuIndex>(i));
  }
}

void Book::SetAvailability(GpuIndex gpu, GpuAvailability availability) {
  DIVVY_ASSERT(gpu < availability_.size());
  if (availability.is_usable()) usable_.Insert(gpu);
  else usable_.Erase(gpu);
  availability_[gpu] = std::move(availability);
}

void Book::SetGroupLimits(const GroupName& group, GroupLimits limits) {
  Group& known = groups_[group];
  known.limits = limits;
  if (!known.is_used()) groups_.erase(group);
}

void Book::Put(WaitingEntry entry) {
  DIVVY_ASSERT(entry.count > 0);
  const JobId id = entry.id;
  waiting_count_ += entry.count;
  const auto [at, is_new] = waiting_.try_emplace(id, std::move(entry));
  if (is_new) return;
  waiting_count_ -= at->second.count;
  at->second = std::move(entry);
}

void Book::Remove(JobId waiting) {
  const auto at = waiting_.find(waiting);
  DIVVY_ASSERT(at != waiting_.end());
  waiting_count_ -= at->second.count;
  waiting_.erase(at);
}

void Book::Leave(JobId entry) {
  const auto at = waiting_.find(entry);
  DIVVY_ASSERT(at != waiting_.end());
  waiting_count_ -= 1;
  if (--at->second.count == 0) waiting_.erase(at);
}

void Book::Adopt(RunningJob job) {
  job.groups = Normalised(std::move(job.groups));
  DIVVY_ASSERT((job.gpus & owned_).empty());
  DIVVY_ASSERT((job.gpus - GpuSet::FirstN(static_cast<int>(capacity_.gpus.size()))).empty());
  DIVVY_ASSERT(!running_.contains(job.id));
  for (int gpu : job.gpus.ToVector()) owners_[static_cast<std::size_t>(gpu)] = job.id;
  owned_ = owned_ | job.gpus;
  cpus_claimed_ += job.cpus;
  memory_claimed_ += job.memory;
  if (job.gpus.empty()) cpu_jobs_running_ += 1;
  for (const GroupName& name : job.groups) {
    Group& group = groups_[name];
    group.running += 1;
    group.gpus += job.gpus.size();
  }
  const JobId id = job.id;
  running_.emplace(id, std::move(job));
}

void Book::Finish(JobId running) {
  const auto at = running_.find(running);
  DIVVY_ASSERT(at != running_.end());
  const RunningJob job = std::move(at->second);
  running_.erase(at);
  for (int gpu : job.gpus.ToVector()) owners_[static_cast<std::size_t>(gpu)] = JobId();
  owned_ = owned_ - job.gpus;
  cpus_claimed_ -= job.cpus;
  memory_claimed_ -= job.memory;
  if (job.gpus.empty()) cpu_jobs_running_ -= 1;
  for (const GroupName& name : job.groups) {
    const auto group = groups_.find(name);
    group->second.running -= 1;
    group->second.gpus -= job.gpus.size();
    if (!group->second.is_used()) groups_.erase(group);
  }
}

void Book::Resize(JobId running, GpuSet gpus, GpuSet asked_back) {
  RunningJob& job = running_.at(running);
  DIVVY_ASSERT((gpus & (owned_ - job.gpus)).empty() && (asked_back - gpus).empty() && !gpus.empty());
  for (int gpu : job.gpus.ToVector()) owners_[static_cast<std::size_t>(gpu)] = JobId();
  for (int gpu : gpus.ToVector()) owners_[static_cast<std::size_t>(gpu)] = running;
  owned_ = (owned_ - job.gpus) | gpus;
  for (const GroupName& group : job.groups) groups_.at(group).gpus += gpus.size() - job.gpus.size();
  if (gpus != job.gpus) job.predicted_end = kNever;  // It was to end so on those that it had.
  job.gpus = gpus;
  job.asked_back = asked_back;
}

RunningJob* Book::find_running(JobId id) {
  const auto at = running_.find(id);
  return at == running_.end() ? nullptr : &at->second;
}

std::optional<JobId> Book::owner(GpuIndex gpu) const {
  if (!owned_.Contains(gpu)) return std::nullopt;
  return owners_[gpu];
}

const WaitingEntry* Book::waiting(JobId id) const {
  const auto at = waiting_.find(id);
  return at == waiting_.end() ? nullptr : &at->second;
}

const RunningJob* Book::running(JobId id) const {
  const auto at = running_.find(id);
  return at == running_.end() ? nullptr : &at->second;
}

GroupLimits Book::group_limits(const GroupName& group) const {
  const auto at = groups_.find(group);
  return at == groups_.end() ? GroupLimits() : at->second.limits;
}

int Book::group_running(const GroupName& group) const {
  const auto at = groups_.find(group);
  return at == groups_.end() ? 0 : at->second.running;
}

int Book::group_gpus(const GroupName& group) const {
  const auto at = groups_.find(group);
  return at == groups_.end() ? 0 : at->second.gpus;
}

std::string Book::CheckInvariants() const {
  GpuSet owned;
  int cpus = 0;
  Bytes memory;
  int cpu_jobs = 0;
  std::map<GroupName, int> running_of_group;
  std::map<GroupName, int> gpus_of_group;
  const GpuSet present = GpuSet::FirstN(static_cast<int>(capacity_.gpus.size()));
  for (const auto& [id, job] : running_) {
    const std::string name = "running job " + ToString(id);
    if (job.id != id) return name + " is kept under another id";
    if (!(job.gpus & owned).empty()) return name + " holds a GPU that another job holds";
    if (!(job.gpus - present).empty()) return name + " holds a GPU that this server does not have";
    for (int gpu : job.gpus.ToVector()) {
      if (owners_[static_cast<std::size_t>(gpu)] != id) return name + " is not noted as the owner of its GPU";
    }
    owned = owned | job.gpus;
    if (!(job.asked_back - job.gpus).empty()) return name + " is to give back a GPU that it does not hold";
    if (job.is_resizable && (job.gpus - job.asked_back).size() < job.request.gpus)
      return name + " is to keep fewer GPUs than it asked for";
    cpus += job.cpus;
    memory += job.memory;
    if (job.gpus.empty()) cpu_jobs += 1;
    for (const GroupName& group : job.groups) {
      running_of_group[group] += 1;
      gpus_of_group[group] += job.gpus.size();
    }
  }
  if (owned != owned_) return "the set of owned GPUs is not the sum of the running jobs' GPUs";
  for (std::size_t gpu = 0; gpu < owners_.size(); ++gpu) {
    const bool is_owned = owned.Contains(static_cast<GpuIndex>(gpu));
    if (!is_owned && owners_[gpu].is_set()) return "GPU " + std::to_string(gpu) + " is owned by a job that has it not";
  }
  if (cpus != cpus_claimed_) return "the claimed CPUs are not the sum of the running jobs' CPUs";
  if (memory != memory_claimed_) return "the claimed memory is not the sum of the running jobs' memory";
  if (cpu_jobs != cpu_jobs_running_) return "the count of running jobs without GPUs is wrong";
  std::uint64_t members = 0;
  for (const auto& [id, entry] : waiting_) {
    const std::string name = "waiting job " + ToString(id);
    if (entry.id != id) return name + " is kept under another id";
    if (entry.count == 0) return name + " has no member left";
    members += entry.count;
  }
  if (members != waiting_count_) return "the count of waiting jobs is not the sum of the entries";
  for (const auto& [name, group] : groups_) {
    if (group.running != running_of_group[name]) return "group " + name + " counts other running jobs than it has";
    if (group.gpus != gpus_of_group[name]) return "group " + name + " counts other GPUs than its jobs hold";
    if (!group.is_used()) return "group " + name + " is kept and not used";
  }
  for (const auto& [name, count] : running_of_group) {
    if (count > 0 && !groups_.contains(name)) return "group " + name + " is not kept and runs";
  }
  return "";
}

}  // namespace divvy
