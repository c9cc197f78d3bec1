#include "simulate/chaos/chaos_ledger.h"

#include <algorithm>

#include "base/text.h"
#include "control/books/record_parts.h"

namespace divvy::simulate {
namespace {

constexpr std::size_t kFinalsChecked = 64;

bool IsOfOneJob(FactKind kind) { return kind != FactKind::kGroupLimit && kind != FactKind::kRestriction; }

}  // namespace

std::string ChaosGroup(std::uint64_t number) { return "g" + std::to_string(number); }

std::string ChaosGroupOfUser(std::uint64_t number) {
  return GroupNameOf(ChaosGroup(number / kChaosUsers.size()), std::string(kChaosUsers[number % kChaosUsers.size()]));
}

std::int64_t CommandNumber(const JobSpec& spec) {
  return spec.command.empty() ? -1 : ParseInteger(spec.command.front()).value_or(-1);
}

void ChaosLedger::Break(const JobRecord& record, const std::string& why) {
  trace_.Break("job " + ToString(record.id) + " (" + std::string(Name(record.state)) + ", attempt " +
               std::to_string(record.attempt) + "): " + why);
}

const ChaosLedger::Kept* ChaosLedger::Find(FactKind kind, JobId job) const {
  const auto at = kept_.find({kind, job});
  return at == kept_.end() ? nullptr : &at->second;
}

std::optional<std::int64_t> ChaosLedger::Certain(FactKind kind, JobId job) const {
  const Kept* kept = Find(kind, job);
  return kept != nullptr && kept->maybe.empty() ? kept->acknowledged : std::nullopt;
}

void ChaosLedger::Applied(const std::vector<Fact>& facts) {
  for (const Fact& fact : facts) {
    const auto [at, is_new] = kept_.try_emplace({fact.kind, fact.job});
    if (is_new && fact.kind != FactKind::kSubmitted && fact.kind != FactKind::kCancelled)
      at->second.acknowledged = fact.before;
    at->second.maybe.push_back(fact.value);
  }
}

void ChaosLedger::Answered(const std::vector<Fact>& facts) {
  for (const Fact& fact : facts) {
    const auto at = kept_.find({fact.kind, fact.job});
    if (at == kept_.end()) continue;  // It has ended in the meantime.
    Kept& kept = at->second;
    kept.acknowledged = fact.value;
    const auto it = std::ranges::find(kept.maybe, fact.value);
    if (it != kept.maybe.end()) kept.maybe.erase(kept.maybe.begin(), it + 1);
    if (fact.kind != FactKind::kSubmitted) continue;
    figures_.jobs += static_cast<std::uint64_t>(std::max<std::int64_t>(fact.value, 1));
    if (!finals_.contains(fact.job)) unfinished_.insert(fact.job);
  }
}

void ChaosLedger::Refused(const std::vector<Fact>& facts, Store& store) {
  for (const Fact& fact : facts) {
    if (fact.kind != FactKind::kSubmitted) continue;
    if (store.Find(fact.job)) trace_.Break("job " + ToString(fact.job) + " was refused, but is in the store");
    ForgetJob(fact.job);
  }
}

void ChaosLedger::ForgetJob(JobId job) {
  for (const FactKind kind : {FactKind::kSubmitted, FactKind::kCancelled, FactKind::kPriority, FactKind::kTimeLimit,
                              FactKind::kHeld, FactKind::kCommand})
    kept_.erase({kind, job});
}

std::optional<std::int64_t> ChaosLedger::ValueIn(const Controller& controller, const Key& key) {
  const auto& [kind, job] = key;
  if (kind == FactKind::kGroupLimit) return controller.scheduler().group_limit(ChaosGroupOfUser(job.value()));
  if (kind == FactKind::kRestriction)
    return controller.restriction() ? static_cast<std::int64_t>(controller.restriction()->bits()) : -1;
  const JobRecord* record = controller.Find(job);
  if (record == nullptr) return std::nullopt;
  if (kind == FactKind::kPriority) return record->priority;
  if (kind == FactKind::kTimeLimit)
    return (record->time_limit - controller.time_sharer().LimitExtensionOf(*record)).count();
  // An array without waiting elements cannot be held: it was cancelled, or its dependency is impossible.
  if (kind == FactKind::kHeld && record->array_count > 0 && record->array_waiting.empty()) return std::nullopt;
  if (kind == FactKind::kHeld) return record->is_held ? 1 : 0;
  return std::nullopt;
}

void ChaosLedger::CheckValues(const Controller& controller) {
  for (const auto& [key, kept] : kept_) {
    if (key.first == FactKind::kSubmitted || key.first == FactKind::kCancelled || key.first == FactKind::kCommand)
      continue;
    const auto value = ValueIn(controller, key);
    if (!value) continue;
    const bool is_promised = kept.acknowledged == value || std::ranges::find(kept.maybe, *value) != kept.maybe.end();
    if (is_promised) continue;
    static constexpr const char* kNames[] = {"",     "",        "priority",    "time limit",
                                             "hold", "command", "group limit", "restriction"};
    const std::string of = IsOfOneJob(key.first)                ? " of job " + ToString(key.second)
                           : key.first == FactKind::kGroupLimit ? " of group " + ChaosGroupOfUser(key.second.value())
                                                                : "";
    trace_.Break("the " + std::string(kNames[static_cast<std::size_t>(key.first)]) + of + " is " +
                 std::to_string(*value) + ", but " + std::to_string(kept.acknowledged.value_or(0)) +
                 " was acknowledged");
  }
}

void ChaosLedger::CheckAfterRestart(const Controller& controller, Store& store) {
  for (JobId job : unfinished_) {
    if (controller.Find(job) == nullptr) trace_.Break("job " + ToString(job) + " was acknowledged, but is lost");
  }
  for (JobId job : last_finals_) {
    const auto known = finals_.find(job);
    if (known == finals_.end() || pruned_.contains(job)) continue;
    const Final& final = known->second;
    const auto record = store.Find(job);
    const bool is_same = record && record->state == final.state && record->attempt == final.attempt &&
                         (record->exit ? record->exit->code : 0) == final.code && controller.Find(job) == nullptr;
    if (!is_same) trace_.Break("job " + ToString(job) + " had ended durably, but its end is lost or has changed");
  }
  // The values in the store show which of the commands that were not confirmed took effect.
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto& [kind, job] = at->first;
    Kept& kept = at->second;
    const bool is_unborn = IsOfOneJob(kind) && controller.Find(job) == nullptr && !finals_.contains(job);
    if (is_unborn && kept.maybe.empty() && kind == FactKind::kSubmitted) {
      trace_.Break("job " + ToString(job) + " was acknowledged, but is lost");
    }
    if (is_unborn) {
      at = kept_.erase(at);
      continue;
    }
    if (kind == FactKind::kSubmitted && !kept.maybe.empty()) {
      // The command was never confirmed, but its value is in the store, so it counts as confirmed from now on.
      kept.acknowledged = kept.maybe.back();
      kept.maybe.clear();
      if (!finals_.contains(job)) unfinished_.insert(job);
    }
    ++at;
  }
  CheckValues(controller);
  for (auto& [key, kept] : kept_) {
    if (key.first == FactKind::kCancelled || key.first == FactKind::kCommand) continue;
    if (const auto value = ValueIn(controller, key); value && !kept.maybe.empty()) {
      kept.acknowledged = value;
      kept.maybe.clear();
    }
  }
}

void ChaosLedger::OnStartDecided(const JobRecord& record, const Controller& controller, Time now) {
  const JobId whole = record.array.is_set() ? record.array : record.id;
  for (JobId job : {record.id, whole}) {
    const Kept* cancel = Find(FactKind::kCancelled, job);
    if (cancel != nullptr && cancel->acknowledged) Break(record, "starts after its cancellation was acknowledged");
  }
  if (Certain(FactKind::kHeld, record.id) == 1) Break(record, "starts while it is held");
  if (const auto allowed = Certain(FactKind::kRestriction, JobId()); allowed && *allowed >= 0) {
    if (!(record.gpus - GpuSet::FromBits(static_cast<std::uint64_t>(*allowed))).empty())
      Break(record, "starts on GPUs that are restricted");
  }
  // A begin time that had passed when the job was queued stays valid, even if the clock jumps back. And a job that
  // waits for some time after another job's start gets a later begin time when that job starts again.
  const JobRecord* array = record.array.is_set() ? controller.Find(record.array) : nullptr;
  const bool waits_after_start = std::ranges::any_of(array != nullptr ? array->dependencies : record.dependencies,
                                                     [](const Dependency& d) { return d.delay > Duration(0); });
  if (record.begin > std::max(now, record.queued_at) && !waits_after_start)
    Break(record, "starts before its begin time");
  if (record.group.empty()) return;
  const int limit = controller.scheduler().group_limit(GroupNameOf(record.group, record.user.name));
  if (limit <= 0) return;
  int running = 0;
  for (const auto& [id, other] : controller.live()) {
    if (other.group == record.group && other.user.name == record.user.name && IsActive(other.state) &&
        other.array_count == 0)
      ++running;
  }
  if (running > limit) Break(record, "starts although its group has reached its limit");
}

void ChaosLedger::OnLaunch(const JobRecord& record, const JobSpec& spec) {
  const auto command = Certain(FactKind::kCommand, record.spec_of);
  if (command && *command != CommandNumber(spec))
    Break(record, "is launched with a command other than the acknowledged one");
}

void ChaosLedger::OnCommitted(const std::vector<Batch>& batches) {
  ++figures_.commits;
  for (const Batch& batch : batches) {
    for (const Batch::NewJob& job : batch.inserts) {
      CheckReleases(job.record);
      if (IsFinal(job.record.state)) CheckFinal(job.record);
    }
    for (const JobRecord& record : batch.updates) {
      CheckReleases(record);
      if (IsFinal(record.state)) CheckFinal(record);
    }
  }
}

// Checks that a run of a job holds its GPUs from its start to its end, and not afterwards.
void ChaosLedger::CheckReleases(const JobRecord& record) {
  if (record.array_count > 0) return;
  Released& known = releases_[record.id];
  if (record.attempt < known.attempt) Break(record, "is stored after attempt " + std::to_string(known.attempt));
  if (record.attempt > known.attempt + 1) Break(record, "skips attempts after " + std::to_string(known.attempt));
  const bool holds = IsActive(record.state);
  if (record.attempt == known.attempt && known.is_released && holds)
    Break(record, "holds GPUs again that this attempt had released");
  known.attempt = record.attempt;
  known.is_released = !holds && record.attempt > 0;
}

void ChaosLedger::CheckFinal(const JobRecord& record) {
  ++figures_.ends;
  if (const auto at = finals_.find(record.id); at != finals_.end() && at->second.state != record.state)
    Break(record, "ends a second time, in another state");
  finals_[record.id] = {record.id, record.state, record.attempt, record.exit ? record.exit->code : 0, record.ended};
  last_finals_.push_back(record.id);
  if (last_finals_.size() > kFinalsChecked) last_finals_.pop_front();
  unfinished_.erase(record.id);
  if (const Kept* cancel = Find(FactKind::kCancelled, record.id); cancel != nullptr && cancel->acknowledged) {
    const bool is_array_with_failures = record.array_count > 0 && record.array_failed > 0;
    const bool ended_before = record.array_count > 0 && record.array_cancelled == 0;
    if (record.state != JobState::kCancelled && !is_array_with_failures && !ended_before)
      Break(record, "ended in another state after its cancellation was acknowledged");
  }
  if (record.state == JobState::kCancelled && record.array_count == 0 && record.dependencies.empty() &&
      !record.array.is_set() && !WasAsked(FactKind::kCancelled, record.id))
    Break(record, "ended as cancelled, but no client cancelled it");
  if (record.array_count > 0) {
    if (record.array_succeeded + record.array_failed + record.array_cancelled != record.array_count)
      Break(record, "the elements in its end states do not add up to its number of elements");
  } else {
    static const Fate kNone;
    const Fate* fate = machine_.FateOf(record.id);
    CheckExit(record, fate == nullptr ? kNone : *fate);
  }
  ForgetJob(record.id);
}

void ChaosLedger::CheckExit(const JobRecord& record, const Fate& fate) {
  if (machine_.IsAlive(record.id, record.attempt)) return Break(record, "ended while its processes are alive");
  const bool has_begun = fate.attempt == record.attempt && fate.starts > 0;
  const bool was_rebooted = machine_.boot() > 1;
  if (!record.exit) {
    if (record.state != JobState::kCancelled) Break(record, "ended, but has no exit");
    return;
  }
  const Exit& exit = *record.exit;
  if (!exit.failure.empty()) {
    if (has_begun || !fate.failed_to_start) Break(record, "is recorded as unable to start, but it could start");
    return;
  }
  if (!exit.is_known) {
    const bool may_be = fate.may_be_unseen || (was_rebooted && (!has_begun || fate.boot < machine_.boot()));
    if (!may_be) Break(record, "its end is recorded as unknown, but a process saw it");
    if (record.state == JobState::kSucceeded) Break(record, "succeeded, but its end is recorded as unknown");
    return;
  }
  if (!has_begun || !fate.end) return Break(record, "has an exit code, but its process did not end");
  if (exit.code != fate.end->code || exit.signal != fate.end->signal) {
    return Break(record, "has exit code " + std::to_string(exit.code) + ", but the process ended with " +
                             std::to_string(fate.end->code));
  }
  if (fate.hit_limit && !exit.hit_time_limit && !fate.may_be_unseen)
    Break(record, "was ended by its time limit, but does not record that");
  if (exit.hit_time_limit && !fate.hit_limit && !fate.may_be_unseen)
    Break(record, "is recorded as ended by its time limit, but was not");
  if ((record.state == JobState::kSucceeded) != (exit.code == 0 && !exit.hit_time_limit && !exit.was_oom_killed) &&
      record.state != JobState::kCancelled)
    Break(record, "has the wrong state for exit code " + std::to_string(exit.code));
}

void ChaosLedger::OnPruned(Time ended_before) {
  for (const auto& [job, final] : finals_) {
    if (final.ended < ended_before) pruned_.insert(job);
  }
}

void ChaosLedger::CheckAllEnded(Store& store) {
  for (JobId job : unfinished_) {
    const auto record = store.Find(job);
    trace_.Break("job " + ToString(job) + " never ended: it is " +
                 (record ? std::string(Name(record->state)) + ", attempt " + std::to_string(record->attempt) + ", " +
                               record->reason
                         : std::string("not in the store")));
  }
  for (const auto& [job, final] : finals_) {
    if (pruned_.contains(job)) continue;
    const auto record = store.Find(job);
    if (!record || record->state != final.state || record->attempt != final.attempt)
      trace_.Break("job " + ToString(job) + " had ended durably, but its end is lost or has changed");
  }
}

}  // namespace divvy::simulate
