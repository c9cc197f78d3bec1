#include "samples/waste_steps.h"

#include <algorithm>

namespace divvy::samples {
namespace {

Second StepOf(const WasteRules& rules) {
  return std::max<Second>(1, std::chrono::duration_cast<std::chrono::seconds>(rules.warn_every).count());
}

}  // namespace

WasteSteps::Due WasteSteps::Look(bool is_wasteful, WasteAction action, const WasteRules& rules, Second now) {
  if (!is_wasteful || action == WasteAction::kNone) {
    *this = WasteSteps();
    return Due::kNothing;
  }
  if (is_done_ || (warnings_ > 0 && now < next_at_)) return Due::kNothing;
  next_at_ = now + StepOf(rules);
  if (warnings_ >= rules.warnings) return Due::kAction;
  ++warnings_;
  return Due::kWarning;
}

void WasteSteps::OnAction(bool is_done, const WasteRules& rules, Second now) {
  is_done_ = is_done;
  next_at_ = now + StepOf(rules);
}

std::optional<Second> WasteSteps::ActionAt(const WasteRules& rules) const {
  if (warnings_ == 0 || is_done_) return std::nullopt;
  return next_at_ + (rules.warnings - warnings_) * StepOf(rules);
}

}  // namespace divvy::samples
