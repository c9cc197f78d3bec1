// When the warning ahead of a job's time limit is sent.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace divvy {

/// How long before the end of `limit` the warning is sent, if the user requested it `before` the end. A program gets
/// the first 30 s of its run to install its handler, or the first half if `limit` is below one minute; without one the
/// signal would end it. Without a time limit (`limit` 0) the result is `before`.
inline Duration WarnBefore(Duration limit, Duration before) {
  if (limit <= Duration(0)) return before;
  return std::min(before, limit - std::min<Duration>(std::chrono::seconds(30), limit / 2));
}

}  // namespace divvy
