// When a job that wastes its GPUs is warned, and when something is done about it. One is for one run of one job; shown
// now and then whether it wastes them, it says what is due.
//
//   wasteful -> warning 1 -> warn_every -> warning 2 -> warn_every -> the action
//
// Whoever uses the GPUs again begins anew. What could not be done is tried again after warn_every.
#pragma once

#include <optional>

#include "model/waste_rules.h"
#include "samples/sample.h"

namespace divvy::samples {

class WasteSteps {
 public:
  enum class Due { kNothing, kWarning, kAction };

  /// In order of time. `is_wasteful`: there is a finding for which something is done. `action` kNone: nothing ever is.
  Due Look(bool is_wasteful, WasteAction action, const WasteRules& rules, Second now);
  /// What came of the action that was due.
  void OnAction(bool is_done, const WasteRules& rules, Second now);

  /// What is kept over a restart of the daemon.
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

  /// Warnings that were given since it began to waste them.
  int warnings() const { return warnings_; }
  /// When it is due; nothing: it is not, as things are.
  std::optional<Second> ActionAt(const WasteRules& rules) const;

 private:
  int warnings_ = 0;
  Second next_at_ = 0;    // The next step's time; of no use before the first warning.
  bool is_done_ = false;  // Until it uses its GPUs again.
};

}  // namespace divvy::samples
