// When a job counts as wasting its GPUs, and which jobs are exempt ([waste] in divvy.toml).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace divvy {

/// The action against a job that still wastes its GPUs after the warnings. Ordered by how much it costs the job.
enum class WasteAction {
  kNone,
  kPark,     // GPU fractions: their memory moves to the host until the job uses them again. Whole GPUs: no effect.
  kPause,    // GPU fractions: paused until resumed. Whole GPUs: requeued and held.
  kRequeue,  // Requeued.
  kStop,
};
constexpr std::string_view Name(WasteAction action) {
  constexpr std::string_view kNames[] = {"none", "park", "pause", "requeue", "stop"};
  return kNames[static_cast<std::size_t>(action)];
}
constexpr std::optional<WasteAction> WasteActionOf(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(WasteAction::kStop); ++i) {
    if (name == Name(static_cast<WasteAction>(i))) return static_cast<WasteAction>(i);
  }
  return std::nullopt;
}
/// The label with which a job sets its own action (--on-waste).
inline constexpr std::string_view kOnWasteLabel = "on-waste";

struct WasteRules {
  bool is_on = true;
  Duration grace = std::chrono::minutes(10);       // Time after a start in which data and models are loaded.
  Duration idle_after = std::chrono::minutes(30);  // Time of a GPU at 0%.
  Duration window = std::chrono::hours(1);         // Window for means; at least one minute.
  double underused = 0.25;                         // Threshold for the mean utilization. 0: never.
  double small_memory = 0.25;                      // Threshold for the peak memory, relative to what the job has. 0:
                                                   // never.
  WasteAction action = WasteAction::kNone;         // For all jobs. A job may choose a stronger one (--on-waste).
  std::vector<std::string> action_on = {"idle"};   // The findings that lead to the action: "idle", "some_idle",
                                                   // "cpu_bound", ...
  Duration warn_every = std::chrono::minutes(15);  // Time between warnings, and from the last warning to the action.
  int warnings = 2;
  std::vector<std::string> exempt_users;
  std::vector<std::string> exempt_teams;
  std::vector<std::string> exempt_names;  // Names of jobs; "notebook*" matches a prefix.

  friend bool operator==(const WasteRules&, const WasteRules&) = default;
};

}  // namespace divvy
