// All that an administrator can choose about deciding. Plain values, so that a configuration can be read without the
// engine.
#pragma once

#include <string_view>

#include "base/time.h"
#include "model/job.h"

namespace divvy {

/// Who is looked at first; docs/scheduling.md has the rules.
enum class QueuePolicy { kSmallFirst, kFifo, kFair, kShortest };

/// When running jobs give their GPUs to others. Off as long as `reclaims` and `preempts` are.
struct TakingBack {
  bool reclaims = false;                      // Between teams: what one holds beyond its share.
  bool preempts = false;                      // From a lower priority, of the same team.
  bool consolidates = false;                  // Jobs that may be paused go elsewhere so that a larger one fits.
  Duration least_run{0};                      // A job that started more recently keeps what it has.
  Duration patience{0};                       // A job takes only after it has waited so long.
  Duration grace = std::chrono::seconds(30);  // What a taken job has between its signal and SIGKILL.

  bool is_on() const { return reclaims || preempts || consolidates; }
  friend bool operator==(const TakingBack&, const TakingBack&) = default;
};

/// Defaults: units and reasons beside each.
struct Policy {
  QueuePolicy order = QueuePolicy::kSmallFirst;
  Duration escalate_after = std::chrono::hours(1);  // Valohai's figure; 0: never escalates.
  /// Of jobs that name none; the engine reads the entry's.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  /// Jobs without GPUs that may run at once; they never wait behind GPU jobs, so something else must bound them.
  int cpu_jobs_at_once = 256;
  /// kFair: what a team has used counts half after so long.
  Duration usage_half_life = std::chrono::hours(24 * 7);
  TakingBack taking_back;
  /// Of jobs that do not say whether they may be taken from.
  Preemptible preemptible = Preemptible::kNever;

  friend bool operator==(const Policy&, const Policy&) = default;
};

/// As the configuration writes it: "small-first".
std::string_view Name(QueuePolicy order);

}  // namespace divvy
