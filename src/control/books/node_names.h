// Checks node names in job requests.
#pragma once

#include "base/result.h"
#include "engine/server/server.h"
#include "model/job.h"

namespace divvy {

/// Checks that every node that the request includes or excludes exists, because a misspelt name would change the
/// placement. Does nothing if there is only one node.
Status CheckNodeNames(const Server& server, const Request& request);

}  // namespace divvy
