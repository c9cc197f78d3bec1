#include "control/state/retry_delays.h"

#include <algorithm>
#include <utility>

namespace divvy {
namespace {

/// How long until a job is tried again whose GPUs a node could not free; doubled each time.
constexpr Duration kRoomIsMadeIn = std::chrono::seconds(2);

}  // namespace

// Returns how long the job waits before its next start. By then the controller usually knows which tenants cannot leave
// the node's GPUs.
Duration RetryDelays::RoomDelay(JobId job) const {
  constexpr int kMostDoublings = 5;
  const auto refused = refusals_.find(job);
  const int times = refused == refusals_.end() ? 0 : std::clamp(refused->second - 1, 0, kMostDoublings);
  return kRoomIsMadeIn * (1 << times);
}

// Returns how long a job waits after it was requeued to return borrowed memory. On the same GPU, it would soon have to
// return memory again. With a longer delay it runs longer in between.
Duration RetryDelays::BorrowDelay(const JobRecord& record, Time now) {
  constexpr Duration kLeast = std::chrono::minutes(1);
  constexpr int kMostDoublings = 5;
  const auto repaid = repaid_.find(record.id);
  if (repaid == repaid_.end() || !std::exchange(repaid->second.is_now, false)) return Duration(0);
  int& times = repaid->second.times;
  const bool has_run_long = now - record.started > kLeast * (1 << kMostDoublings);
  times = has_run_long ? 0 : std::min(times, kMostDoublings);
  return kLeast * (1 << times++);
}

}  // namespace divvy
