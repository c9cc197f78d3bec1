// When the warning ahead of a job's time limit is sent.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace divvy {

/// How long before the end of `limit` the warning goes out that was asked for `before` it. A program gets the first
/// 30 s of its run, or half of a shorter run, to install its handler: without one the signal would end it. `limit` 0:
/// there is none.
inline Duration WarnBefore(Duration limit, Duration before) {
  if (limit <= Duration(0)) return before;
  return std::min(before, limit - std::min<Duration>(std::chrono::seconds(30), limit / 2));
}

}  // namespace divvy
