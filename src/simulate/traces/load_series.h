// The load of a cluster over time, of any length, in a bounded number of points. Points are time-weighted means over
// bins of equal width. The width doubles whenever the bins run out.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace divvy::simulate {

/// The load, which is constant between two changes.
struct LoadLevel {
  double allocated_gpus = 0;
  double waiting_jobs = 0;
  double waiting_gpus = 0;
  double running_jobs = 0;
  double fragmented_gpus = 0;  // Idle GPUs that cannot serve typical requests. 0 if the decider does not report them.
};

class LoadSeries {
 public:
  /// Records the load over time with at most `most_bins` points (an even number, at least 2). A point covers one second
  /// at first, and longer times as the series grows.
  explicit LoadSeries(std::size_t most_bins = 256) : most_bins_(most_bins) {}

  /// Sets the load from `now` on. Requires: `now` is not earlier than in the previous call.
  void Set(Time now, const LoadLevel& level);
  /// Ends the series at `end`, which is not before the last call of Set.
  void Finish(Time end) { Set(end, {}); }

  struct Point {
    Time begin{};
    Duration width{0};  // The end may cut the last one.
    LoadLevel mean;
  };
  std::vector<Point> Points() const;

  Time begin() const { return begin_; }
  Time end() const { return last_; }
  /// Returns the sum of the load over all seconds from begin() to end(), for example in GPU-seconds.
  const LoadLevel& integral() const { return integral_; }
  /// Returns the GPU-seconds that were allocated while at least one job waited; seconds_waiting() returns how long that
  /// was.
  double allocated_while_waiting() const { return allocated_while_waiting_; }
  double seconds_waiting() const { return seconds_waiting_; }

 private:
  void Add(Time from, Time to);

  std::size_t most_bins_;
  Duration width_ = std::chrono::seconds(1);
  std::vector<LoadLevel> bins_;  // Integrals of the level, from begin_ on.
  bool has_begun_ = false;
  Time begin_{};
  Time last_{};
  LoadLevel level_;
  LoadLevel integral_;
  double allocated_while_waiting_ = 0;
  double seconds_waiting_ = 0;
};

}  // namespace divvy::simulate
