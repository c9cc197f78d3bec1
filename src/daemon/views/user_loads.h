// Limits each user's load on the daemon: requests in flight, and submissions per second. Applies to users who are not
// administrators. Used on the loop's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/time.h"

namespace divvy {

class UserLoads {
 public:
  /// The limit on unanswered requests of one user, streams included.
  static constexpr std::size_t kMostInFlight = 512;
  /// The submission burst of one user, and then the pause between submissions (200 a second).
  static constexpr std::int64_t kSubmissionsAtOnce = 1000;
  static constexpr Duration kSubmissionPause = std::chrono::milliseconds(5);

  /// Counts a request of this user as in flight until the returned ticket is destroyed. Returns null if the user is at
  /// the limit. The ticket may outlive this object.
  std::shared_ptr<void> Begin(std::int64_t uid);
  /// Counts a submission and returns the delay after which it may be carried out. Requires: `now` never decreases.
  Duration NextSubmission(std::int64_t uid, Time now);

 private:
  struct Load {
    std::weak_ptr<std::size_t> in_flight;
    Time next_submission = kNoTime;  // The earliest time of the next submission if there were no bursts.
  };
  std::unordered_map<std::int64_t, Load> loads_;  // A few bytes for each user who has ever sent a request.
};

}  // namespace divvy
