#include "control/jobs/job_updates.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/books/node_names.h"
#include "control/books/pool_parts.h"
#include "control/books/record_parts.h"
#include "engine/scheduler/explain.h"
#include "model/same_element.h"

namespace divvy {
namespace {

std::string List(const std::vector<std::string_view>& names) {
  return Join(std::vector<std::string>(names.begin(), names.end()), ", ");
}

/// "priority from 0 to 5, gpus".
std::string ChangedText(const std::vector<std::string_view>& names, const JobRecord& before, const JobRecord& after) {
  std::vector<std::string> words;
  for (const std::string_view name : names) {
    words.emplace_back(name);
    if (name == "priority")
      words.back() += " from " + std::to_string(before.priority) + " to " + std::to_string(after.priority);
    if (name == "time")
      words.back() += " from " + SecondsText(before.time_limit) + " to " + SecondsText(after.time_limit);
  }
  return Join(words, ", ");
}

bool IsLonger(Duration wanted, Duration present) {
  if (present == Duration(0)) return false;
  return wanted == Duration(0) || wanted > present;
}

}  // namespace

Result<std::map<JobId, JobRecord>> JobUpdates::Concerned(JobId id, const Caller& caller) const {
  std::map<JobId, JobRecord> records;
  if (const JobRecord* live = jobs_.Find(id)) {
    DIVVY_CHECK(access_.Authorise(*live, caller, "change"));
    records.emplace(id, *live);
    const std::uint64_t last = id.value() + live->array_count;
    for (auto at = jobs_.live().upper_bound(id); at != jobs_.live().end() && at->first.value() <= last; ++at)
      records.insert(*at);
    return records;
  }
  const JobRecord* array = jobs_.ArrayOf(id);
  if (array == nullptr) return NotFound("there is no queued or running job " + ToString(id));
  DIVVY_CHECK(access_.Authorise(*array, caller, "change"));
  records.emplace(id, jobs_.NewElement(*array, static_cast<std::uint32_t>(id.value() - array->id.value() - 1)));
  return records;
}

// Running jobs keep what they were started with. For an array, only waiting records change, unless all changes are
// possible while running.
Status JobUpdates::KeepWhatMayChange(JobId id, const JobChanges& changes, std::map<JobId, JobRecord>& records) const {
  const std::vector<std::string_view> fixed = changes.NamesForWaiting();
  const JobRecord named = records.at(id);
  if (changes.array_at_once && named.array_count == 0)
    return InvalidArgument("at-once: job " + DisplayId(named) + " is not an array");
  if (fixed.empty()) return {};
  std::erase_if(records, [](const auto& entry) { return !IsWaiting(entry.second.state); });
  if (records.empty()) {
    return FailedPrecondition("job " + DisplayId(named) + " is " + std::string(Name(named.state)) + ": its " +
                              List(fixed) +
                              " cannot change any more; time, priority, name, project, comment, retries, retry-delay "
                              "and requeue-after-reboot can" +
                              (changes.portion ? ", and divvy resize changes a GPU fraction while it runs" : ""));
  }
  // Elements of the array that have started use its specification, so it cannot be changed any more.
  if (changes.spec == nullptr || named.array_count == 0) return {};
  std::uint64_t untouched = named.array_waiting.size();
  for (const auto& [element, record] : records) {
    if (record.array_count == 0 && record.attempt == 0) ++untouched;
  }
  if (untouched == named.array_count) return {};
  return FailedPrecondition(List(changes.spec_fields) + ": " +
                            Plural(static_cast<std::int64_t>(named.array_count - untouched), "element") + " of job " +
                            ToString(id) + " already started with the shared settings" +
                            (named.array_waiting.empty() ? "" : "; name those that wait: " + DisplayId(named)));
}

Status JobUpdates::CheckChange(const JobRecord& before, const JobRecord& after, const JobChanges& changes,
                               const Caller& caller) const {
  const std::string job = "job " + DisplayId(before);
  const bool is_own = caller.is_admin || caller.user.uid == before.user.uid;
  std::vector<std::string_view> owners;
  if (!changes.changes_pool_alone()) owners = changes.spec_fields;
  // Output paths may contain the job's name.
  if (changes.name && std::ranges::find(owners, "name") == owners.end()) owners.push_back("name");
  if (!is_own && !owners.empty()) {
    return PermissionDenied(
        List(owners) + ": " + job + " runs as " + before.user.name +
        "; leaders of a team can change when, where and with which resources its jobs run, but not what they run");
  }
  if (changes.group) DIVVY_CHECK(TeamRules::CheckGroupName(after.group));
  if (const Status may = limits_.CheckPriority(before.priority, after.priority, caller); !may)
    return Error{may.error().code, "priority: " + job + ": " + may.error().message};
  if (changes.time_limit && !caller.is_admin) {
    if (const Status fits = limits_.CheckTimeLimit(after.time_limit); !fits)
      return Error{fits.error().code, "time: " + fits.error().message};
    if (IsActive(before.state) && before.array_count == 0 && IsLonger(after.time_limit, before.time_limit)) {
      return PermissionDenied("time: " + job + " runs, and raising its limit of " + SecondsText(before.time_limit) +
                              " takes an administrator; its owner may lower it");
    }
  }
  if (before.request.is_heterogeneous() && changes.changes_request()) {
    return InvalidArgument("the requests of the components of job " + DisplayId(before) +
                           " cannot be changed; cancel it, and submit it again");
  }
  if (changes.pool && !IsOnlyALabel(pools_.registry(), scheduler_, after.pool))
    DIVVY_CHECK(pools_.CheckPoolNames(PoolsIn(after.pool)));
  if (changes.pool || changes.changes_request() || (changes.time_limit && !caller.is_admin))
    DIVVY_CHECK(CheckPoolChange(after, changes, caller));
  if ((changes.changes_request() || changes.pool) && !changes.queues_anyway) {
    if (changes.node_list || changes.excluded_nodes) DIVVY_CHECK(CheckNodeNames(scheduler_, after.request));
    DIVVY_CHECK(CheckFeasible(scheduler_, after.request, pools_.PlacePool(after.pool)));
    DIVVY_CHECK(teams_.CheckUserGpus(after.user.name, after.request));
  }
  if ((changes.changes_request() || changes.preemptible) && !changes.queues_anyway)
    DIVVY_CHECK(feed_.CheckTeamGpus(after));
  if (after.is_foreground && after.retries > 0)
    return InvalidArgument("retries: " + job + " runs on a user's terminal and cannot be restarted automatically");
  return {};
}

Status JobUpdates::CheckPoolChange(const JobRecord& after, const JobChanges& changes, const Caller& caller) const {
  if (!IsWaiting(after.state)) return {};
  PoolRegistry::Wish wish = pools_.WishOf(after);
  // A user who was admitted before stays admitted.
  wish.is_admin = caller.is_admin || !changes.pool;
  const auto usable = pools_.CheckPools(after.pool, wish);
  std::string field = changes.pool ? "pool: " : "";
  if (!usable && usable.error().message.starts_with("pool ")) field.clear();
  if (!usable) return Error{usable.error().code, field + usable.error().message};
  if (*usable == Join(PoolsIn(after.pool), ",")) return {};
  return PermissionDenied(field + "user " + after.user.name + " may use only " + *usable + " of " + after.pool);
}

Status JobUpdates::Edit(JobId id, std::map<JobId, JobRecord>& edited, const JobChanges& changes, const Caller& caller,
                        Time now, const FindOutcome& outcome) {
  JobChanges own = changes;
  const auto learn = [&](const std::vector<Dependency>& dependencies) -> Status {
    const Status known = dependencies_.LearnOutcomes(dependencies, outcome);
    if (!known) return Error{known.error().code, "dependency: " + known.error().message};
    return {};
  };
  if (changes.dependencies) DIVVY_CHECK(learn(changes.dependencies->all));
  for (auto& [job, record] : edited) {
    const JobRecord before = record;
    if (changes.dependencies && WaitsForSameElement(changes.dependencies->all)) {
      // Which element is meant, and how it ended, differs.
      own.dependencies = changes.dependencies;
      dependencies_.NameCounterparts(record, own.dependencies->all);
      DIVVY_CHECK(learn(own.dependencies->all));
    }
    own.ApplyTo(record);
    DIVVY_CHECK(CheckChange(before, record, changes, caller));
    if ((changes.end_by || changes.time_limit || changes.begin) && IsWaiting(record.state))
      DIVVY_CHECK(CheckDeadline(record.end_by, record.time_limit, record.begin, now));
  }
  DIVVY_CHECK(SubmissionLimits::CheckTexts(jobs_.live(), edited, caller));
  return CheckDependencies(id, edited, changes);
}

Status JobUpdates::CheckDependencies(JobId id, const std::map<JobId, JobRecord>& edited,
                                     const JobChanges& changes) const {
  if (!changes.dependencies && !changes.name) return {};
  if (changes.dependencies) {
    for (const auto& [job, record] : edited) {
      if (record.keeps_waiting || record.dependencies.empty()) continue;
      const DependencyOutlook outlook = dependencies_.DependencyOutlookOf(record);
      if (outlook.is_lost) {
        return FailedPrecondition("dependency: it can never be met, because " + outlook.why +
                                  "; leave it out, or give --keep-waiting");
      }
    }
  }
  // A job that waits for an array waits for all its elements. So a cycle through one element is found from the array.
  const std::string cycle = dependencies_.FindCycle(edited, id);
  if (!cycle.empty()) {
    return InvalidArgument(std::string(changes.dependencies ? "dependency" : "name") + ": job " + ToString(id) +
                           " would wait for itself: " + cycle);
  }
  return {};
}

Result<std::string> JobUpdates::Update(JobId id, const JobChanges& wanted, const Caller& caller, Time now,
                                       const FindOutcome& outcome) {
  JobChanges changes = wanted;
  const std::vector<std::string_view> names = changes.Names();
  if (names.empty()) return InvalidArgument("nothing to change: name a field, such as --priority 5");
  DIVVY_TRY(auto edited, Concerned(id, caller));
  DIVVY_CHECK(KeepWhatMayChange(id, changes, edited));
  const JobRecord first = edited.begin()->second;
  if (changes.dependencies) {
    DIVVY_CHECK(CheckDependencyCount(changes.dependencies->all, edited.size()));
    dependencies_.NameElements(changes.dependencies->all, outcome);
  }
  if (const Status sound = Edit(id, edited, changes, caller, now, outcome); !sound) {
    if (changes.dependencies) dependencies_.ForgetOutcomes(changes.dependencies->all);
    return sound.error();
  }

  // All checks are done, so the changes are applied from here on.
  if (jobs_.Find(id) == nullptr) {
    const JobId array = edited.at(id).array;
    lifecycle_.SplitElement(jobs_.live().at(array), edited.at(id).array_ordinal);
  }
  if (changes.spec != nullptr) {
    // An element that differs gets a specification of its own.
    if (const auto named = edited.find(id); named != edited.end()) named->second.spec_of = id;
    effects_.KeepSpec(id, changes.spec);
  }
  const std::string what = "changed " + ChangedText(names, first, edited.begin()->second);
  effects_.Note(id, what + " by " + CallerName(caller), now);
  std::vector<JobRecord> befores;
  for (const auto& [job, record] : edited) {
    befores.push_back(jobs_.live().at(job));
    Replace(record, changes);
  }
  // Updates jobs that wait for all jobs of a name (singletons), since the name of this job has changed.
  for (const JobRecord& before : befores) {
    if (changes.name) lifecycle_.ResolveDependents(before, now);
    if (const JobRecord* after = jobs_.Find(before.id)) lifecycle_.ResolveDependents(JobRecord(*after), now);
  }
  effects_.RequestPlan();
  return what;
}

void JobUpdates::Replace(const JobRecord& after, const JobChanges& changes) {
  JobRecord& record = jobs_.live().at(after.id);
  const JobRecord before = std::exchange(record, after);
  if (changes.dependencies || changes.name) dependencies_.Replace(before, record);
  if (changes.array_at_once && record.array_count > 0) {
    feed_.SetArrayLimit(record);
    feed_.CountElements(record);
  }
  // The job's kind has changed, so other run times apply. Elements belong to their array's kind.
  if ((changes.spec != nullptr || changes.name) && !record.array.is_set()) {
    if (changes.spec != nullptr) record.shape = ShapeOf(changes.spec->command);
    predictions_.Know(record);
  }
  if (changes.time_limit && IsActive(record.state)) {
    record.full_limit = Duration(-1);
    CutToDeadline(record);
  }
  effects_.Persist(record);
  if (IsWaiting(record.state)) {
    feed_.Put(record);
  } else if (changes.time_limit && record.array_count == 0) {
    scheduler_.SetKnownEnd(record.id, Deadline(record));
    effects_.Send(record, TimeLimitCommand{record.id, Deadline(record), ""});
  }
  effects_.Announce(record);
}

}  // namespace divvy
