#include "control/state/progress_tracker.h"

#include <algorithm>

namespace divvy {
namespace {

// A job may report every step; its row is written at most this often.
constexpr Duration kKeepEvery = std::chrono::seconds(10);
// Small changes are not reported to the scheduler, because each report makes it examine all reservations again.
constexpr Duration kLeastNews = std::chrono::seconds(10);
constexpr int kLeastPart = 50;  // Relative to the remaining time.
constexpr Duration kLeastLeft = std::chrono::seconds(1);

/// Returns whether the `end` that a job expects `now` differs enough from `told`, the end last reported to the
/// scheduler (kNever: none).
bool IsNews(Time told, Time end, Time now) {
  const Duration left = end - now;
  // The job runs longer than its last predicted end. Without a new prediction, the scheduler would know no end for it.
  if (told == kNever || (told <= now && left >= kLeastLeft)) return true;
  return std::chrono::abs(end - told) >= std::max(kLeastNews, left / kLeastPart);
}

}  // namespace

Result<Progress> ProgressTracker::Report(JobRecord& record, const ProgressReport& report, Time now) {
  auto after = AfterReport(record.progress, report, now);
  if (!after) return Error{after.error().code, "job " + DisplayId(record) + ": " + after.error().message};
  record.progress = *after;
  ExpectEndOf(record);
  const auto [kept, is_first] = kept_progress_.try_emplace(record.id);
  if (is_first || kept->second.again <= now) {
    kept->second = {AddSaturating(now, kKeepEvery), false};
    effects_.Persist(record);
  } else {
    kept->second.is_stale = true;
  }
  next_keep_ = std::min(next_keep_, kept->second.again);
  effects_.WakeBy(next_keep_);
  return record.progress;
}

// Uses the job's own progress if that is conclusive, otherwise the run times of similar jobs.
void ProgressTracker::ExpectEndOf(const JobRecord& record) {
  const auto end = ExpectedEnd(record);
  if (!end || !IsNews(scheduler_.running(record.id)->predicted_end, *end, record.progress.at)) return;
  scheduler_.SetPredictedEnd(record.id, *end);
}

void ProgressTracker::Keep(Time now) {
  if (now < next_keep_) return;
  next_keep_ = kNever;
  for (auto at = kept_progress_.begin(); at != kept_progress_.end();) {
    auto& [again, is_stale] = at->second;
    const JobRecord* record = again <= now && is_stale ? jobs_.Find(at->first) : nullptr;
    if (again <= now && record == nullptr) {
      at = kept_progress_.erase(at);
      continue;
    }
    if (record != nullptr) {
      effects_.Persist(*record);
      again = AddSaturating(now, kKeepEvery);
      is_stale = false;
    }
    next_keep_ = std::min(next_keep_, again);
    ++at;
  }
}

Batch ProgressTracker::Unkept() const {
  Batch batch;
  for (const auto& [id, kept] : kept_progress_) {
    const JobRecord* record = kept.is_stale ? jobs_.Find(id) : nullptr;
    if (record != nullptr) batch.updates.push_back(*record);
  }
  return batch;
}

}  // namespace divvy
