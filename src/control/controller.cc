#include "control/controller.h"

#include <algorithm>

#include "base/text.h"
#include "control/record_parts.h"
#include "control/settings_text.h"

namespace divvy {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): spreads a seed and an id over all bits.
std::uint64_t Draw(std::uint64_t seed, std::uint64_t id) {
  std::uint64_t z = seed + id * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::vector<GroupName> GroupsOf(const JobRecord& record) {
  std::vector<GroupName> groups;
  if (!record.group.empty()) groups.push_back(record.group);
  if (record.array_count > 0 && record.array_at_once > 0) groups.push_back(ArrayGroupName(record.id));
  if (record.array.is_set()) groups.push_back(ArrayGroupName(record.array));
  return groups;
}

RunningJob ToRunning(const JobRecord& record) {
  RunningJob job;
  job.id = record.id;
  job.gpus = record.gpus;
  job.cpus = record.request.cpus;
  job.memory = record.request.memory;
  job.groups = GroupsOf(record);
  job.started = record.started;
  job.known_end = Deadline(record);
  job.user = record.user.name;
  job.name = record.name;
  return job;
}

JobRecord RecordOf(const JobSpec& spec, JobId id, const Caller& caller, Time now) {
  JobRecord record;
  record.id = id;
  record.spec_of = id;
  record.user = caller.user;
  record.name = spec.name;
  record.request = spec.request;
  record.priority = spec.priority;
  record.submitted = record.queued_at = now;
  record.begin = spec.begin;
  record.time_limit = spec.time_limit;
  record.project = spec.project;
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
    : policy_(std::move(policy)), limits_(limits), seed_(seed) {}

void Controller::SetCapacity(NodeCapacity capacity) {
  cluster_.SetCapacity(std::move(capacity));
  RefreshAvailability();
}

void Controller::Load(std::vector<JobRecord> live, const std::vector<std::pair<std::string, std::string>>& settings,
                      std::uint64_t next_id, std::uint64_t jobs_total, const FindOutcome& outcome) {
  next_id_ = next_id;
  jobs_total_ = jobs_total;
  for (const auto& [key, text] : settings) {
    if (key == kRestrictionKey) {
      restriction_ = ParseRestriction(text);
    } else if (key == kIgnoredKey) {
      ignored_ = ParseIgnored(text);
    } else if (key.starts_with(kGroupPrefix)) {
      const std::string group = key.substr(kGroupPrefix.size());
      group_limits_[group] = static_cast<int>(ParseInteger(text).value_or(0));
      cluster_.SetGroupLimit(group, group_limits_[group]);
    }
  }
  for (JobRecord& record : live) live_.emplace(record.id, std::move(record));
  for (auto& [id, record] : live_) {
    if (record.array_at_once > 0) cluster_.SetGroupLimit(ArrayGroupName(id), record.array_at_once);
    if (Status known = LearnOutcomes(record.dependencies, outcome); !known) continue;  // Its target was pruned: unmet.
  }
  for (auto& [id, record] : live_) {
    if (IsActive(record.state)) {
      if (record.array_count == 0) cluster_.Adopt(ToRunning(record));
    }
    IndexDependencies(record, true);
  }
  for (auto& [id, record] : live_) {
    if (record.state == JobState::kQueued || record.state == JobState::kHeld) PutWaiting(record);
  }
  RefreshAvailability();
  needs_plan_ = true;
}

Result<SubmitResult> Controller::Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                                        const FindOutcome& outcome) {
  if (!spec.queues_anyway) DIVVY_CHECK(CheckFeasible(cluster_, spec.request));
  if (cluster_.waiting_count() + std::max<std::uint64_t>(elements, 1) > limits_.max_queued) {
    return LimitExceeded("the queue holds " + std::to_string(cluster_.waiting_count()) + " of at most " +
                         std::to_string(limits_.max_queued) +
                         " jobs; wait, cancel some, or raise max_queued under [queue]");
  }
  if (spec.time_limit == Duration(0)) spec.time_limit = limits_.default_time_limit;
  DIVVY_CHECK(CheckTimeLimit(spec.time_limit));
  NameElements(spec.dependencies);
  if (Status known = LearnOutcomes(spec.dependencies, outcome); !known) {
    ForgetOutcomes(spec.dependencies);
    return known.error();
  }

  const JobId id(next_id_);
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
    if (record.array_at_once > 0) cluster_.SetGroupLimit(ArrayGroupName(id), record.array_at_once);
  }
  next_id_ += 1 + elements;
  jobs_total_ += std::max<std::uint64_t>(elements, 1);
  if (!spec.group.empty() && spec.group_limit > 0) {
    group_limits_[spec.group] = spec.group_limit;
    cluster_.SetGroupLimit(spec.group, spec.group_limit);
    effects_.batch.settings.emplace_back(std::string(kGroupPrefix) + spec.group, std::to_string(spec.group_limit));
  }

  JobRecord& kept = live_.emplace(id, std::move(record)).first->second;
  IndexDependencies(kept, true);
  effects_.batch.inserts.push_back({kept, std::make_shared<const JobSpec>(std::move(spec))});
  effects_.batch.next_id = next_id_;
  PutWaiting(kept);
  ResolveDependents(kept, now);  // A dependency that can never be met ends it at once, with the reason.
  Announce(kept);
  needs_plan_ = true;
  return SubmitResult{id, std::max<std::uint64_t>(elements, 1), kept.state};
}

void Controller::Withdraw(JobId id) {
  const auto at = live_.find(id);
  if (at == live_.end()) return;
  JobRecord& record = at->second;
  IndexDependencies(record, false);
  const std::uint64_t jobs = std::max<std::uint64_t>(1, record.array_count);
  // The elements of an array that were about to start, or were told apart for another reason, go with it.
  const JobId end = ElementId(id, record.array_count);
  for (auto element = std::next(at); element != live_.end() && element->first < end;) {
    if (IsActive(element->second.state)) cluster_.Finish(element->first);
    if (cluster_.waiting(element->first) != nullptr) cluster_.Remove(element->first);
    element = live_.erase(element);
  }
  if (IsActive(record.state) && record.array_count == 0) cluster_.Finish(id);
  if (cluster_.waiting(id) != nullptr) cluster_.Remove(id);
  live_.erase(at);
  jobs_total_ -= jobs;
  needs_plan_ = true;
}

void Controller::PutWaiting(const JobRecord& record) {
  WaitingEntry entry;
  entry.id = record.id;
  entry.count = record.array_count > 0 ? static_cast<std::uint32_t>(record.array_waiting.size()) : 1;
  if (entry.count == 0) return;
  entry.request = record.request;
  entry.priority = record.priority;
  entry.queued_at = record.queued_at;
  entry.time_limit = record.time_limit;
  entry.groups = GroupsOf(record);
  entry.placement = record.is_placement_set ? record.placement : policy_.placement;
  entry.placement_draw = Draw(seed_, record.id.value() + record.attempt);
  entry.user = record.user.name;
  entry.is_held = record.is_held;
  entry.begin = record.begin;
  entry.unmet_dependencies = UnmetDependencies(record);
  cluster_.Put(std::move(entry));
  needs_plan_ = true;
}

void Controller::Decide(Time now) {
  if (!needs_plan_ && now < next_wakeup_) return;
  needs_plan_ = false;
  const Plan plan = Schedule(cluster_, policy_, now);
  next_wakeup_ = plan.next_wakeup;
  for (const StartDecision& decision : plan.starts) Start(decision, now);
}

void Controller::Start(const StartDecision& decision, Time now) {
  auto at = live_.find(decision.entry);
  DIVVY_ASSERT(at != live_.end());
  JobRecord* record = &at->second;
  bool is_new = false;
  if (record->array_count > 0) {
    JobRecord& array = *record;
    const std::uint32_t ordinal = array.array_waiting.front();
    array.array_waiting.Erase(ordinal);
    JobRecord element = ElementOf(array, ordinal);
    element.dependencies.clear();
    record = &live_.emplace(element.id, std::move(element)).first->second;
    is_new = true;
    if (array.array_waiting.empty()) {
      array.state = JobState::kRunning;
      array.started = now;
    }
    Persist(array);
  }
  record->state = JobState::kStarting;
  record->gpus = decision.gpus;
  record->started = now;
  record->ended = kNoTime;
  record->exit.reset();
  record->start_reason = decision.reason;
  record->reason = decision.reason;
  ++record->attempt;
  cluster_.Start(decision.entry, ToRunning(*record));
  if (is_new) {
    effects_.batch.inserts.push_back({*record, nullptr});
  } else {
    Persist(*record);
  }
  effects_.orders.push_back(LaunchOrder{*record});
  Announce(*record);
  ResolveDependents(*record, now);  // "after:" asks for a start only.
}

void Controller::Persist(const JobRecord& record) {
  std::vector<Batch::NewJob>& inserts = effects_.batch.inserts;
  std::vector<JobRecord>& updates = effects_.batch.updates;
  BatchIndex& known = batch_index_;
  for (; known.inserts_known < inserts.size(); ++known.inserts_known) {
    known.inserts.emplace(inserts[known.inserts_known].record.id, known.inserts_known);
  }
  for (; known.updates_known < updates.size(); ++known.updates_known) {
    known.updates.emplace(updates[known.updates_known].id, known.updates_known);
  }
  // A record that is inserted by the same batch is simply inserted as it is now.
  if (const auto inserted = known.inserts.find(record.id); inserted != known.inserts.end()) {
    inserts[inserted->second].record = record;
  } else if (const auto updated = known.updates.find(record.id); updated != known.updates.end()) {
    updates[updated->second] = record;
  } else {
    updates.push_back(record);
  }
}

void Controller::Note(JobId id, std::string text, Time now) {
  effects_.batch.history.push_back({id, now, std::move(text)});
}

void Controller::Announce(const JobRecord& record) {
  effects_.changes.push_back({record.id, record.state, record.reason});
}

const JobRecord* Controller::Find(JobId id) const {
  const auto at = live_.find(id);
  return at == live_.end() ? nullptr : &at->second;
}

const JobRecord* Controller::ArrayOf(JobId id) const {
  auto at = live_.upper_bound(id);
  // Elements that are records of their own lie between an array and the id, so step back over them.
  while (at != live_.begin()) {
    --at;
    const JobRecord& record = at->second;
    if (record.array_count > 0) {
      const bool is_inside = id > record.id && id.value() <= record.id.value() + record.array_count;
      return is_inside && record.array_waiting.Contains(static_cast<std::uint32_t>(id.value() - record.id.value() - 1))
                 ? &record
                 : nullptr;
    }
    if (!record.array.is_set()) return nullptr;
  }
  return nullptr;
}

Reason Controller::WaitingReason(const JobRecord& record) const {
  if (record.is_held) return record.reason.empty() ? "held: divvy release " + ToString(record.id) : record.reason;
  const WaitingEntry* entry = cluster_.waiting(record.id);
  if (entry == nullptr) return record.reason;
  if (!entry->unmet_dependencies.empty()) return "waits for " + Join(entry->unmet_dependencies, " and ");
  for (const GroupName& group : entry->groups) {
    const int limit = cluster_.group_limit(group);
    if (limit > 0 && cluster_.group_running(group) >= limit) {
      return group + " runs " + std::to_string(limit) + " of at most " + std::to_string(limit);
    }
  }
  if (record.restarts > 0 && entry->begin != kNoTime) return "waits before the next try";
  if (entry->begin != kNoTime && entry->begin > record.queued_at) return "waits for its begin time";
  if (record.request.gpus > 0) {
    return "waits for " + Plural(record.request.gpus, "GPU") + ", " + std::to_string(cluster_.free().size()) + " free";
  }
  return "waits for CPUs or memory";
}

std::string Controller::CheckInvariants() const {
  if (std::string broken = cluster_.CheckInvariants(); !broken.empty()) return broken;
  for (const auto& [id, record] : live_) {
    const std::string name = "job " + ToString(id);
    if (record.id != id) return name + " is kept under another id";
    if (IsFinal(record.state)) return name + " is final and still live";
    if (id.value() >= next_id_) return name + " has an id that was not given out";
    const bool is_array = record.array_count > 0;
    const RunningJob* running = cluster_.running(id);
    if (IsActive(record.state) && !is_array) {
      if (running == nullptr) return name + " is active and does not run in the cluster";
      if (running->gpus != record.gpus) return name + " holds other GPUs in the cluster";
      const int gpus = running->gpus.size();
      if (gpus < record.request.gpus || gpus > record.request.gpus_at_most())
        return name + " holds another number of GPUs than it asked for";
    } else if (running != nullptr) {
      return name + " runs in the cluster and is not active";
    }
    const bool should_wait = record.state == JobState::kQueued || record.state == JobState::kHeld;
    const WaitingEntry* entry = cluster_.waiting(id);
    if (should_wait != (entry != nullptr))
      return name + (should_wait ? " waits without an entry" : " has an entry and does not wait");
    if (entry != nullptr && is_array && entry->count != record.array_waiting.size())
      return name + " has another count of elements";
  }
  for (const auto& [id, job] : cluster_.running_jobs()) {
    if (!live_.contains(id)) return "job " + ToString(id) + " runs in the cluster and is not live";
  }
  return "";
}

}  // namespace divvy
