// Whom the start of a job waits for.
#pragma once

#include "control/controller.h"
#include "engine/server/idle_gpus.h"

namespace divvy {

/// Why the job is in its state, for listings: of one that waits Controller::WaitingReason, of one that is to start the
/// machine that is waited for, else the record's own. `idle`: of the same listing; null: of one job.
Reason StateReason(const Controller& controller, const JobRecord& record, IdleTexts* idle = nullptr);

/// Controller::WaitingReason, where many are asked for at one moment.
Reason WaitingReasonOf(const Controller& controller, const JobRecord& record, IdleTexts& idle);

}  // namespace divvy
