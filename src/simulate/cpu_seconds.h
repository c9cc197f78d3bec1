// The processor time of this thread, in seconds.
#pragma once

#include <time.h>

namespace divvy::simulate {

inline double CpuSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace divvy::simulate
