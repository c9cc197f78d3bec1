// Run times of this installation: the profile of each live job, and the runs of ended jobs (engine/run_times.h).
//
// Predictions are cached by profile until the next run ends, so 100,000 submissions of a sweep cost one prediction.
// They are rounded to two digits: jobs that differ by less are equal to the engine, which groups equal jobs into one
// class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "engine/core/estimate/run_spread.h"
#include "engine/run_times.h"
#include "model/job_record.h"

namespace divvy {

/// Rounds the seconds to two significant digits (3,661 s: 3,700 s); at least one second.
Duration Rounded(Duration predicted);

class RuntimePredictor {
 public:
  /// Registers a live job, or an array for all its elements, so that its run time can be predicted. `shape`: its
  /// command without the parts that change between runs (ShapeOf); empty if unknown.
  void Know(const JobRecord& record, std::string shape);
  void Forget(JobId job);
  /// Predicts the job's run time from those of similar jobs. Returns 0 if none has run.
  Duration Predict(const JobRecord& record);
  std::optional<core::RunSpread> Spread(const JobRecord& record) const;
  /// Learns from a run: a live job, or an element of a live array, has ended after running for the time `ran`.
  void Ran(const JobRecord& record, Duration ran);
  /// Records a job that ended before this daemon started.
  void RanBefore(const JobRecord& record);

  const RunTimes& run_times() const { return run_times_; }
  /// The number of recorded runs. While it is unchanged, so are the predictions.
  std::uint64_t runs() const { return runs_; }

 private:
  struct Group {
    RunProfile of;
    std::uint64_t jobs = 0;  // The number of live jobs.
    std::uint64_t predicted_at = 0;
    Duration predicted{0};
  };
  using Groups = std::map<std::string, Group>;
  Group* GroupOf(const JobRecord& record) const;

  RunTimes run_times_;
  std::uint64_t runs_ = 1;  // Run counter, so that a cached prediction knows whether it is current.
  Groups groups_;
  std::unordered_map<JobId, Groups::iterator> group_of_;
};

}  // namespace divvy
