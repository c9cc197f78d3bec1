// Checks node names in job requests.
#pragma once

#include "base/result.h"
#include "engine/scheduler/scheduler.h"
#include "model/job.h"

namespace divvy {

/// Checks that every node that the request includes or excludes exists, because a misspelt name would change the
/// placement. Does nothing if there is only one node.
Status CheckNodeNames(const Scheduler& scheduler, const Request& request);

}  // namespace divvy
