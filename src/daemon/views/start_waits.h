// Explains what a starting job waits for on its nodes: other jobs that are moving away from GPUs which it needs as a
// whole.
#pragma once

#include <string>

#include "control/books/record_parts.h"
#include "daemon/shares/sharing_snapshot.h"
#include "daemon/views/views.h"

namespace divvy {

/// Returns sentences about the jobs that a starting job waits for, as the keepers (the processes that share GPUs among
/// jobs) of its nodes have reported them; the first one has a leading space. Each job is named once, by its public id.
/// Empty if no such job is known. Requires: `record` is of a starting job.
std::string StartWaitsText(const JobRecord& record, const SharingSnapshot& shares, const FindOutcome& find);

}  // namespace divvy
