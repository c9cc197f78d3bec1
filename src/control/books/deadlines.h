// Jobs that have to be over by a time (JobSpec::end_by).
#pragma once

#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// Whether a job with this limit (0: none) can begin at `begin`, or now where that is later, and be over by `end_by`
/// (kNoTime: whenever it is). Fails with kInvalidArgument and what would help.
Status CheckDeadline(Time end_by, Duration time_limit, Time begin, Time now);

}  // namespace divvy
