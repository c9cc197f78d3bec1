#include "control/jobs/submissions.h"

#include <algorithm>
#include <utility>

#include "control/books/node_names.h"
#include "control/books/record_parts.h"
#include "engine/core/place/caps.h"
#include "engine/core/state/state.h"
#include "engine/scheduler/explain.h"
#include "model/run_line.h"
#include "model/same_element.h"

namespace divvy {
namespace {

JobRecord RecordOf(const JobSpec& spec, JobId id, const Caller& caller, Time now) {
  JobRecord record;
  record.id = id;
  record.spec_of = id;
  record.user = caller.user;
  record.name = spec.name;
  record.shape = ShapeOf(spec.command);
  record.request = spec.request;
  record.priority = spec.priority;
  record.submitted = record.queued_at = record.waits_since = now;
  record.begin = spec.begin;
  record.time_limit = spec.time_limit;
  record.end_by = spec.end_by;
  record.project = spec.project;
  record.pool = spec.pool;
  record.team = spec.team;
  record.comment = spec.comment;
  record.group = spec.group;
  record.dialect = spec.dialect;
  record.dependencies = spec.dependencies;
  record.needs_any_dependency = spec.needs_any_dependency;
  record.keeps_waiting = spec.keeps_waiting;
  record.is_held = spec.is_held;
  record.state = spec.is_held ? JobState::kHeld : JobState::kQueued;
  record.is_foreground = spec.is_foreground;
  record.wants_pty = spec.wants_pty;
  record.requeues_after_reboot = spec.requeues_after_reboot;
  record.is_run_once = spec.is_run_once;
  record.stale_grace = spec.stale_grace;
  record.retries = spec.retries;
  record.retry_delay = spec.retry_delay;
  record.placement = spec.placement;
  record.is_placement_set = spec.is_placement_set;
  record.preemptible = spec.preemptible;
  record.is_preemptible_set = spec.is_preemptible_set;
  return record;
}

}  // namespace

void Submissions::SplitByCounterparts(JobId array, Time now, const FindOutcome& outcome) {
  const JobRecord& whole = jobs_.live().at(array);
  for (std::uint32_t ordinal = 0; ordinal < whole.array_count; ++ordinal)
    static_cast<void>(lifecycle_.SplitElement(jobs_.live().at(array), ordinal));
  for (std::uint32_t ordinal = 0; jobs_.Find(array) != nullptr && ordinal < jobs_.Find(array)->array_count; ++ordinal) {
    const JobRecord* element = jobs_.Find(ElementId(array, ordinal));
    if (element == nullptr) continue;
    static_cast<void>(dependencies_.LearnOutcomes(element->dependencies, outcome));
    lifecycle_.ResolveDependents(JobRecord(*element), now);
  }
}

Result<SubmitResult> Submissions::Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                                         const FindOutcome& outcome) {
  DIVVY_CHECK(pools_.FillPool(spec));
  DIVVY_CHECK(limits_.CheckRoom(std::max<std::uint64_t>(elements, 1), caller));
  DIVVY_CHECK(limits_.CheckPriority(0, spec.priority, caller));
  if (spec.time_limit == Duration(0)) spec.time_limit = limits_.default_time_limit();
  DIVVY_CHECK(limits_.CheckTimeLimit(spec.time_limit));
  DIVVY_CHECK(CheckDeadline(spec.end_by, spec.time_limit, spec.begin, now));
  DIVVY_CHECK(teams_.CheckTeam(spec, elements, caller, now));
  DIVVY_CHECK(pools_.FillComponentPools(spec, caller));
  if (!spec.queues_anyway) {
    DIVVY_CHECK(CheckNodeNames(scheduler_, spec.request));
    DIVVY_CHECK(CheckFeasible(scheduler_, spec.request, pools_.PlacePool(spec.pool)));
    DIVVY_CHECK(feed_.CheckTeamGpus(RecordOf(spec, JobId(), caller, now)));
  }
  DIVVY_CHECK(CheckDependencyCount(spec.dependencies, elements));
  JobRecord record = RecordOf(spec, JobId(jobs_.ids().next), caller, now);
  if (elements > 0) {
    record.array_count = static_cast<std::uint32_t>(elements);
    record.array_waiting = IndexRanges(0, record.array_count - 1);
  }
  DIVVY_CHECK(SubmissionLimits::CheckTexts(jobs_.live(), {{record.id, record}}, caller));
  dependencies_.NameElements(spec.dependencies, outcome);
  record.dependencies = spec.dependencies;
  if (Status known = dependencies_.LearnOutcomes(spec.dependencies, outcome); !known) {
    dependencies_.ForgetOutcomes(spec.dependencies);
    return known.error();
  }

  const JobId id = record.id;
  if (elements == 0) {
    dependencies_.NameCounterparts(record, record.dependencies);
  } else {
    if (spec.array) {
      record.array_at_once = spec.array->at_once;
      if (spec.parameters.empty() && spec.array->indices != IndexRanges(0, record.array_count - 1)) {
        record.array_indices = spec.array->indices;
      }
    }
    if (record.array_at_once > 0) feed_.SetArrayLimit(record);
  }
  jobs_.TakeIds(elements);
  // As in Slurm, each further component of a heterogeneous job has an id of its own, directly after the job's.
  jobs_.ReserveIds(jobs_.ids().next + spec.request.others.size());
  if (!spec.group.empty() && spec.group_limit > 0) {
    feed_.SetGroupLimit(GroupNameOf(spec.group, caller.user.name), spec.group_limit);
  }

  JobRecord& kept = jobs_.live().emplace(id, std::move(record)).first->second;
  predictions_.Know(kept);
  dependencies_.Add(kept);
  effects_.Insert(kept, std::make_shared<const JobSpec>(std::move(spec)));
  effects_.KeepNextId(jobs_.ids().next);
  feed_.Put(kept);
  effects_.Announce(kept);
  effects_.RequestPlan();
  if (elements > 0 && WaitsForSameElement(kept.dependencies)) SplitByCounterparts(id, now, outcome);
  // A dependency that can never be met cancels the job at once, with the reason; it is then no longer live.
  else lifecycle_.ResolveDependents(JobRecord(kept), now);
  const JobRecord* left = jobs_.Find(id);
  // An array whose elements all have records of their own counts as running; here none has begun.
  const JobState state = left == nullptr                     ? JobState::kCancelled
                         : left->state == JobState::kRunning ? JobState::kQueued
                                                             : left->state;
  return SubmitResult{id, std::max<std::uint64_t>(elements, 1), state};
}

void Submissions::RemoveSubmission(JobId id, std::vector<JobRecord>& removed) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return;
  JobRecord& record = at->second;
  const std::uint64_t jobs = std::max<std::uint64_t>(1, record.array_count);
  // Elements that were about to start, or were split off for another reason, are removed with the array.
  const JobId end = ElementId(id, record.array_count);
  for (auto element = std::next(at); element != jobs_.live().end() && element->first < end;) {
    if (IsActive(element->second.state)) scheduler_.Finish(element->first);
    feed_.Remove(element->first);
    dependencies_.Remove(element->second);
    removed.push_back(std::move(element->second));
    element = jobs_.live().erase(element);
  }
  if (IsActive(record.state) && record.array_count == 0) scheduler_.Finish(id);
  feed_.Remove(id);
  predictions_.Forget(id);
  dependencies_.Remove(record);
  removed.push_back(std::move(record));
  jobs_.live().erase(at);
  jobs_.CountJobs(-static_cast<std::int64_t>(jobs));
  effects_.RequestPlan();
  if (const auto found = found_.all().find(id); found != found_.all().end()) {
    found->second.is_adopted = false;
    gpus_.RefreshGpusOf(found->second.run.record.node);
  }
}

// Withdrawn jobs count as cancelled for the jobs that depend on them.
void Submissions::Withdraw(const std::vector<JobId>& ids, Time now) {
  std::vector<JobRecord> withdrawn;
  for (const JobId id : ids) RemoveSubmission(id, withdrawn);
  for (JobRecord& record : withdrawn) {
    record.state = JobState::kCancelled;
    record.started = kNoTime;
    record.array_waiting = IndexRanges();
    dependencies_.KeepOutcome(record);
  }
  for (const JobRecord& record : withdrawn) lifecycle_.ResolveDependents(record, now);
}

Result<std::string> Submissions::RequeueEnded(JobRecord ended, const JobSpec& spec, std::optional<JobRecord> array,
                                              std::vector<std::string> owner_groups, RequeueAs as, const Caller& caller,
                                              Time now) {
  DIVVY_CHECK(access_.Authorise(ended, caller, "requeue"));
  DIVVY_CHECK(CheckCanQueueAgain(ended));
  if (ended.array.is_set() && !jobs_.live().contains(ended.array) && !array)
    return NotFound("its array " + ToString(ended.array) + " is not known any more; submit it again");
  JobSpec asked = spec;
  asked.request = ended.request;
  asked.team = ended.team;
  DIVVY_CHECK(limits_.CheckRoom(1, caller));
  // The same checks as for a new submission, with the values that may have been changed meanwhile.
  if (const Status fits = limits_.CheckTimeLimit(ended.time_limit); !fits && !caller.is_admin)
    return Error{fits.error().code, "it cannot run again unchanged; submit it again: " + fits.error().message};
  RestoreLimit(ended);
  if (const Status fits = CheckDeadline(ended.end_by, ended.time_limit, kNoTime, now); !fits)
    return Error{fits.error().code, "it cannot run again unchanged; submit it again: " + fits.error().message};
  DIVVY_CHECK(teams_.CheckTeam(asked, 0, {ended.user, caller.is_admin, std::move(owner_groups)}, now));
  DIVVY_TRY(ended.pool, pools_.CheckPools(ended.pool, {ended.request, ended.time_limit, ended.user.name,
                                                       teams_.registry().PathOf(asked.team), caller.is_admin}));
  if (!asked.queues_anyway) {
    DIVVY_CHECK(CheckFeasible(scheduler_, asked.request, pools_.PlacePool(ended.pool)));
    DIVVY_CHECK(feed_.CheckTeamGpus(ended));
  }

  JobRecord& record = jobs_.live().insert_or_assign(ended.id, std::move(ended)).first->second;
  if (record.array.is_set()) lifecycle_.SplitFromArray(record, std::move(array));
  // The job's dependencies on other jobs were met before its first run. But a singleton must wait again until no job of
  // the same name and user runs.
  std::erase_if(record.dependencies, [](const Dependency& one) { return one.kind != DependencyKind::kSingleton; });
  record.needs_any_dependency = false;
  record.is_held = as == RequeueAs::kHeld;
  record.retries_used = 0;
  ++record.restarts;
  effects_.KeepRun(record, record.state, record.ended);
  effects_.Note(record.id, EndText(record), record.ended);
  predictions_.Know(record);
  dependencies_.Add(record);
  lifecycle_.QueueAgain(record, kNoTime, QueuedAgainBy(caller, record.id, as), now);
  return std::string(record.is_held ? "queued again, and held" : "queued again");
}

Result<Forecast> Submissions::Foresee(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                                      const FindOutcome& outcome) {
  DIVVY_CHECK(CheckDependencyCount(spec.dependencies, elements));
  for (Dependency& dependency : spec.dependencies) {
    // The elements get no records. The first that can start does so when the whole array has ended, or earlier.
    if (elements == 0 || dependency.element != kSameElement) continue;
    dependency.element.reset();
    if (const auto ended = outcome(dependency.job); ended && IsFinal(ended->state) && ended->array_succeeded > 0)
      dependency.kind = DependencyKind::kAfterAny;
  }
  EffectRecorder before = effects_.SetAside();
  const JobTable::Ids ids = jobs_.ids();
  // Group limits outlive the jobs that set them, so they are restored.
  const std::string group = spec.group_limit > 0 ? GroupNameOf(spec.group, caller.user.name) : "";
  const std::optional<int> limit = feed_.group_limit(group);
  const auto submitted = Submit(std::move(spec), elements, caller, now, outcome);
  Result<Forecast> forecast = submitted ? Result<Forecast>(ForecastOf(submitted->id, now)) : submitted.error();
  if (submitted) {
    Withdraw({submitted->id}, now);
    scheduler_.SetGroupLimit(ArrayGroupName(submitted->id), 0);
    if (!group.empty()) feed_.RestoreGroupLimit(group, limit);
  }
  jobs_.SetIds(ids);
  effects_.Restore(std::move(before));
  return forecast;
}

Forecast Submissions::ForecastOf(JobId waiting, Time now) const {
  Forecast forecast;
  forecast.id = waiting;
  // The job is not in the queue, because a dependency that can never be met has cancelled it.
  if (scheduler_.waiting(waiting) == nullptr) {
    forecast.basis = "it waits for an event that can no longer happen";
    return forecast;
  }
  for (const StartDecision& start : scheduler_.WouldDecide(now).starts) {
    if (start.entry != waiting) continue;
    forecast.start = now;
    for (const NodeResources& place : start.gang)
      forecast.allocations.push_back({nodes_.NodeName(place.node), place.gpus, place.tasks});
    if (start.gang.empty()) forecast.allocations.push_back({nodes_.NodeName(start.node), start.gpus});
    return forecast;
  }
  const core::Explanation explanation = Explain(scheduler_, waiting, now, predictions_.Spread());
  // Other jobs get the free resources, or those released by the group limit that this job sets, first. When this job
  // would start then is not known yet.
  if (explanation.blockers.empty()) {
    forecast.basis = "other jobs that may start now go first";
    return forecast;
  }
  const core::ClusterState& state = scheduler_.core().state();
  const core::Waiting& it = state.waiting.at(waiting);
  const core::ClassKey& key = state.classes[it.job_class].key;
  forecast.is_kept = it.lane != core::Waiting::Lane::kReady || scheduler_.IsBarredByTeam(waiting) ||
                     core::RefusedBy(state, key.caps, core::LeastGpuParts(state.requests[key.request]));
  const Time start = explanation.start.typical;
  forecast.start = start == kNever ? kNever : std::max(start, now);
  forecast.basis = explanation.start.basis;
  return forecast;
}

}  // namespace divvy
