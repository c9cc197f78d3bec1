// Event counters since the start of the daemon, for metrics scrapers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "control/books/record_parts.h"
#include "control/controller/controller.h"
#include "driver/times_taken.h"

namespace divvy {

class Counters {
 public:
  /// Call before the first OnChanges. Records when the runs that are already active began, for their durations.
  void Begin(const Controller& controller) {
    for (const auto& [id, record] : controller.live()) {
      if (IsActive(record.state) && record.started != kNoTime) began_[id] = record.started;
    }
  }
  /// Takes durable changes, as ControllerDriver::Subscribe delivers them.
  void OnChanges(const Controller& controller, const std::vector<Change>& changes, Time now) {
    for (const Change& change : changes) {
      if (!change.job.is_set()) continue;
      if (IsFinal(change.state) && !change.is_array) ++ended_[change.state];
      CountRun(controller, change, now);
      if (change.state != JobState::kStarting) continue;
      const JobRecord* record = controller.Find(change.job);
      if (record != nullptr && record->waits_since != kNoTime)
        waits_.Add(std::max(now - record->waits_since, Duration(0)));
    }
  }
  /// The number of jobs that have ended, by their final state.
  const std::map<JobState, std::uint64_t>& ended() const { return ended_; }
  /// How long jobs that were started had waited.
  const TimesTaken& waits() const { return waits_; }
  /// Durations of finished runs, whether their jobs were queued again or have ended.
  const TimesTaken& runs() const { return runs_; }
  /// The number of runs that were preempted for another job.
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  void CountRun(const Controller& controller, const Change& change, Time now) {
    const JobRecord* record = controller.Find(change.job);
    // A job that runs for milliseconds may have ended, or be queued again, before its start is reported.
    if (change.state == JobState::kRunning)
      began_.try_emplace(change.job, record != nullptr && record->started != kNoTime ? record->started : now);
    if (change.state == JobState::kStopping && record != nullptr && WasPreempted(*record) &&
        std::exchange(preempted_[change.job], record->attempt) != record->attempt)
      ++preemptions_;
    if (!IsFinal(change.state) && !IsWaiting(change.state)) return;
    if (const auto began = began_.extract(change.job)) runs_.Add(std::max(now - began.mapped(), Duration(0)));
    if (IsFinal(change.state)) preempted_.erase(change.job);
  }

  std::map<JobId, Time> began_;               // Start times of the runs that have not ended.
  std::map<JobId, std::uint32_t> preempted_;  // The attempt of each job that was last counted as preempted.
  std::uint64_t preemptions_ = 0;
  TimesTaken runs_{TimesTaken::kLong};
  std::map<JobState, std::uint64_t> ended_;
  TimesTaken waits_{TimesTaken::kLong};
};

}  // namespace divvy
