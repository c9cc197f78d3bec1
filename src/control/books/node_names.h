// Names of machines in what a job asks for.
#pragma once

#include "base/result.h"
#include "engine/server/server.h"
#include "model/job.h"

namespace divvy {

/// Each machine that the request names, or wants to keep away from, is there: a misspelt name would mean another place
/// than was meant. Where there is but one machine nothing is looked at.
Status CheckNodeNames(const Server& server, const Request& request);

}  // namespace divvy
