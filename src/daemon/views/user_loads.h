// How much each user asks of the daemon at once: requests that are not answered yet, and submissions per second. For
// users who are no administrators; belongs to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/time.h"

namespace divvy {

class UserLoads {
 public:
  /// The most requests of one user that wait for their answers, streams included.
  static constexpr std::size_t kMostInFlight = 512;
  /// One user may submit so many jobs at once, and after that one in each pause (200 a second).
  static constexpr std::int64_t kSubmissionsAtOnce = 1000;
  static constexpr Duration kSubmissionPause = std::chrono::milliseconds(5);

  /// Counts a request until the ticket is let go; null where the user has as many as they may. May outlive this object.
  std::shared_ptr<void> Begin(std::int64_t uid);
  /// Counts a submission; how long it has to wait for its turn, 0 or more. Requires: `now` never decreases.
  Duration NextSubmission(std::int64_t uid, Time now);

 private:
  struct Load {
    std::weak_ptr<std::size_t> in_flight;
    Time next_submission = kNoTime;  // The earliest turn of the next one, if none came all at once.
  };
  std::unordered_map<std::int64_t, Load> loads_;  // A few bytes for each user who ever asked.
};

}  // namespace divvy
