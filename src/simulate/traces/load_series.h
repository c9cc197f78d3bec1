// How full a cluster was over time, of any length, in a bounded number of points: time-weighted means over bins of
// equal width, which doubles whenever the bins run out.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace divvy::simulate {

/// Holds from one change to the next.
struct LoadLevel {
  double allocated_gpus = 0;
  double waiting_jobs = 0;
  double waiting_gpus = 0;
  double running_jobs = 0;
  double fragmented_gpus = 0;  // Idle and of no use to what is usually asked for; 0 where nobody tells.
};

class LoadSeries {
 public:
  /// At most `most_bins` points are kept (even, at least 2), of a second each to begin with.
  explicit LoadSeries(std::size_t most_bins = 256) : most_bins_(most_bins) {}

  /// The level is `level` from `now` on. Requires: `now` is never before that of the call before.
  void Set(Time now, const LoadLevel& level);
  /// No level after this. Requires: as Set.
  void Finish(Time end) { Set(end, {}); }

  struct Point {
    Time begin{};
    Duration width{0};  // The last one may be cut by the end.
    LoadLevel mean;
  };
  std::vector<Point> Points() const;

  Time begin() const { return begin_; }
  Time end() const { return last_; }
  /// Level times seconds, summed from begin() to end().
  const LoadLevel& integral() const { return integral_; }
  /// The same of allocated GPUs alone while at least one job waited, and for how long one did.
  double allocated_while_waiting() const { return allocated_while_waiting_; }
  double seconds_waiting() const { return seconds_waiting_; }

 private:
  void Add(Time from, Time to);

  std::size_t most_bins_;
  Duration width_ = std::chrono::seconds(1);
  std::vector<LoadLevel> bins_;  // Level times seconds, from begin_ on.
  bool has_begun_ = false;
  Time begin_{};
  Time last_{};
  LoadLevel level_;
  LoadLevel integral_;
  double allocated_while_waiting_ = 0;
  double seconds_waiting_ = 0;
};

}  // namespace divvy::simulate
