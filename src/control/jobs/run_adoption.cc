#include "control/jobs/run_adoption.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/books/record_parts.h"

namespace divvy {
namespace {

/// A found run's id may be at most this far ahead of the assigned ids, so that a lying node cannot use up the id space.
constexpr std::uint64_t kLargestLead = 10'000'000;

/// Times are transferred as seconds with a fraction.
bool IsSameMoment(Time a, Time b) {
  return a - b < std::chrono::milliseconds(1) && b - a < std::chrono::milliseconds(1);
}

/// The id alone is not enough: a new store may have assigned it to another job.
bool IsSameJob(const JobRecord& known, const JobRecord& run) {
  return known.id == run.id && IsSameMoment(known.submitted, run.submitted);
}

bool IsOver(const RunDescription& run) { return run.runs_again || IsFinal(run.record.state); }

}  // namespace

/// The live job that this is a run of, as a record of its own; null if there is none.
JobRecord* RunAdoption::SameJob(const JobRecord& run) {
  if (const auto at = jobs_.live().find(run.id); at != jobs_.live().end())
    return IsSameJob(at->second, run) && at->second.array_count == 0 ? &at->second : nullptr;
  const JobRecord* array = jobs_.ArrayOf(run.id);
  if (array == nullptr || !IsSameMoment(array->submitted, run.submitted)) return nullptr;
  return lifecycle_.SplitElement(jobs_.live().at(array->id),
                                 static_cast<std::uint32_t>(run.id.value() - array->id.value() - 1));
}

bool RunAdoption::MayReplay(JobId job, std::uint32_t attempt) const {
  const auto at = jobs_.live().find(job);
  return at == jobs_.live().end() ? jobs_.ArrayOf(job) != nullptr : at->second.attempt <= attempt;
}

/// Returns whether the run's GPUs were given to no other job. `known` is the job as the store has it; what it holds
/// there counts as available.
bool RunAdoption::HasRoomFor(const RunDescription& run, const JobRecord* known) const {
  const GpuShare share(static_cast<std::int32_t>(run.gpu_parts));
  if (share <= GpuShare() || share > GpuShare(GpuShare::kWhole)) return false;
  for (const NodeAllocation& allocation : AllocationsOf(run.record)) {
    const auto index = nodes_.IndexOf(allocation.node);
    if (!index) return false;
    const NodeUsage& node = scheduler_.node(*index);
    for (const int gpu : (allocation.gpus & node.present()).ToVector()) {
      GpuShare room = node.room(static_cast<GpuIndex>(gpu));
      for (const NodeAllocation& own :
           known == nullptr || !IsActive(known->state) ? std::vector<NodeAllocation>() : AllocationsOf(*known)) {
        if (own.node == allocation.node && own.gpus.Contains(static_cast<GpuIndex>(gpu)))
          room = room + known->gpu_parts;
      }
      if (room < share) return false;
    }
  }
  return true;
}

/// A run of the job that cannot be taken over may still exist, so the job must not start next to it.
void RunAdoption::HoldBack(JobRecord& record, Time now) {
  if (!IsWaiting(record.state) || record.is_held) return;
  record.is_held = true;
  record.state = JobState::kHeld;
  record.reason = "held: an earlier run of it, unknown to the store, may still be running; divvy release " +
                  ToString(record.id) + " starts it again";
  effects_.Note(record.id, record.reason, now);
  effects_.Persist(record);
  feed_.Put(record);
  effects_.Announce(record);
}

void RunAdoption::TakeUp(JobRecord& record, const RunDescription& run, const std::string& why, Time now) {
  lifecycle_.LeaveCluster(record);
  const JobRecord& seen = run.record;
  record.state = seen.state;
  record.attempt = seen.attempt;
  record.restarts = std::max(record.restarts, seen.restarts);
  record.retries_used = std::max(record.retries_used, seen.retries_used);
  record.node = seen.node;
  record.gpus = seen.gpus;
  record.gang = seen.gang;
  record.was_let_go = seen.was_let_go;
  record.gpu_parts = GpuShare(static_cast<std::int32_t>(run.gpu_parts));
  record.gpu_slice = seen.gpu_slice;
  record.gpu_model = nodes_.ModelOf(record);
  record.pool_of_run = seen.pool;
  record.progress = Progress();
  record.started = seen.started;
  record.ended = kNoTime;
  record.exit.reset();
  record.is_held = false;
  record.stop_intent = StopIntent::kNone;
  record.reason = why;
  ForgetResizes(record);
  record.gpus_used = record.gpus;
  nodes_.KeepGpusOf(record);
  feed_.Adopt(record);
  gangs_.NoteRestored(record);
  effects_.Note(record.id, why, now);
  effects_.Persist(record);
  effects_.Announce(record);
  effects_.RequestPlan();
}

/// Records the end of a run that the store did not know, and of which nothing is left.
void RunAdoption::KeepEnd(JobRecord& record, const RunDescription& run, Time now) {
  lifecycle_.LeaveCluster(record);
  record.attempt = run.record.attempt;
  record.restarts = std::max(record.restarts, run.record.restarts);
  record.retries_used = std::max(record.retries_used, run.record.retries_used);
  record.started = run.record.started;
  record.ended = std::max(run.ended, record.started);
  record.exit = run.exit;
  record.stop_intent = StopIntent::kNone;
  effects_.Send(ForgetCommand{record.id, record.attempt, run.record.node});
  const auto [state, reason] = runs_.Judge(record, *run.exit);
  if (!runs_.RunsAgain(record, state, *run.exit, now)) lifecycle_.Finish(record, state, reason, now);
}

void RunAdoption::Replay(const RunDescription& run, Time now) {
  const JobRecord& seen = run.record;
  if (seen.array_count > 0) return;  // An array ends with its elements.
  JobRecord* record = SameJob(seen);
  if (record == nullptr || record->attempt > seen.attempt) return;
  // A job that was requeued after its end has the same attempt and one more restart.
  if (record->attempt == seen.attempt && record->restarts > seen.restarts) return;
  if (!IsOver(run)) {
    const bool is_news = record->attempt < seen.attempt || (seen.was_let_go && !record->was_let_go);
    if (is_news && !HasRoomFor(run, record)) return HoldBack(*record, now);
    if (is_news)
      TakeUp(*record, run, "is running according to the run journal; the store was restored from an older backup", now);
    return;
  }
  if (record->attempt == seen.attempt && run.runs_again && IsWaiting(record->state)) return;
  lifecycle_.LeaveCluster(*record);
  record->attempt = seen.attempt;
  record->restarts = std::max(record->restarts, seen.restarts);
  record->retries_used = std::max(record->retries_used, seen.retries_used);
  if (run.exit) record->exit = run.exit;
  record->started = seen.started;
  record->ended = run.ended;
  if (run.runs_again) return lifecycle_.QueueAgain(*record, kNoTime, "queued again: " + run.reason, now);
  lifecycle_.Finish(*record, seen.state, run.reason, now);
}

RunAdoption::Found RunAdoption::OnFound(RunDescription run, Time now, const FindOutcome& outcome) {
  const JobRecord& seen = run.record;
  const JobId id = seen.id;
  const auto end = [&] {
    if (run.exit) effects_.Send(ForgetCommand{id, seen.attempt, seen.node});
    else effects_.Send(StopCommand{id, 9, Duration(0), seen.node});
    return Found::kOver;
  };
  for (NodeAllocation& allocation : run.record.gang) {
    if (allocation.node == scheduler_.node(kOwnNode).attributes.name)
      allocation.node.clear();  // Named as at its launch.
  }
  run.record.was_let_go = !seen.gang.empty() && seen.state == JobState::kRunning;
  const bool is_whole_end = run.exit && seen.gang.empty();
  const auto take = [&](JobRecord& record) {
    if (is_whole_end) {
      found_.all().erase(id);
      KeepEnd(record, run, now);
      return Found::kTaken;
    }
    TakeUp(record, run, "a run of it that is newer than the store was found", now);
    effects_.Send(AdoptCommand{PartOn(record, seen.node), seen.node});
    found_.all().erase(id);
    return Found::kTaken;
  };
  const std::optional<JobRecord> ended = outcome(id);
  bool is_id_taken = ended.has_value();
  if (JobRecord* live = SameJob(seen)) {
    const bool is_there = IsActive(live->state) && live->attempt == seen.attempt && IsOn(*live, seen.node);
    if (is_there) {
      effects_.Send(AdoptCommand{PartOn(*live, seen.node), seen.node});
      found_.all().erase(id);
      return Found::kTaken;
    }
    if (live->attempt >= seen.attempt) return end();
    // A node may report only its own runs; it cannot take over a job from another node.
    const bool is_elsewhere = IsActive(live->state) && !IsOn(*live, seen.node);
    if (!is_elsewhere && (is_whole_end || HasRoomFor(run, live))) return take(*live);
    HoldBack(*live, now);
    is_id_taken = true;
  } else if (ended && IsFinal(ended->state) && IsSameJob(*ended, seen) && ended->array_count == 0) {
    if (ended->attempt >= seen.attempt) return end();
    if (is_whole_end || HasRoomFor(run, nullptr)) return take(Revive(*ended, outcome));
  }
  const auto before = found_.all().find(id);
  const bool is_ending = before != found_.all().end() && before->second.is_ending;
  const std::string node = seen.node;
  if (is_ending && run.exit) {
    effects_.Send(ForgetCommand{id, seen.attempt, node});
    found_.all().erase(before);
    gpus_.RefreshGpusOf(node);
    return Found::kOver;
  }
  // Each further component of a heterogeneous job has an id of its own, directly after the job's.
  if (id.value() < jobs_.ids().next + kLargestLead) ReserveIds(id.value() + seen.request.components());
  is_id_taken = is_id_taken || id.value() >= jobs_.ids().next;
  if (before == found_.all().end()) {
    effects_.AnnounceMachineEvent("job " + ToString(id) + " of " + UserText(seen.user) + " runs on " +
                                      nodes_.MachineText(nodes_.IndexOf(node).value_or(kOwnNode)) +
                                      ", and the store does not know it: divvy adopt",
                                  now);
  }
  found_.all().insert_or_assign(id, FoundRun{std::move(run), is_ending, is_id_taken});
  gpus_.RefreshGpusOf(node);
  return Found::kUnknown;
}

/// Revives a job that had ended for the store and was requeued since.
JobRecord& RunAdoption::Revive(JobRecord ended, const FindOutcome& outcome) {
  JobRecord& record = jobs_.live().insert_or_assign(ended.id, std::move(ended)).first->second;
  if (record.array.is_set()) {
    std::optional<JobRecord> array = outcome(record.array);
    if (jobs_.live().contains(record.array) || array) lifecycle_.SplitFromArray(record, std::move(array));
  }
  record.dependencies.clear();
  predictions_.Know(record);
  return record;
}

Result<std::string> RunAdoption::Adopt(JobId id, const Caller& caller, Time now) {
  const auto at = found_.all().find(id);
  if (at != found_.all().end() && at->second.is_adopted)
    return FailedPrecondition("job " + ToString(id) + " is adopted already; divvy cancel " + ToString(id) + " ends it");
  if (at == found_.all().end())
    return NotFound("no run of job " + ToString(id) + " was found; divvy adopt lists all found runs");
  const RunDescription run = at->second.run;
  JobRecord record = run.record;
  DIVVY_CHECK(access_.Authorise(record, caller, "adopt"));
  const std::string name = "job " + ToString(id);
  const std::string instead = "; divvy adopt --end " + ToString(id) + " ends it";
  if (at->second.is_ending) return FailedPrecondition(name + " is being ended");
  if (record.submitted == kNoTime)
    return FailedPrecondition("the run record of " + name + " does not list its resources, as in earlier releases" +
                              instead);
  if (!record.gang.empty())
    return FailedPrecondition(name + " is part of a job on several nodes, and such parts cannot be adopted" + instead);
  if (at->second.is_id_taken || jobs_.live().contains(id) || jobs_.ArrayOf(id) != nullptr)
    return FailedPrecondition("the id of " + name + " is not free in this store" + instead);
  const int gpus = record.gpus.size();
  if (gpus < record.request.gpus_in_all() ||
      gpus > std::max(record.request.gpus_in_all(), record.request.gpus_at_most()))
    return FailedPrecondition("the run record of " + name + " names " + Plural(gpus, "GPU") +
                              ", but the job requested another number" + instead);
  if (!nodes_.IndexOf(record.node)) return FailedPrecondition("node " + record.node + " is not known");
  if (!run.exit && !HasRoomFor(run, nullptr))
    return FailedPrecondition("GPUs of " + name + " are now allocated to other jobs; adopt it when these have ended" +
                              instead);
  // Removes the team and the pool of the found run if they do not exist here.
  if (teams_.registry().Find(record.team) == nullptr) record.team.clear();
  if (!pools_.HasPool(record.pool)) record.pool.clear();
  record.spec_of = id;
  record.shape = ShapeOf(run.spec.command);
  record.array = JobId();
  record.array_index = record.array_ordinal = 0;
  record.queued_at = record.waits_since = record.submitted;
  // The job can run only once: it cannot be started again as it was, because a run record has neither its environment
  // nor its script.
  record.is_run_once = true;
  record.retries = 0;
  JobSpec spec = run.spec;
  if (spec.command.empty()) spec.command = {record.name.empty() ? "script" : record.name};
  spec.name = record.name;
  spec.request = record.request;
  spec.is_run_once = true;
  spec.notes.push_back("adopted from its run record: its environment and script are not known");
  const JobState state = record.state;
  record.state = JobState::kHeld;
  JobRecord& kept = jobs_.live().emplace(id, std::move(record)).first->second;
  predictions_.Know(kept);
  jobs_.CountJobs(1);
  at->second.is_adopted = true;
  gpus_.RefreshGpusOf(run.record.node);
  RunDescription taken = run;
  taken.record.state = state;
  effects_.Insert(kept, std::make_shared<const JobSpec>(std::move(spec)));
  effects_.KeepNextId(jobs_.ids().next);
  const std::string why = "adopted by " + CallerName(caller) + " from its run record";
  if (run.exit) {
    effects_.Note(id, why, now);
    KeepEnd(kept, run, now);
    return std::string("adopted; it had ended");
  }
  TakeUp(kept, taken, why, now);
  effects_.Send(AdoptCommand{kept, kept.node});
  return std::string("adopted; it runs");
}

Result<std::string> RunAdoption::EndFound(JobId id, const Caller& caller) {
  const auto at = found_.all().find(id);
  if (at != found_.all().end() && at->second.is_adopted)
    return FailedPrecondition("job " + ToString(id) + " is adopted already; divvy cancel " + ToString(id) + " ends it");
  if (at == found_.all().end())
    return NotFound("no run of job " + ToString(id) + " was found; divvy adopt lists all found runs");
  const JobRecord& record = at->second.run.record;
  DIVVY_CHECK(access_.Authorise(record, caller, "end"));
  if (at->second.run.exit) {
    effects_.Send(ForgetCommand{id, record.attempt, record.node});
    const std::string node = record.node;
    found_.all().erase(at);
    gpus_.RefreshGpusOf(node);
    return std::string("forgotten: it had ended");
  }
  at->second.is_ending = true;
  effects_.Send(StopCommand{id, 0, Duration(-1), record.node});
  return std::string("stopping: its stop signal now, SIGKILL after its grace");
}

void RunAdoption::ReserveIds(std::uint64_t next_id) {
  if (jobs_.ReserveIds(next_id)) effects_.KeepNextId(next_id);
}

}  // namespace divvy
