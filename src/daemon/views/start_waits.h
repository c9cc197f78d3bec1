// Explains what a starting job waits for on its nodes: other jobs that are moving away from GPUs which it needs as a
// whole.
#pragma once

#include <string>

#include "control/books/record_parts.h"
#include "daemon/shares/sharing_snapshot.h"
#include "daemon/views/views.h"

namespace divvy {

/// Returns sentences from the keepers of the job's nodes, the first with a leading space. Each job in the way is named
/// once, by its public name. Empty if nothing is known to be in the way. Requires: the job is starting.
std::string StartWaitsText(const JobRecord& record, const SharingSnapshot& shares, const FindOutcome& find);

}  // namespace divvy
