// Metrics that reach the controller otherwise than with the samples of a job's node: from `divvy metrics --add`, and
// from `divvy run`, which reads the output that it prints. They are kept until the samples of the same seconds arrive
// from the job's node, because an agent's samples are ten seconds late, and the seconds of a job must be stored in
// order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "samples/sample.h"

namespace divvy {

class ReportedMetrics {
 public:
  static constexpr std::size_t kMostSeconds = 600;  // The limit per job; the oldest seconds are dropped.
  // In seconds. Older values are dropped, because no samples from that time can still arrive.
  static constexpr samples::Second kReach = 900;

  struct Second {
    samples::Second at = 0;
    std::vector<samples::Reading> readings;
  };

  /// `at` must not be earlier than in the previous call for this job. The newest value of each name in each second
  /// counts. Values without a name, such as the number of skipped lines, are summed up.
  void Add(std::uint64_t job, samples::Second at, const std::vector<samples::Reading>& readings);
  /// Removes and returns the values that the job reported up to that second, oldest first.
  std::vector<Second> Take(std::uint64_t job, samples::Second until);
  /// Drops the jobs whose newest value is older than kReach.
  void Forget(samples::Second now);
  bool empty() const { return jobs_.empty(); }
  std::vector<std::uint64_t> jobs() const;

 private:
  std::map<std::uint64_t, std::vector<Second>> jobs_;  // Contains only jobs with at least one second.
};

}  // namespace divvy
