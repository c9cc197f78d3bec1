// Explains why a job is in its state, for listings and for `why`.
#pragma once

#include <optional>
#include <string>

#include "control/controller/controller.h"
#include "engine/scheduler/explain.h"

namespace divvy {

/// The reason of the job's state, for listings. For a waiting job this is Controller::WaitingReason; for a starting one
/// it names the node that is awaited; otherwise it is the record's own reason. `blockers`: shared by the jobs of one
/// listing; null for a single job.
Reason StateReason(const Controller& controller, const JobRecord& record, FirstBlockers* blockers = nullptr);

/// Like Controller::WaitingReason, but faster for many jobs at the same moment: they share `blockers`.
Reason WaitingReasonOf(const Controller& controller, const JobRecord& record, FirstBlockers& blockers);

/// Replaces names in `blocker` by those that users know. The scheduling engine has limits of teams and users as groups,
/// and advance reservations under ids of its own.
void NameBlocker(const Controller& controller, core::Blocker& blocker);
/// Shortens "group team vision" to "team vision", and "group user ada" to "user ada".
std::string WithTeamNames(std::string text);

/// Returns the blocker of a job whose pool no longer exists; nullopt if it does. It comes before all other blockers.
/// The scheduling engine itself only finds that there are no nodes for the job.
std::optional<core::Blocker> PoolBlocker(const Controller& controller, const JobRecord& record);

}  // namespace divvy
