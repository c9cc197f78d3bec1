// A cache of expected start times of waiting jobs, for listings. Each job's estimate is computed separately, so results
// are kept for a while, and one update computes only as many as the event loop has time for.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "base/id.h"
#include "engine/scheduler/explain.h"

namespace divvy {

class StartEstimateCache {
 public:
  /// How long an estimate is used. It is valid for one moment and shown to the minute.
  static constexpr Duration kStays = std::chrono::seconds(10);

  /// Updates the estimates of these jobs and drops all others. Jobs without an estimate go first, then the oldest
  /// estimates. Stops when `has_time` returns false, but not before one job was estimated. Calls `estimate` once per
  /// estimated job.
  void Update(const std::vector<JobId>& waiting, Time now, const std::function<core::Estimate(JobId)>& estimate,
              const std::function<bool()>& has_time);

  /// Returns null if the job was not estimated yet.
  const core::Estimate* Find(JobId job) const;

 private:
  struct Entry {
    core::Estimate start;
    Time looked = kNoTime;
  };
  std::map<JobId, Entry> entries_;
};

}  // namespace divvy
