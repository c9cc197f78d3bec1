#include "control/state/retry_delays.h"

#include <algorithm>
#include <utility>

namespace divvy {
namespace {

/// How long until a job is tried again whose GPUs a node could not free; doubled each time.
constexpr Duration kRoomIsMadeIn = std::chrono::seconds(2);

}  // namespace

// By then, the node's report about tenants that must stay has usually been taken into account.
Duration RetryDelays::RoomDelay(JobId job) const {
  constexpr int kMostDoublings = 5;
  const auto refused = refusals_.find(job);
  const int times = refused == refusals_.end() ? 0 : std::clamp(refused->second - 1, 0, kMostDoublings);
  return kRoomIsMadeIn * (1 << times);
}

// Next to the same owner it would have to leave again. A longer delay leaves it more time to work in between.
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
