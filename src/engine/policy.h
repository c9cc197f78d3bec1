// All scheduling settings that an administrator can choose. Plain values, so that a configuration can be parsed without
// linking the engine.
#pragma once

#include <string_view>

#include "base/time.h"
#include "model/job.h"

namespace divvy {

/// Queue order; docs/scheduling.md has the rules.
enum class QueuePolicy {
  kSmallFirst,  // Priority, escalated, fewer GPUs, longest wait.
  kFifo,        // Priority, longest wait.
  kFair,        // Team below quota, least served team, team with the least recent usage, then as kSmallFirst.
  kShortest,    // Priority, predicted GPU time with ageing.
};

/// When running jobs are preempted or reclaimed for others. Off unless `reclaims`, `preempts` or `consolidates` is set.
struct PreemptionSettings {
  bool reclaims = false;                      // Between teams: takes what a team holds beyond its share.
  bool preempts = false;                      // Within a team: takes from jobs of lower priority.
  bool consolidates = false;                  // Migrates jobs that can be paused so that a larger job fits.
  Duration min_runtime{0};                    // Jobs that started more recently are not preempted.
  Duration wait_before{0};                    // A job preempts only after it has waited this long.
  Duration grace = std::chrono::seconds(30);  // Time between a victim's signal and SIGKILL.

  bool is_on() const { return reclaims || preempts || consolidates; }
  friend bool operator==(const PreemptionSettings&, const PreemptionSettings&) = default;
};

enum class TimeSharingMode {
  kOff,
  kAuto,  // Only on nodes where parking is known to work.
  kOn,
};

/// Whether running jobs with whole GPUs are parked so that new ones start at once (docs/time-sharing.md).
struct TimeSharingSettings {
  TimeSharingMode mode = TimeSharingMode::kOff;
  Duration trial = std::chrono::hours(4);  // GPU time for which a new job is on trial.
  double at_most = 0.2;                    // The part of its run time that a job loses at most, plus ten minutes.

  bool is_on() const { return mode != TimeSharingMode::kOff; }
  friend bool operator==(const TimeSharingSettings&, const TimeSharingSettings&) = default;
};

/// Defaults; each field's comment gives its reason.
struct Policy {
  QueuePolicy order = QueuePolicy::kSmallFirst;
  Duration escalate_after = std::chrono::hours(1);  // Valohai's figure; 0: never escalates.
  /// For jobs that specify none. The engine reads the strategy from each job.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  /// Limit on running jobs without GPUs. They never wait behind GPU jobs, so they need a limit of their own.
  int cpu_jobs_at_once = 256;
  /// For the policy kFair: the time in which the past usage of a team loses half its weight.
  Duration usage_half_life = std::chrono::hours(24 * 7);
  PreemptionSettings preemption;
  /// For jobs that do not specify whether they are preemptible.
  Preemptible preemptible = Preemptible::kNever;
  TimeSharingSettings time_sharing;

  friend bool operator==(const Policy&, const Policy&) = default;
};

/// Returns the policy's name in the configuration, such as "small-first".
std::string_view Name(QueuePolicy order);

}  // namespace divvy
