// Jobs with a deadline: those that can no longer meet it leave the queue, and a run ends by it.
#include <algorithm>

#include "base/duration_text.h"
#include "base/text.h"
#include "control/books/deadlines.h"
#include "control/controller/controller.h"
#include "model/reason_words.h"

namespace divvy {
namespace {

/// The limit of a run is adjusted to its actual start only if the difference is larger than this.
constexpr Duration kDeadlineSlack = std::chrono::seconds(1);

}  // namespace

Status CheckDeadline(Time end_by, Duration time_limit, Time begin, Time now) {
  if (end_by == kNoTime) return {};
  if (end_by <= now) return InvalidArgument("the deadline has passed; give a later one");
  const Time start = std::max(begin, now);
  if (time_limit <= end_by - start) return {};
  const std::string when = begin > now ? ", counted from its begin time," : "";
  return InvalidArgument("with a time limit of " + DurationText(time_limit) + when +
                         " the job cannot end by its deadline; give a shorter limit, or a later deadline");
}

void Controller::WatchDeadline(const JobRecord& record) {
  if (record.end_by != kNoTime) latest_starts_.emplace(LatestStart(record), record.id);
}

void Controller::EndLate(Time now) {
  while (!latest_starts_.empty() && latest_starts_.begin()->first < now) {
    const auto at = jobs_.live().find(latest_starts_.begin()->second);
    latest_starts_.erase(latest_starts_.begin());
    if (at == jobs_.live().end()) continue;
    JobRecord& record = at->second;
    if (LatestStart(record) >= now) {  // The deadline or limit was changed meanwhile.
      WatchDeadline(record);
    } else if (record.array_count > 0) {
      EndLateElements(record, now);
    } else if (IsWaiting(record.state)) {
      Finish(record, JobState::kTimedOut, Reason(kTooLateForDeadline), now);
    }
  }
}

void Controller::EndLateElements(JobRecord& array, Time now) {
  const auto late = static_cast<std::uint32_t>(array.array_waiting.size());
  if (late == 0) return;
  const JobId id = array.id;
  array.array_failed += late;
  array.array_waiting = IndexRanges();
  if (scheduler_.waiting(id) != nullptr) scheduler_.Remove(id);
  array.state = JobState::kRunning;
  array.is_held = false;
  effects_.Note(id, Plural(late, "element") + " could not start in time to be over by the deadline", now);
  effects_.Persist(array);
  effects_.Announce(array);
  ResolveDependents(JobRecord(array), now);
  FinishArrayIfDone(id, now);
  effects_.RequestPlan();
}

// Requires: the job has just started, or is about to.
bool Controller::CutToDeadline(JobRecord& record) {
  if (record.end_by == kNoTime) return false;
  const Duration before = record.time_limit;
  const Duration full = record.full_limit >= Duration(0) ? record.full_limit : record.time_limit;
  const Duration left = std::max(record.end_by - record.started, kDeadlineSlack);
  const bool is_cut = full == Duration(0) || left < full;
  record.time_limit = is_cut ? left : full;
  record.full_limit = is_cut ? full : Duration(-1);
  return std::max(before, record.time_limit) - std::min(before, record.time_limit) > kDeadlineSlack;
}

void Controller::RestoreLimit(JobRecord& record) {
  if (record.full_limit >= Duration(0)) record.time_limit = std::exchange(record.full_limit, Duration(-1));
}

}  // namespace divvy
