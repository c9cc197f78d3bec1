#include "control/controller/controller.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/node_names.h"
#include "control/books/pool_parts.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"
#include "control/controller/start_reason.h"
#include "model/run_line.h"

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
  record.retries = spec.retries;
  record.retry_delay = spec.retry_delay;
  record.placement = spec.placement;
  record.is_placement_set = spec.is_placement_set;
  record.preemptible = spec.preemptible;
  record.is_preemptible_set = spec.is_preemptible_set;
  return record;
}

}  // namespace

Controller::Controller(Policy policy, Limits limits, std::uint64_t seed)
    : scheduler_(policy.usage_half_life),
      gpus_(scheduler_, jobs_, effects_, nodes_, found_, limits.ignore_unmanaged_below),
      pools_(scheduler_, jobs_, nodes_, teams_.registry(), limits.default_time_limit),
      feed_(scheduler_, jobs_, effects_, {nodes_, dependencies_, pools_, teams_, predictions_, deadlines_},
            std::move(policy), seed),
      limits_(limits) {}

void Controller::SetCapacity(NodeCapacity capacity) {
  nodes_.SetCapacity(std::move(capacity));
  gpus_.Refresh(kOwnNode);
}

void Controller::Load(std::vector<JobRecord> live, const std::vector<std::pair<std::string, std::string>>& settings,
                      std::uint64_t next_id, std::uint64_t jobs_total, const FindOutcome& outcome) {
  jobs_.SetIds({next_id, jobs_total});
  for (const auto& [key, text] : settings) {
    if (gpus_.LoadSetting(key, text)) continue;
    if (key.starts_with(kGroupPrefix)) {
      const std::string group = key.substr(kGroupPrefix.size());
      feed_.LoadGroupLimit(group, static_cast<int>(ParseInteger(text).value_or(0)));
    } else {
      static_cast<void>(teams_.LoadSetting(key, text) || reservations_.LoadSetting(key, text));
    }
  }
  for (JobRecord& record : live) {
    // Elements belong to their array's kind.
    if (!record.array.is_set()) predictions_.Know(record);
    record.progress.was_paused = record.state == JobState::kPaused;
    jobs_.live().emplace(record.id, std::move(record));
  }
  teams_.LoadTeams(pools_.registry());
  for (auto& [id, record] : jobs_.live()) {
    if (record.array_at_once > 0) feed_.SetArrayLimit(record);
    // If a target was pruned before the dependency was decided, it stays pending.
    static_cast<void>(dependencies_.LearnOutcomes(record.dependencies, outcome));
  }
  for (auto& [id, record] : jobs_.live()) {
    if (IsActive(record.state)) {
      if (record.array_count > 0) continue;
      nodes_.KeepGpusOf(record);
      feed_.Adopt(record);
      // The user's program has not started, and it is not stored which nodes are ready, so the launch is rolled back.
      gangs_.NoteRestored(record);
    }
    dependencies_.Index(record, true);
  }
  for (auto& [id, record] : jobs_.live()) {
    if (record.state != JobState::kQueued && record.state != JobState::kHeld) continue;
    if (dependencies_.SettleDependencies(record)) effects_.Persist(record);
    feed_.Put(record);
  }
  teams_.LoadTeamUsage();
  for (NodeIndex node = kOwnNode; node < scheduler_.nodes().size(); ++node) gpus_.Refresh(node);
  effects_.RequestPlan();
}

Result<SubmitResult> Controller::Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                                        const FindOutcome& outcome) {
  DIVVY_CHECK(pools_.FillPool(spec));
  DIVVY_CHECK(CheckRoom(std::max<std::uint64_t>(elements, 1), caller));
  DIVVY_CHECK(CheckPriority(0, spec.priority, caller));
  if (spec.time_limit == Duration(0)) spec.time_limit = limits_.default_time_limit;
  DIVVY_CHECK(CheckTimeLimit(spec.time_limit));
  DIVVY_CHECK(CheckDeadline(spec.end_by, spec.time_limit, spec.begin, now));
  DIVVY_CHECK(teams_.CheckTeam(spec, elements, caller, now));
  DIVVY_CHECK(pools_.FillComponentPools(spec, caller));
  if (!spec.queues_anyway) {
    DIVVY_CHECK(CheckNodeNames(scheduler_, spec.request));
    DIVVY_CHECK(CheckFeasible(scheduler_, spec.request, pools_.PlacePool(spec.pool)));
    DIVVY_CHECK(feed_.CheckTeamGpus(RecordOf(spec, JobId(), caller, now)));
  }
  dependencies_.NameElements(spec.dependencies);
  if (Status known = dependencies_.LearnOutcomes(spec.dependencies, outcome); !known) {
    dependencies_.ForgetOutcomes(spec.dependencies);
    return known.error();
  }

  const JobId id(jobs_.ids().next);
  JobRecord record = RecordOf(spec, id, caller, now);
  if (elements > 0) {
    record.array_count = static_cast<std::uint32_t>(elements);
    record.array_waiting = IndexRanges(0, record.array_count - 1);
    if (spec.array) {
      record.array_at_once = spec.array->at_once;
      if (spec.parameters.empty() && spec.array->indices != IndexRanges(0, record.array_count - 1)) {
        record.array_indices = spec.array->indices;
      }
    }
    if (record.array_at_once > 0) feed_.SetArrayLimit(record);
  }
  jobs_.TakeIds(elements);
  if (!spec.group.empty() && spec.group_limit > 0) {
    feed_.SetGroupLimit(spec.group, spec.group_limit);
  }

  JobRecord& kept = jobs_.live().emplace(id, std::move(record)).first->second;
  predictions_.Know(kept);
  dependencies_.Index(kept, true);
  effects_.Insert(kept, std::make_shared<const JobSpec>(std::move(spec)));
  effects_.KeepNextId(jobs_.ids().next);
  feed_.Put(kept);
  effects_.Announce(kept);
  effects_.RequestPlan();
  // A dependency that can never be met cancels the job at once, with the reason; it is then no longer live.
  lifecycle_.ResolveDependents(JobRecord(kept), now);
  const JobRecord* left = jobs_.Find(id);
  return SubmitResult{id, std::max<std::uint64_t>(elements, 1), left == nullptr ? JobState::kCancelled : left->state};
}

Status Controller::CheckPriority(int before, int after, const Caller& caller) const {
  const int most = std::max(before, 0);
  if (after <= most || caller.is_admin || limits_.users_may_raise) return {};
  return PermissionDenied("a priority above " + std::to_string(most) +
                          " takes an administrator, or users_may_raise = "
                          "true under [priorities]; users give their jobs at most " +
                          std::to_string(most));
}

Status Controller::CheckRoom(std::uint64_t jobs, const Caller& caller) const {
  const std::uint64_t own = scheduler_.waiting_of(caller.user.name);
  if (!caller.is_admin && own + jobs > limits_.max_queued_of_user) {
    return LimitExceeded("user " + caller.user.name + " has " + std::to_string(own) + " of at most " +
                         std::to_string(limits_.max_queued_of_user) +
                         " jobs in the queue; wait, cancel some, or ask an administrator to raise max_queued_of_user "
                         "under [queue]");
  }
  if (scheduler_.waiting_count() + jobs <= limits_.max_queued) return {};
  return LimitExceeded("the queue holds " + std::to_string(scheduler_.waiting_count()) + " of at most " +
                       std::to_string(limits_.max_queued) +
                       " jobs; wait, cancel some, or raise max_queued under [queue]");
}

void Controller::RemoveSubmission(JobId id, std::vector<JobRecord>& removed) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return;
  JobRecord& record = at->second;
  const std::uint64_t jobs = std::max<std::uint64_t>(1, record.array_count);
  // Elements that were about to start, or were split off for another reason, are removed with the array.
  const JobId end = ElementId(id, record.array_count);
  for (auto element = std::next(at); element != jobs_.live().end() && element->first < end;) {
    if (IsActive(element->second.state)) scheduler_.Finish(element->first);
    feed_.Remove(element->first);
    dependencies_.Index(element->second, false);
    removed.push_back(std::move(element->second));
    element = jobs_.live().erase(element);
  }
  if (IsActive(record.state) && record.array_count == 0) scheduler_.Finish(id);
  feed_.Remove(id);
  predictions_.Forget(id);
  dependencies_.Index(record, false);
  removed.push_back(std::move(record));
  jobs_.live().erase(at);
  jobs_.CountJobs(-static_cast<std::int64_t>(jobs));
  effects_.RequestPlan();
  if (const auto found = found_.all().find(id); found != found_.all().end()) {
    found->second.is_adopted = false;
    gpus_.RefreshGpusOf(found->second.run.record.node);
  }
}

void Controller::Decide(Time now) {
  runs_.KeepStarts(now);
  if (!effects_.needs_plan() && now < effects_.next_wakeup()) return;
  feed_.WatchBudgets(now);
  reservations_.Follow(now);
  for (const NodeIndex node : nodes_.FollowMachines(now)) runs_.StopForDrain(node, now);
  gangs_.Follow(now);
  lifecycle_.EndLate(now);
  for (const JobId job : predictions_.Sweep(now)) feed_.Put(jobs_.live().at(job));
  teams_.KeepTeamUsage(now);
  progress_.Keep(now);
  constexpr int kMostRounds = 64;
  feed_.FollowPools();
  fractions_.Pack();
  Time wakeup = CarryOut(now);
  for (int round = 1; round < kMostRounds && feed_.FollowPools(); ++round) wakeup = CarryOut(now);
  if (feed_.FollowPools()) wakeup = now;
  feed_.WatchBudgets(now);
  effects_.SetNextWakeup(std::min({wakeup, teams_.budgets().next_change(), reservations_.next_booking(),
                                   progress_.next_keep(), runs_.next_keep()}));
  effects_.WakeBy(nodes_.next_change());
  effects_.WakeBy(deadlines_.next_late());
  effects_.WakeBy(gangs_.next_deadline());
  effects_.WakeBy(predictions_.next_sweep());
}

Time Controller::CarryOut(Time now) {
  effects_.SetNeedsPlan(false);
  const auto [plan, jobs] = scheduler_.Decide(now, [this](JobId entry) { return runs_.NextMember(entry); });
  for (std::size_t i = 0; i < jobs.size(); ++i) runs_.Start(plan.starts[i], jobs[i], now);
  for (const Preemption& preemption : plan.preemptions) runs_.TakeBack(preemption, now);
  for (const Resizing& resizing : plan.resizings) elastic_.Resize(resizing, now);
  // Only after all records match the cluster: "after:" dependencies need only a start.
  for (const JobId job : jobs) {
    if (const JobRecord* record = jobs_.Find(job)) lifecycle_.ResolveDependents(*record, now);
  }
  if (!plan.starts.empty()) teams_.budgets().NoteStarts();
  return plan.next_wakeup;
}

Reason Controller::WaitingReason(const JobRecord& record) const {
  FirstBlockers blockers(scheduler_, scheduler_.decided_at());
  return WaitingReasonOf(*this, record, blockers);
}

std::string Controller::CheckInvariants() const {
  if (std::string broken = scheduler_.CheckInvariants(); !broken.empty()) return broken;
  for (const auto& [id, record] : jobs_.live()) {
    const std::string name = "job " + ToString(id);
    if (record.id != id) return name + " is kept under another id";
    if (IsFinal(record.state)) return name + " is final and still live";
    if (id.value() >= jobs_.ids().next) return name + " has an id that was not given out";
    const bool is_array = record.array_count > 0;
    const RunningJob* running = scheduler_.running(id);
    if (IsActive(record.state) && !is_array) {
      if (running == nullptr) return name + " is active and does not run in the cluster";
      if (running->gpus != record.gpus || nodes_.NodeName(running->node) != record.node)
        return name + " holds other GPUs in the cluster";
      if (running->gang.size() != record.gang.size()) return name + " is on other machines in the cluster";
      for (std::size_t i = 0; i < record.gang.size(); ++i) {
        const bool is_same = nodes_.NodeName(running->gang[i].node) == record.gang[i].node &&
                             running->gang[i].gpus == record.gang[i].gpus;
        if (!is_same) return name + " holds other GPUs of its machines in the cluster";
      }
      const int gpus = running->gpu_count();
      const int least = record.request.gpus_in_all();
      if (gpus < least || gpus > std::max(least, record.request.gpus_at_most()))
        return name + " holds another number of GPUs than it asked for";
    } else if (running != nullptr) {
      return name + " runs in the cluster and is not active";
    }
    const bool should_wait = record.state == JobState::kQueued || record.state == JobState::kHeld;
    const WaitingEntry* entry = scheduler_.waiting(id);
    if (should_wait != (entry != nullptr))
      return name + (should_wait ? " waits without an entry" : " has an entry and does not wait");
    if (entry != nullptr && is_array && entry->count != record.array_waiting.size())
      return name + " has another count of elements";
  }
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    if (!jobs_.live().contains(id)) return "job " + ToString(id) + " runs in the cluster and is not live";
  }
  return "";
}

}  // namespace divvy
