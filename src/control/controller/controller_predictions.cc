// Run time predictions: learned from similar jobs, and applied to waiting jobs.
#include "control/books/record_parts.h"
#include "control/controller/controller.h"

namespace divvy {

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
  const std::optional<int> limit = feed_.group_limit(group);
  const auto submitted = Submit(std::move(spec), elements, caller, now, outcome);
  Result<Forecast> forecast = submitted ? Result<Forecast>(ForecastOf(submitted->id, now)) : submitted.error();
  if (submitted) {
    Withdraw({submitted->id}, now);
    dependencies_.ForgetOutcomes(dependencies);
    scheduler_.SetGroupLimit(ArrayGroupName(submitted->id), 0);
    if (!group.empty()) feed_.RestoreGroupLimit(group, limit);
  }
  jobs_.SetIds(ids);
  effects_.Restore(std::move(before));
  return forecast;
}

}  // namespace divvy
