// The steps of a job (model/steps/step_list.h) as messages.
#pragma once

#include <vector>

#include "model/steps/step_list.h"
#include "wire/messages/messages.h"

namespace divvy::wire {

/// `job_end`: when their job ended; kNoTime: it has not. `has_commands`: the caller may see what they run. `seats`: the
/// job's machines, where it has several.
std::vector<StepView> StepViewsOf(const std::vector<StepLine>& steps, Time job_end, bool has_commands,
                                  const std::vector<SeatView>& seats);

}  // namespace divvy::wire
