#include "daemon/views/user_loads.h"

#include <algorithm>

namespace divvy {

std::shared_ptr<void> UserLoads::Begin(std::int64_t uid) {
  Load& load = loads_[uid];
  std::shared_ptr<std::size_t> count = load.in_flight.lock();
  if (!count) load.in_flight = count = std::make_shared<std::size_t>(0);
  if (*count >= kMostInFlight) return nullptr;
  ++*count;
  return {count.get(), [count](void*) { --*count; }};
}

// The generic cell rate algorithm: each submission is due one pause after the previous one, and a limited burst may
// come earlier.
Duration UserLoads::NextSubmission(std::int64_t uid, Time now) {
  Time& next = loads_[uid].next_submission;
  const Time turn = std::max(next, now);
  next = turn + kSubmissionPause;
  return std::max(Duration(0), Duration(turn - now - kSubmissionsAtOnce * kSubmissionPause));
}

}  // namespace divvy
