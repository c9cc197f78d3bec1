// Run time predictions: learned from similar jobs, and applied to waiting jobs.
#include "control/books/record_parts.h"
#include "control/controller/controller.h"

namespace divvy {
namespace {

// How often predictions of waiting jobs are refreshed, and how many in one step.
constexpr Duration kRefreshEvery = std::chrono::minutes(1);
constexpr int kMostLooked = 2'000;  // About 0.2 ms.
constexpr int kMostRefreshed = 200;
constexpr Duration kBetweenSteps = std::chrono::milliseconds(50);

}  // namespace

void Controller::LearnRunTimes(const std::vector<JobRecord>& finished) {
  for (const JobRecord& record : finished) {
    run_times_.RanBefore(record);
    LearnSpeed(record, record.state == JobState::kSucceeded);
  }
}

// Sweeps the queue at most once a minute, in bounded steps.
void Controller::RefreshPredictions(Time now) {
  if (now < next_refresh_ || run_times_.runs() == refreshed_runs_) return;
  if (!refreshed_until_.is_set()) sweep_runs_ = run_times_.runs();
  int looked = 0, changed = 0;
  auto at = jobs_.live().upper_bound(refreshed_until_);
  for (; at != jobs_.live().end() && looked < kMostLooked && changed < kMostRefreshed; ++at, ++looked) {
    const WaitingEntry* entry = IsWaiting(at->second.state) ? scheduler_.waiting(at->first) : nullptr;
    if (entry == nullptr) continue;
    if (entry->predicted == run_times_.Predict(at->second) && entry->speeds == LearnedSpeeds(at->second)) continue;
    PutWaiting(at->second);
    ++changed;
  }
  if (at != jobs_.live().end()) {
    refreshed_until_ = JobId(at->first.value() - 1);
    next_refresh_ = AddSaturating(now, kBetweenSteps);
    return;
  }
  refreshed_until_ = JobId();
  refreshed_runs_ = sweep_runs_;
  next_refresh_ = AddSaturating(now, kRefreshEvery);
}

core::SpreadOf Controller::run_spread() const {
  return [this](JobId id) -> std::optional<core::RunSpread> {
    const JobRecord* record = jobs_.Find(id);
    if (record == nullptr) return std::nullopt;
    // The job's own progress is a better predictor than similar jobs.
    if (const auto own = SpreadByProgress(*record)) return own;
    return run_times_.Spread(*record);
  };
}

Controller::Forecast Controller::ForecastOf(JobId waiting, Time now) const {
  Forecast forecast;
  forecast.id = waiting;
  // An impossible dependency has cancelled it.
  if (scheduler_.waiting(waiting) == nullptr) {
    forecast.basis = "it waits for an event that can no longer happen";
    return forecast;
  }
  for (const StartDecision& start : scheduler_.WouldDecide(now).starts) {
    if (start.entry != waiting) continue;
    forecast.start = now;
    for (const NodePlace& place : start.gang)
      forecast.seats.push_back({nodes_.NodeName(place.node), place.gpus, place.tasks});
    if (start.gang.empty()) forecast.seats.push_back({nodes_.NodeName(start.node), start.gpus});
    return forecast;
  }
  const core::Explanation explanation = Explain(scheduler_, waiting, now, run_spread());
  // Other jobs get the free resources, or those released by the group limit that this job sets, first. When this job
  // would start then is not known yet.
  if (explanation.blockers.empty()) {
    forecast.basis = "other jobs that may start now go first";
    return forecast;
  }
  const Time start = explanation.start.typical;
  forecast.start = start == kNever ? kNever : std::max(start, now);
  forecast.basis = explanation.start.basis;
  return forecast;
}

Result<Controller::Forecast> Controller::Foresee(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                                                 const FindOutcome& outcome) {
  EffectRecorder before = effects_.SetAside();
  const JobTable::Ids ids = jobs_.ids();
  const std::vector<Dependency> dependencies = spec.dependencies;
  // Group limits outlive the jobs that set them, so they are restored.
  const std::string group = spec.group_limit > 0 ? spec.group : "";
  const auto known = group_limits_.find(group);
  const int limit = known == group_limits_.end() ? 0 : known->second;
  const auto submitted = Submit(std::move(spec), elements, caller, now, outcome);
  Result<Forecast> forecast = submitted ? Result<Forecast>(ForecastOf(submitted->id, now)) : submitted.error();
  if (submitted) {
    Withdraw({submitted->id}, now);
    dependencies_.ForgetOutcomes(dependencies);
    scheduler_.SetGroupLimit(ArrayGroupName(submitted->id), 0);
    if (!group.empty()) {
      if (limit > 0) group_limits_[group] = limit;
      else group_limits_.erase(group);
      scheduler_.SetGroupLimit(group, limit);
    }
  }
  jobs_.SetIds(ids);
  effects_.Restore(std::move(before));
  return forecast;
}

}  // namespace divvy
