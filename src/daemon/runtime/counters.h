// Event counters since the start of the daemon, for metrics scrapers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "control/books/record_parts.h"
#include "control/controller/controller.h"

namespace divvy {

/// A histogram of durations.
class TimesTaken {
 public:
  /// Bucket bounds in seconds: kQuick for decisions in memory, kLong for up to days in the queue.
  static constexpr std::array<double, 16> kQuick = {1e-5,  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01,
                                                    0.025, 0.05, 0.1,    0.25, 0.5,  1,      2.5,  10};
  static constexpr std::array<double, 16> kLong = {0.1,  1,    5,      15,     60,     300,     600,     1800,
                                                   3600, 7200, 14'400, 28'800, 86'400, 172'800, 345'600, 604'800};

  explicit TimesTaken(const std::array<double, 16>& bounds) : bounds_(bounds) {}
  void Add(Duration took) {
    const double seconds = ToSeconds(took);
    const auto bucket = std::ranges::lower_bound(bounds_, seconds) - bounds_.begin();
    ++counts_[static_cast<std::size_t>(bucket)];
    sum_ += seconds;
  }
  const std::array<double, 16>& bounds() const { return bounds_; }
  const std::array<std::uint64_t, 17>& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  const std::array<double, 16>& bounds_;
  std::array<std::uint64_t, 17> counts_{};
  double sum_ = 0;
};

class Counters {
 public:
  /// Call before the first change. Records the runs that were already active.
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
  const std::map<JobState, std::uint64_t>& ended() const { return ended_; }
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
    if (change.state == JobState::kStopping && record != nullptr && WasTakenBack(*record) &&
        std::exchange(taken_back_[change.job], record->attempt) != record->attempt)
      ++preemptions_;
    if (!IsFinal(change.state) && !IsWaiting(change.state)) return;
    if (const auto began = began_.extract(change.job)) runs_.Add(std::max(now - began.mapped(), Duration(0)));
    if (IsFinal(change.state)) taken_back_.erase(change.job);
  }

  std::map<JobId, Time> began_;                // Start times of the runs that have not ended.
  std::map<JobId, std::uint32_t> taken_back_;  // The attempt that was counted last.
  std::uint64_t preemptions_ = 0;
  TimesTaken runs_{TimesTaken::kLong};
  std::map<JobState, std::uint64_t> ended_;
  TimesTaken waits_{TimesTaken::kLong};
};

}  // namespace divvy
