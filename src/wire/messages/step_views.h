// The steps of a job (model/steps/step_list.h) as messages.
#pragma once

#include <vector>

#include "model/steps/step_list.h"
#include "wire/messages/messages.h"

namespace divvy::wire {

/// Converts the steps of a job to messages of the API. `job_end`: when the job ended; kNoTime if it has not ended.
/// `has_commands`: includes the commands, because the caller may see them. `allocations`: the job's nodes, if it has
/// several.
std::vector<StepView> StepViewsOf(const std::vector<StepLine>& steps, Time job_end, bool has_commands,
                                  const std::vector<AllocationView>& allocations);

}  // namespace divvy::wire
