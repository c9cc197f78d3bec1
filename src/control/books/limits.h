// The administrator's limits on submissions.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "base/units.h"

namespace divvy {

struct Limits {
  std::uint64_t max_queued = 1'000'000;  // Waiting jobs, arrays counted by element. Further submissions are refused.
  std::uint64_t max_queued_of_user = 10'000;  // The same per user, except administrators.
  bool users_may_raise = false;               // Users may give their jobs a priority above 0.
  Duration max_time_limit{0};                 // 0: none.
  Duration default_time_limit{0};             // 0: none.
  Bytes ignore_unmanaged_below;               // A foreign process with less GPU memory than this does not make a GPU
                                              // unavailable.
};

}  // namespace divvy
