// When the jobs that wait should start, for listings: each is an estimate of its own, so what was found stays for a
// while, and one look finds no more than the loop has time for.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "base/id.h"
#include "engine/server/explain.h"

namespace divvy {

class StartBook {
 public:
  /// So long an estimate is good enough; it is of one moment, and said to the minute.
  static constexpr Duration kStays = std::chrono::seconds(10);

  /// Brings the book up to date for these, and forgets all others: those of whom nothing is known first, then those
  /// that were looked at longest ago. Stops when `has_time` says so, but not before it has looked at one. `estimate` is
  /// asked once for each that is looked at.
  void Update(const std::vector<JobId>& waiting, Time now, const std::function<core::Estimate(JobId)>& estimate,
              const std::function<bool()>& has_time);

  /// Null: not looked at yet.
  const core::Estimate* Find(JobId job) const;

 private:
  struct Entry {
    core::Estimate start;
    Time looked = kNoTime;
  };
  std::map<JobId, Entry> entries_;
};

}  // namespace divvy
