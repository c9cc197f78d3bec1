// Decides when a job that wastes its GPUs is warned, and when the configured action is taken. One object serves one run
// of a job.
//
//     wasteful -> warning 1 -> warn_every -> warning 2 -> warn_every -> the action
//
// A job that uses its GPUs again starts over. A failed action is retried after warn_every.
#pragma once

#include <optional>

#include "model/waste_rules.h"
#include "samples/sample.h"

namespace divvy::samples {

class WasteSteps {
 public:
  enum class Due { kNothing, kWarning, kAction };

  /// Returns what is due now: nothing, a warning, or the action. Call this in order of time. `is_wasteful`: there is a
  /// finding that leads to an action. With `action` kNone nothing is ever due.
  Due Look(bool is_wasteful, WasteAction action, const WasteRules& rules, Second now);
  /// Call when the action that Look returned as due (kAction, not a warning) has been tried. `is_done`: it succeeded.
  void OnAction(bool is_done, const WasteRules& rules, Second now);

  /// State that is kept across restarts of the daemon.
  struct State {
    int warnings = 0;
    Second next_at = 0;
    bool is_done = false;

    friend bool operator==(const State&, const State&) = default;
  };
  State state() const { return {warnings_, next_at_, is_done_}; }
  void Resume(const State& state) {
    warnings_ = state.warnings;
    next_at_ = state.next_at;
    is_done_ = state.is_done;
  }

  /// Number of warnings since the waste began.
  int warnings() const { return warnings_; }
  /// When the action is due, if the waste continues; std::nullopt: not scheduled.
  std::optional<Second> ActionAt(const WasteRules& rules) const;

 private:
  int warnings_ = 0;
  Second next_at_ = 0;    // Time of the next step; unused before the first warning.
  bool is_done_ = false;  // True until the job uses its GPUs again.
};

}  // namespace divvy::samples
