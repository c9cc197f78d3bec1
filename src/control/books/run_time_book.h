// What is known of how long the jobs here run: which kind each live job is of, and the runs of those that have ended
// (engine/run_times.h).
//
// Predictions are kept by kind until another run has ended, so that 100,000 submissions of a sweep cost one. They are
// rounded to two digits: jobs that differ by less are equal to the engine, which keeps equal jobs as one class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "engine/core/estimate/estimate.h"
#include "engine/run_times.h"
#include "model/job_record.h"

namespace divvy {

/// Two digits of it, at least a second.
Duration Rounded(Duration predicted);

class RunTimeBook {
 public:
  /// A live job, or an array for all its elements. `shape`: ShapeOf its command; empty where that is not known.
  void Know(const JobRecord& record, std::string shape);
  void Forget(JobId job);
  /// Nothing known: 0.
  Duration Predict(const JobRecord& record);
  std::optional<core::RunSpread> Spread(const JobRecord& record) const;
  /// A live job, or an element of a live array, has run to its end.
  void Ran(const JobRecord& record, Duration ran);
  /// One that ended before this daemon began.
  void RanBefore(const JobRecord& record);

  const RunTimes& run_times() const { return run_times_; }
  /// How many are known: predictions can have changed since it was another number.
  std::uint64_t runs() const { return runs_; }

 private:
  struct Kind {
    RunKind of;
    std::uint64_t jobs = 0;  // Live ones.
    std::uint64_t predicted_at = 0;
    Duration predicted{0};
  };
  using Kinds = std::map<std::string, Kind>;
  Kind* KindOf(const JobRecord& record) const;

  RunTimes run_times_;
  std::uint64_t runs_ = 1;  // Counts them, so that a prediction knows whether it is still the latest.
  Kinds kinds_;
  std::unordered_map<JobId, Kinds::iterator> kind_of_;
};

}  // namespace divvy
