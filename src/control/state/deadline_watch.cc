#include "control/state/deadline_watch.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"

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

void DeadlineWatch::Watch(const JobRecord& record) {
  if (record.end_by != kNoTime) latest_starts_.emplace(LatestStart(record), record.id);
}

// Requires: the job has just started, or is about to.
bool CutToDeadline(JobRecord& record) {
  if (record.end_by == kNoTime) return false;
  const Duration before = record.time_limit;
  const Duration full = record.full_limit >= Duration(0) ? record.full_limit : record.time_limit;
  const Duration left = std::max(record.end_by - record.started, kDeadlineSlack);
  const bool is_cut = full == Duration(0) || left < full;
  record.time_limit = is_cut ? left : full;
  record.full_limit = is_cut ? full : Duration(-1);
  return std::max(before, record.time_limit) - std::min(before, record.time_limit) > kDeadlineSlack;
}

void RestoreLimit(JobRecord& record) {
  if (record.full_limit >= Duration(0)) record.time_limit = std::exchange(record.full_limit, Duration(-1));
}

std::optional<JobId> DeadlineWatch::PopLate(Time now) {
  if (latest_starts_.empty() || latest_starts_.begin()->first >= now) return std::nullopt;
  const JobId job = latest_starts_.begin()->second;
  latest_starts_.erase(latest_starts_.begin());
  return job;
}

}  // namespace divvy
