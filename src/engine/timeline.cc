#include "engine/timeline.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace divvy {
namespace {

// How long a job is expected to take that should have ended already. Any short time will do: it keeps "now" for what
// can start at once.
constexpr Duration kOverdue = std::chrono::seconds(1);

Time EndOf(const RunningJob& job, Time now) { return job.known_end <= now ? now + kOverdue : job.known_end; }

}  // namespace

Timeline::Timeline(const Cluster& cluster, int cpu_jobs_at_once, Time now)
    : now_(now),
      cpu_jobs_at_once_(cpu_jobs_at_once),
      cpus_(cluster.capacity().cpus),
      memory_(cluster.capacity().memory) {
  busy_until_.fill(now);
  owner_started_.fill(kNoTime);
  idle_ = GpuSet::FirstN(static_cast<int>(cluster.capacity().gpus.size()));
  for (const auto& [id, job] : cluster.running_jobs()) {
    const Time end = EndOf(job, now);
    for (std::uint64_t rest = job.gpus.bits(); rest != 0; rest &= rest - 1) {
      const auto gpu = static_cast<std::size_t>(__builtin_ctzll(rest));
      busy_until_[gpu] = end;
      owner_started_[gpu] = job.started;
    }
    idle_ = idle_ - job.gpus;
    if (job.cpus > 0 || job.memory > Bytes(0)) host_claims_.push_back({job.cpus, job.memory, end});
  }
  free_cpus_ = cpus_ - cluster.cpus_claimed();
  free_memory_ = memory_ - cluster.memory_claimed();
  cpu_jobs_running_ = cluster.cpu_jobs_running();
}

int Timeline::RunningOf(const Group& group) const {
  return group.running + static_cast<int>(std::count(started_of_group_.begin(), started_of_group_.end(), &group));
}

GpuSet Timeline::FreeThroughout(GpuSet candidates, std::span<const Hold> holds, Time from, Time until) const {
  if (from == now_) {
    candidates = candidates & idle_;
  } else {
    for (std::uint64_t rest = (candidates - idle_).bits(); rest != 0; rest &= rest - 1) {
      const auto gpu = static_cast<GpuIndex>(__builtin_ctzll(rest));
      if (busy_until_[gpu] > from) candidates.Erase(gpu);
    }
  }
  for (const Hold& hold : holds) {
    if (hold.Meets(from, until)) candidates = candidates - hold.gpus;
  }
  return candidates;
}

bool Timeline::HostFitsAt(const Need& need, std::span<const Hold> holds, Time moment) const {
  int cpus = free_cpus_;
  Bytes memory = free_memory_;
  if (moment > now_) {
    for (const HostClaim& claim : host_claims_) {
      if (claim.until <= moment) cpus += claim.cpus, memory += claim.memory;
    }
  }
  for (const Hold& hold : holds) {
    // What is held for GPU jobs does not bind jobs without GPUs: those wait for no GPU job.
    if (need.gpus == 0 && hold.is_gpu_job) continue;
    if (hold.from <= moment && moment < hold.until) cpus -= hold.cpus, memory -= hold.memory;
  }
  // Each only where it is asked for: a machine that is overcommitted already is no reason to refuse who wants nothing.
  return (need.cpus == 0 || need.cpus <= cpus) && (need.memory == Bytes(0) || need.memory <= memory);
}

bool Timeline::HostFits(const Need& need, std::span<const Hold> holds, Time from) const {
  if (!need.wants_host()) return true;
  if (!HostFitsAt(need, holds, from)) return false;
  // Running jobs only give back; what is free can shrink only where a hold begins.
  const Time until = need.Until(from);
  return std::all_of(holds.begin(), holds.end(), [&](const Hold& hold) {
    return hold.from <= from || hold.from >= until || HostFitsAt(need, holds, hold.from);
  });
}

const Group* Timeline::FullGroup(const Need& need, std::span<const Hold> holds) const {
  const Time until = need.Until(now_);
  for (const Group* group : need.groups) {
    if (group->limit == 0) continue;
    int running = RunningOf(*group);
    std::size_t last_ask = static_cast<std::size_t>(-1);
    for (const Hold& hold : holds) {
      if (hold.ask == last_ask || !hold.Meets(now_, until)) continue;
      if (std::find(hold.groups.begin(), hold.groups.end(), group) == hold.groups.end()) continue;
      last_ask = hold.ask;  // A drain may be several holds; it is one job.
      running += 1;
    }
    if (running >= group->limit) return group;
  }
  return nullptr;
}

// The only moments at which something becomes free.
std::vector<Time> Timeline::Moments(const Need& need, std::span<const Hold> holds) const {
  std::vector<Time> moments = {now_};
  for (std::uint64_t rest = (need.matches - idle_).bits(); rest != 0; rest &= rest - 1) {
    moments.push_back(busy_until_[static_cast<std::size_t>(__builtin_ctzll(rest))]);
  }
  if (need.wants_host()) {
    for (const HostClaim& claim : host_claims_) moments.push_back(claim.until);
  }
  for (const Hold& hold : holds) moments.push_back(hold.until);
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  if (moments.back() == kNever) moments.pop_back();
  return moments;
}

Promise Timeline::Earliest(const Need& need, std::span<const Hold> holds, bool may_drain) const {
  for (const Time start : Moments(need, holds)) {
    const Time until = need.Until(start);
    const GpuSet free = FreeThroughout(need.matches, holds, start, until);
    if (free.size() < need.gpus || !HostFits(need, holds, start)) continue;
    const std::optional<GpuSet> gpus = PickGpus(free, need.gpus, need.choice);
    if (!gpus) continue;
    Promise promise{start, *gpus, {}};
    promise.holds.push_back({promise.gpus, need.cpus, need.memory, start, until, need.groups, need.gpus > 0, false, 0});
    return promise;
  }
  return may_drain ? Drain(need, holds) : Promise{};
}

namespace {

/// A GPU that a job without a date may wait for.
struct Candidate {
  Time from;
  int promised;
  Time owner_started;
  std::uint64_t rank;
  int gpu;
  auto operator<=>(const Candidate&) const = default;
};

// Both with the last one first. Moments before ranks: two of index 0 and 1 that nobody can date are no better than one
// such and one that is idle.
bool IsSooner(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  const auto is_before = [](const Candidate& x, const Candidate& y) {
    return std::tie(x.from, x.promised, x.owner_started) < std::tie(y.from, y.promised, y.owner_started);
  };
  if (std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), is_before)) return true;
  if (std::lexicographical_compare(b.begin(), b.end(), a.begin(), a.end(), is_before)) return false;
  return a < b;
}

// Those of the set that is complete first and satisfies what `need` requires: its last GPU comes earliest, then the one
// before it, and so on.
std::vector<Candidate> FirstTogether(const std::vector<Candidate>& candidates, const Need& need) {
  std::vector<int> order;
  for (const Candidate& candidate : candidates) order.push_back(candidate.gpu);
  std::vector<Candidate> best;
  for (const std::vector<std::size_t>& places : GrownSets(order, need.gpus, need.choice)) {
    std::vector<Candidate> set;
    for (std::size_t place : places) set.push_back(candidates[place]);
    std::reverse(set.begin(), set.end());
    if (best.empty() || IsSooner(set, best)) best = std::move(set);
  }
  std::reverse(best.begin(), best.end());
  return best;
}

}  // namespace

Promise Timeline::Drain(const Need& need, std::span<const Hold> holds) const {
  // The GPUs that free first; among those that nobody can date, the ones that fewest wait for already, and then the
  // ones whose job has run longest.
  std::vector<Candidate> candidates;
  for (int gpu : need.matches.ToVector()) {
    const auto index = static_cast<std::size_t>(gpu);
    Time from = busy_until_[index];
    int promised = 0;
    for (const Hold& hold : holds) {
      if (!hold.gpus.Contains(static_cast<GpuIndex>(gpu))) continue;
      from = std::max(from, hold.until);
      promised += 1;
    }
    candidates.push_back({from, promised, owner_started_[index], PreferenceRank(gpu, need.choice), gpu});
  }
  std::sort(candidates.begin(), candidates.end());
  if (need.choice.is_strict()) candidates = FirstTogether(candidates, need);
  candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(need.gpus)));

  Promise promise;
  const bool is_gpu_job = need.gpus > 0;
  promise.holds.push_back({GpuSet(), need.cpus, need.memory, now_, kNever, need.groups, is_gpu_job, true, 0});
  for (const Candidate& candidate : candidates) {
    const auto gpu = static_cast<GpuIndex>(candidate.gpu);
    promise.gpus.Insert(gpu);
    // Where it cannot be had at all yet, the hold keeps nobody out; it is the note that this job waits for it.
    if (promise.holds.back().from != candidate.from) {
      promise.holds.push_back({GpuSet(), 0, Bytes(0), candidate.from, kNever, need.groups, is_gpu_job, true, 0});
    }
    promise.holds.back().gpus.Insert(gpu);
  }
  return promise;
}

void Timeline::Occupy(GpuSet gpus, Time until) {
  for (int gpu : gpus.ToVector()) busy_until_[static_cast<std::size_t>(gpu)] = until;
  for (int gpu : gpus.ToVector()) owner_started_[static_cast<std::size_t>(gpu)] = now_;
  idle_ = idle_ - gpus;
}

void Timeline::Vacate(GpuSet gpus) {
  for (int gpu : gpus.ToVector()) busy_until_[static_cast<std::size_t>(gpu)] = now_;
  for (int gpu : gpus.ToVector()) owner_started_[static_cast<std::size_t>(gpu)] = kNoTime;
  idle_ = idle_ | gpus;
}

void Timeline::Move(const Need& need, GpuSet from, GpuSet to) {
  Vacate(from);
  Occupy(to, need.Until(now_));
}

void Timeline::Claim(const Need& need, GpuSet gpus) {
  const Time until = need.Until(now_);
  Occupy(gpus, until);
  host_claims_.push_back({need.cpus, need.memory, until});
  free_cpus_ -= need.cpus;
  free_memory_ -= need.memory;
  if (need.gpus == 0) cpu_jobs_running_ += 1;
  started_of_group_.insert(started_of_group_.end(), need.groups.begin(), need.groups.end());
}

void Timeline::Unclaim(const Need& need, GpuSet gpus) {
  Vacate(gpus);
  host_claims_.pop_back();
  free_cpus_ += need.cpus;
  free_memory_ += need.memory;
  if (need.gpus == 0) cpu_jobs_running_ -= 1;
  started_of_group_.resize(started_of_group_.size() - need.groups.size());
}

}  // namespace divvy
