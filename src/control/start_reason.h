// Whom the start of a job waits for.
#pragma once

#include "control/controller.h"

namespace divvy {

/// Why the job is in its state, for listings: of one that waits Controller::WaitingReason, of one that is to start the
/// machine that is waited for, else the record's own.
Reason StateReason(const Controller& controller, const JobRecord& record);

}  // namespace divvy
