// Why a job is in its state, for listings and for `why`.
#pragma once

#include <optional>
#include <string>

#include "control/controller/controller.h"
#include "engine/server/explain.h"

namespace divvy {

/// Why the job is in its state, for listings: of one that waits Controller::WaitingReason, of one that is to start the
/// machine that is waited for, else the record's own. `blockers`: of the same listing; null: of one job.
Reason StateReason(const Controller& controller, const JobRecord& record, FirstBlockers* blockers = nullptr);

/// Controller::WaitingReason, where many are asked for at one moment.
Reason WaitingReasonOf(const Controller& controller, const JobRecord& record, FirstBlockers& blockers);

/// The engine knows caps of teams and users as groups, and the turns of reservations by numbers of its own.
void NameBlocker(const Controller& controller, core::Blocker& blocker);
/// "group team vision" as "team vision", "group user ada" as "user ada".
std::string WithTeamNames(std::string text);

/// The pool that the job names is gone, which comes before all other blockers: to the engine the job wants machines
/// that are not there.
std::optional<core::Blocker> PoolBlocker(const Controller& controller, const JobRecord& record);

}  // namespace divvy
