#include "keeper/whole_takes.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"
#include "sharing/occupied_gpus.h"

namespace divvy::keeper {

void WholeTakes::OnHello(const wire::KeeperHello& hello) {
  takes_.clear();
  postponed_.clear();
  // Jobs with whole GPUs that ended while no daemon or agent was connected.
  std::vector<JobId> over;
  for (const RecordedWhole& whole : shared_.node.whole_jobs) {
    if (std::ranges::find(hello.whole_jobs, whole.job) == hello.whole_jobs.end()) over.push_back(whole.job);
  }
  for (const JobId job : over) Release(job);
}

void WholeTakes::Recover(const std::vector<RecordedWhole>& whole_jobs) {
  shared_.node.whole_jobs = whole_jobs;
  for (const RecordedWhole& whole : whole_jobs) shared_.planner.AcquireExclusive(whole.job.value(), whole.gpus);
}

void WholeTakes::TakeUp(const wire::KeeperHello& hello) {
  for (std::size_t i = 0; i < std::min(hello.whole_jobs.size(), hello.whole_gpus.size()); ++i) {
    shared_.node.whole_jobs.push_back({hello.whole_jobs[i], hello.whole_gpus[i]});
    shared_.planner.AcquireExclusive(hello.whole_jobs[i].value(), hello.whole_gpus[i]);
  }
}

void WholeTakes::Take(std::uint64_t id, const wire::KeeperAcquireExclusive& take) {
  if (Postpone(id, take)) return;
  std::erase_if(shared_.node.whole_jobs, [&](const RecordedWhole& whole) { return whole.job == take.job; });
  shared_.node.whole_jobs.push_back({take.job, take.gpus});
  shared_.RecordNode();
  takes_[take.job.value()] = {id, take.gpus, shared_.loop.Now(), BoundOf(take.gpus)};
  shared_.planner.AcquireExclusive(take.job.value(), take.gpus);
}

void WholeTakes::Give(JobId job) {
  std::erase_if(postponed_, [&](const auto& waiting) {
    if (waiting.second.job != job) return false;
    shared_.listener->Answer(waiting.first, FailedPrecondition("the job has released its GPUs"));
    return true;
  });
  Release(job);
  if (const auto take = takes_.find(job.value()); take != takes_.end()) {
    shared_.listener->Answer(take->second.request, FailedPrecondition("the job has released its GPUs"));
    takes_.erase(take);
  }
  shared_.RecordNode();
}

void WholeTakes::RetryPostponed() {
  for (const auto& [id, take] : std::exchange(postponed_, {})) Take(id, take);
}

void WholeTakes::OnReady(std::uint64_t job) {
  const auto take = takes_.find(job);
  if (take == takes_.end()) return;
  wire::KeeperLine line;
  line.answer.emplace().id = take->second.request;
  line.answer->room = wire::KeeperRoom{shared_.loop.Now() - take->second.since, take->second.bound};
  shared_.listener->Say(line);
  takes_.erase(take);
}

void WholeTakes::OnFailed(std::uint64_t job, const std::string& why) {
  const auto take = takes_.find(job);
  if (take == takes_.end()) return;
  const std::uint64_t request = take->second.request;
  takes_.erase(take);
  // The GPUs could not be emptied. Restores the state before the request for whole GPUs.
  Release(JobId(job));
  shared_.RecordNode();
  shared_.is_planner_due = true;
  shared_.listener->Answer(request, FailedPrecondition(why));
}

void WholeTakes::Show(wire::KeeperState& state) const {
  for (const auto& [id, take] : postponed_) {
    std::string why;
    for (const int gpu : take.gpus.ToVector()) {
      if (!slices_.HasSlices(static_cast<GpuIndex>(gpu))) continue;
      why += (why.empty() ? "" : "; ") + slices_.WhySlicesStay(static_cast<GpuIndex>(gpu));
    }
    state.waits.push_back({take.job, why});
  }
  for (const auto& [job, take] : takes_) {
    std::string who;
    for (const auto& [id, tenant] : shared_.planner.tenants()) {
      sharing::ForEachOccupied(tenant, [&, number = id.job](unsigned, GpuIndex gpu) {
        if (!take.gpus.Contains(gpu)) return;
        who += (who.empty() ? "" : ", ") + ("job " + std::to_string(number)) + " is leaving GPU " + std::to_string(gpu);
      });
    }
    if (who.empty()) continue;
    if (take.bound > Duration(0)) who += ", which takes at most " + DurationText(take.bound);
    state.waits.push_back({JobId(job), who, take.since, take.bound});
  }
}

void WholeTakes::Release(JobId job) {
  shared_.planner.ReleaseExclusive(job.value());
  std::erase_if(shared_.node.whole_jobs, [job](const RecordedWhole& whole) { return whole.job == job; });
}

bool WholeTakes::Postpone(std::uint64_t id, const wire::KeeperAcquireExclusive& take) {
  const std::vector<int> gpus = take.gpus.ToVector();
  if (std::ranges::none_of(gpus, [this](int gpu) { return slices_.HasSlices(static_cast<GpuIndex>(gpu)); }))
    return false;
  postponed_.emplace_back(id, take);
  return true;
}

/// Returns 0 if no tenant is there, or if one cannot leave.
Duration WholeTakes::BoundOf(GpuSet gpus) {
  use_.RefreshAll();
  const bool is_used = std::ranges::any_of(shared_.planner.tenants(), [&](const auto& entry) {
    return std::ranges::any_of(gpus.ToVector(),
                               [&](int gpu) { return sharing::Occupies(entry.second, static_cast<GpuIndex>(gpu)); });
  });
  const Duration bound = is_used ? shared_.planner.RepackBound(gpus) : Duration(0);
  return bound == Duration::max() ? Duration(0) : bound;
}

}  // namespace divvy::keeper
