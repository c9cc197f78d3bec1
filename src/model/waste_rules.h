// When a job is said to waste its GPUs, and whose jobs are left alone ([waste] in divvy.toml).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace divvy {

/// What is done about a job that goes on to waste its GPUs, after it was warned. In the order of what it costs the job.
enum class WasteAction {
  kNone,
  kPark,     // Its parts of GPUs: their memory goes to the host until it uses them again. Whole GPUs: nothing.
  kPause,    // Parts of GPUs: paused until it is resumed. Whole GPUs: back to the queue, and held there.
  kRequeue,  // Back to the queue.
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
/// A label of a job that wants it for itself (--on-waste).
inline constexpr std::string_view kOnWasteLabel = "on-waste";

struct WasteRules {
  bool is_on = true;
  Duration grace = std::chrono::minutes(10);       // After a start: data and models are loaded.
  Duration idle_after = std::chrono::minutes(30);  // Of a GPU at 0%.
  Duration window = std::chrono::hours(1);         // Over which a mean is taken; a minute at least.
  double underused = 0.25;                         // Below this mean; 0: never.
  double small_memory = 0.25;                      // Below this peak, of what it has; 0: never.
  WasteAction action = WasteAction::kNone;         // Of all jobs; a job may want more (--on-waste).
  std::vector<std::string> action_on = {"idle"};   // For these findings: "idle", "some_idle", "cpu_bound", ...
  Duration warn_every = std::chrono::minutes(15);  // From a warning to the next, and from the last to the action.
  int warnings = 2;
  std::vector<std::string> exempt_users;
  std::vector<std::string> exempt_teams;
  std::vector<std::string> exempt_names;  // Of jobs; "notebook*" begins so.

  friend bool operator==(const WasteRules&, const WasteRules&) = default;
};

}  // namespace divvy
