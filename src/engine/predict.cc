#include "engine/predict.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "engine/duration_text.h"
#include "engine/phrases.h"

namespace divvy {
namespace {

// Time runs in a list of GPUs ordered by when they are free, and in one list of ends per cap.
class Simulation {
 public:
  Simulation(const Cluster& cluster, const Policy& policy, Time now) : now_(now), cluster_(cluster) {
    for (int gpu : cluster.usable().ToVector()) {
      const std::optional<JobId> owner = cluster.owner(static_cast<GpuIndex>(gpu));
      gpus_.push_back({gpu, owner ? EndOf(*cluster.running(*owner)) : now, owner.value_or(JobId())});
    }
    std::stable_sort(gpus_.begin(), gpus_.end(), Earlier);
    cpu_cap_.ends.assign(static_cast<std::size_t>(std::max(policy.cpu_jobs_at_once, 0)), {now, JobId()});
    for (const auto& [id, job] : cluster.running_jobs()) {
      if (job.gpus.empty()) Occupy(cpu_cap_, {EndOf(job), id});
    }
  }

  struct Answer {
    Time start = kNever;
    std::vector<JobId> waits_for;  // Whose ends decide; when start is kNever, whose end nobody knows.
  };

  /// Where not any GPUs will do, the need of exactly those that are free together first; else `need`.
  Need Narrowed(const Need& need) const {
    if (!need.choice.is_strict()) return need;
    std::vector<int> order;
    std::vector<Time> free_at;
    for (const Gpu& gpu : gpus_) {
      if (!need.matches.Contains(static_cast<GpuIndex>(gpu.index))) continue;
      order.push_back(gpu.index);
      free_at.push_back(gpu.free_at);
    }
    Need out = need;
    std::vector<Time> soonest;  // Of its set, the last first.
    for (const std::vector<std::size_t>& places : GrownSets(order, need.gpus, need.choice)) {
      std::vector<Time> times;
      for (std::size_t place : places) times.insert(times.begin(), free_at[place]);
      if (!soonest.empty() && times >= soonest) continue;
      soonest = std::move(times);
      out.matches = GpuSet();
      for (std::size_t place : places) out.matches.Insert(static_cast<GpuIndex>(order[place]));
    }
    return out;
  }

  /// The next job in order starts as early as it can.
  void Place(const JobClass& job_class, const Need& asked, JobId id) {
    const Need need = Narrowed(asked);
    const Slot taken = {need.Until(StartOf(job_class, need)), id};
    if (need.gpus == 0) Occupy(cpu_cap_, taken);
    for (const Group* group : job_class.groups) {
      if (group->limit > 0) Occupy(CapOf(*group), taken);
    }
    if (need.gpus > 0) TakeGpus(need, taken);
  }

  /// The same as Find, without the names: it is asked for every job ahead.
  Time StartOf(const JobClass& job_class, const Need& asked) {
    const Need need = Narrowed(asked);
    Time start = now_;
    if (need.gpus == 0) start = std::max(start, cpu_cap_.ends.empty() ? kNever : cpu_cap_.ends.front().end);
    for (const Group* group : job_class.groups) {
      if (group->limit > 0) start = std::max(start, CapOf(*group).ends.front().end);
    }
    int left = need.gpus;
    for (const Gpu& gpu : gpus_) {
      if (left == 0) break;
      if (!need.matches.Contains(static_cast<GpuIndex>(gpu.index))) continue;
      start = std::max(start, gpu.free_at);
      --left;
    }
    return start;
  }

  Answer Find(const JobClass& job_class, const Need& asked) {
    const Need need = Narrowed(asked);
    Answer answer{now_, {}};
    if (need.gpus == 0) WaitForCap(answer, cpu_cap_);
    for (const Group* group : job_class.groups) {
      if (group->limit > 0) WaitForCap(answer, CapOf(*group));
    }
    int left = need.gpus;
    bool is_unknown = false;
    for (const Gpu& gpu : gpus_) {
      // Where nobody can say when, all whose end would help are named.
      if (left <= 0 && !is_unknown) break;
      if (!need.matches.Contains(static_cast<GpuIndex>(gpu.index))) continue;
      Wait(answer, {gpu.free_at, gpu.owner});
      is_unknown = is_unknown || gpu.free_at == kNever;
      --left;
    }
    return answer;
  }

 private:
  struct Slot {
    Time end = kNever;
    JobId job;
    friend bool operator<(const Slot& a, const Slot& b) { return a.end < b.end; }
  };
  struct Cap {
    std::vector<Slot> ends;  // As many as the cap, ascending: the first is the next to be free.
  };
  struct Gpu {
    int index = 0;
    Time free_at = kNever;
    JobId owner;
  };
  static bool Earlier(const Gpu& a, const Gpu& b) { return a.free_at < b.free_at; }

  Time EndOf(const RunningJob& job) const { return std::max(job.known_end, now_ + std::chrono::seconds(1)); }

  static void Occupy(Cap& cap, Slot slot) {
    if (cap.ends.empty()) return;
    cap.ends.erase(cap.ends.begin());
    cap.ends.insert(std::upper_bound(cap.ends.begin(), cap.ends.end(), slot), slot);
  }

  // The answer now waits for `slot` as well.
  void Wait(Answer& answer, const Slot& slot) const {
    if (slot.end <= now_) return;
    if (answer.start < slot.end && slot.end == kNever) answer.waits_for.clear();
    answer.start = std::max(answer.start, slot.end);
    // Without an end in sight only those matter whose end nobody knows.
    if ((answer.start < kNever || slot.end == kNever) && slot.job.is_set() &&
        std::find(answer.waits_for.begin(), answer.waits_for.end(), slot.job) == answer.waits_for.end()) {
      answer.waits_for.push_back(slot.job);
    }
  }

  void WaitForCap(Answer& answer, const Cap& cap) const {
    if (cap.ends.empty()) Wait(answer, {kNever, JobId()});
    else if (cap.ends.front().end < kNever) Wait(answer, cap.ends.front());
    else
      for (const Slot& slot : cap.ends) Wait(answer, slot);
  }

  Cap& CapOf(const Group& group) {
    const auto [at, is_new] = caps_.try_emplace(&group);
    if (!is_new) return at->second;
    at->second.ends.assign(static_cast<std::size_t>(group.limit), {now_, JobId()});
    for (const auto& [id, job] : cluster_.running_jobs()) {
      if (std::find(job.groups.begin(), job.groups.end(), group.name) == job.groups.end()) continue;
      Occupy(at->second, {EndOf(job), id});
    }
    return at->second;
  }

  // Merges the GPUs that become busy back into the order of the others.
  void TakeGpus(const Need& need, const Slot& taken) {
    std::array<int, GpuSet::kCapacity> picked;
    std::size_t count = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const bool takes =
          count < static_cast<std::size_t>(need.gpus) && need.matches.Contains(static_cast<GpuIndex>(gpus_[i].index));
      if (takes) picked[count++] = gpus_[i].index;
      else if (count < static_cast<std::size_t>(need.gpus) || gpus_[i].free_at <= taken.end) gpus_[kept++] = gpus_[i];
      else break;
    }
    // Behind `kept` there is room for exactly those that were picked; who is free later still stands behind them.
    for (std::size_t i = 0; i < count; ++i) gpus_[kept + i] = {picked[i], taken.end, taken.job};
  }

  Time now_;
  const Cluster& cluster_;
  std::vector<Gpu> gpus_;
  Cap cpu_cap_;
  std::map<const Group*, Cap> caps_;  // For look-up only.
};

// CPUs and memory: behind the running jobs and what is promised, not behind everybody ahead.
Time HostFreeAt(const Planner& planner, const Need& need, JobId entry) {
  Need host = need;
  host.matches = GpuSet();
  host.choice = GpuChoice();
  std::vector<Hold> holds = planner.HoldsOfOthers(entry);
  if (need.gpus > 0) {
    // The GPUs are accounted for elsewhere; but it stays a GPU job, which respects what is kept for GPU jobs.
    host.gpus = 0;
    for (Hold& hold : holds) hold.is_gpu_job = false;
  }
  return planner.timeline().Earliest(host, holds, false).start;
}

std::string EndsText(const Cluster& cluster, std::vector<JobId> jobs, const char* running_only, const char* some_wait) {
  std::sort(jobs.begin(), jobs.end());
  const bool all_run = std::all_of(jobs.begin(), jobs.end(), [&](JobId id) { return cluster.running(id) != nullptr; });
  return JobsText(jobs) + (all_run ? running_only : some_wait);
}

// Only the first promise is a bound; a job ahead that gets to start early may still push back those behind it.
Prediction FromPromise(const Cluster& cluster, const Promise& promise, bool is_first, Time now) {
  std::vector<JobId> waits_for;
  for (int gpu : promise.gpus.ToVector()) {
    const std::optional<JobId> owner = cluster.owner(static_cast<GpuIndex>(gpu));
    if (!owner || std::find(waits_for.begin(), waits_for.end(), *owner) != waits_for.end()) continue;
    const bool is_known = cluster.running(*owner)->known_end != kNever;
    if (is_known == (promise.start != kNever)) waits_for.push_back(*owner);
  }
  std::sort(waits_for.begin(), waits_for.end());
  if (promise.start == kNever) {
    if (waits_for.empty()) return {kNever, "no time can be given: what it waits for has no time limit"};
    return {kNever, "no time can be given: " + JobsText(waits_for) + (waits_for.size() == 1 ? " has" : " have") +
                        " no time limit; the next GPUs that become free are kept for it"};
  }
  const std::string reserved = is_first ? "reserved: at the latest " : "reserved behind other jobs: ";
  if (waits_for.empty()) return {promise.start, reserved + "in " + DurationText(promise.start - now)};
  return {promise.start, reserved + "when " + JobsText(waits_for) +
                             (waits_for.size() == 1 ? " reaches its time limit" : " reach their time limits")};
}

}  // namespace

OrderKey KeyOf(const Policy& policy, const WaitingEntry& entry, Time now) {
  const Place place = PlaceOf(entry);
  return {place, entry.request.gpus, IsEscalated(policy, place.since, now)};
}

Prediction Predict(const Cluster& cluster, const Policy& policy, const Planner& planner, const WaitingEntry& entry,
                   const JobClass& job_class, Time now) {
  for (std::size_t i = 0; i < planner.asks().size(); ++i) {
    if (planner.asks()[i].entry == entry.id) return FromPromise(cluster, planner.promises()[i], i == 0, now);
  }
  const Need need = NeedOf(cluster, job_class, entry.id, entry.count);
  const OrderKey own = KeyOf(policy, entry, now);
  Simulation simulation(cluster, policy, now);
  std::uint64_t ahead = 0;
  const JobClass* last = nullptr;
  Need other;
  for (QueueMerge merge(cluster.queue(), policy, now); !merge.IsEmpty() && GoesBefore(policy, merge.key(), own);) {
    // Equals need the same; only their draws differ, which do not matter here.
    if (last != &merge.job_class()) {
      last = &merge.job_class();
      other = NeedOf(cluster, *last, merge.key().place.id, merge.members_left());
    }
    // Jobs without GPUs wait for no GPU job, and what cannot run at all now is passed.
    if ((need.gpus == 0) != (other.gpus == 0) || !CouldRunNow(cluster, other)) {
      merge.DropClass();
      continue;
    }
    if (++ahead > kMostSimulated) {
      return {kNever, "no time can be given: more than " + std::to_string(kMostSimulated) + " jobs are ahead"};
    }
    simulation.Place(merge.job_class(), other, merge.key().place.id);
    // Only jobs without a limit can take the last GPUs that anybody can date.
    if (other.limit == Duration(0) && simulation.StartOf(job_class, need) == kNever) break;
    merge.NextMember();
  }
  Simulation::Answer answer = simulation.Find(job_class, need);
  const Time host = HostFreeAt(planner, need, entry.id);
  if (host == kNever && answer.start != kNever) {
    return {kNever, "no time can be given: CPUs or memory that it needs have no known end"};
  }
  if (answer.start == kNever) {
    if (answer.waits_for.empty()) return {kNever, "no time can be given: a cap of 0 jobs lets nothing start"};
    const bool is_one = answer.waits_for.size() == 1;
    return {kNever, "no time can be given: " +
                        EndsText(cluster, answer.waits_for, is_one ? " has no time limit" : " have no time limit",
                                 is_one ? ", ahead of it, has no time limit" : " have no time limit")};
  }
  const Time start = std::max({answer.start, host, entry.begin, now});
  if (start == entry.begin && entry.begin > now) return {start, "its begin time"};
  if (ahead > 0) {
    return {start, "going by time limits, after the " +
                       (ahead == 1 ? std::string("job") : std::to_string(ahead) + " jobs") + " ahead of it"};
  }
  if (answer.waits_for.empty())
    return {start, host > now ? "when running jobs give back CPUs or memory" : "its turn is next"};
  return {start, "when " + EndsText(cluster, answer.waits_for, "", "") +
                     (answer.waits_for.size() == 1 ? " reaches its time limit" : " reach their time limits")};
}

}  // namespace divvy
