// Jobs with a deadline (JobSpec::end_by).
#pragma once

#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// Checks that a job with this limit (0: none) can start at `begin`, or now if that is later, and end by `end_by`
/// (kNoTime: no deadline). Fails with kInvalidArgument and a suggestion.
Status CheckDeadline(Time end_by, Duration time_limit, Time begin, Time now);

}  // namespace divvy
