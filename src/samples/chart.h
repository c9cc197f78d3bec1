// Answers chart queries: selects the stored resolution (level) for a time range and a number of points, and resamples
// blocks of any resolution to points of one length.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "samples/block.h"
#include "samples/history.h"

namespace divvy::samples {

struct Range {
  Second since = 0;
  Second until = 0;  // Exclusive.
  std::size_t points = 400;
};
inline constexpr std::size_t kMostChartPoints = 4000;

/// Returns the seconds per point for `range`, rounded up to a multiple of `step`, the length of the available points.
/// At least 1.
Second StepOf(const Range& range, Second step);
/// Returns the stored resolution to show, in seconds per point: 1 (the last ten minutes are kept in memory, second by
/// second), or a step of kLevels. This is the coarsest one that is not coarser than requested and is kept back to
/// `range.since`. If there is none, it is the finest one that is kept for so long.
Second ChooseStep(const Range& range, Second now);

/// One metric of one subject.
struct Curve {
  Metric metric = Metric::kGpuUtilization;
  std::string name;  // Set for a metric reported by the job itself.
  std::vector<Point> points;
};

class Chart {
 public:
  /// `step` comes from StepOf. The chart starts at a multiple of it.
  Chart(const Range& range, Second step);

  /// Adds a block; call this in order of time. Overlapping blocks are combined.
  void Add(const Block& block) { Add(block, false); }
  /// Fills only points that no earlier block has set: adds coarser data where finer data is missing.
  void AddWhereEmpty(const Block& block) { Add(block, true); }
  Second begin() const { return begin_; }
  Second step() const { return step_; }
  std::size_t count() const { return count_; }
  /// Returns non-empty curves, sorted by metric; the job's own metrics follow, sorted by name.
  std::vector<Curve> TakeCurves();

 private:
  struct Filling {
    Curve curve;
    std::vector<float> weights;
  };
  void Add(const Block& block, bool leaves_known);
  Filling& FillingOf(const Column& column);

  Second since_;
  Second until_;
  Second step_;
  Second begin_;
  std::size_t count_;
  std::vector<Filling> fillings_;
};

/// If a node does not report for a job on several nodes, its last value is used for this many seconds (at least one
/// point). Nodes report separately and up to ten seconds late, and a job does not end on all nodes in the same second.
/// Without this rule the sum over the nodes would dip.
inline constexpr Second kPartsCarried = 15;

/// Merges the curves of a job on several nodes into one for each metric: by sum, mean or maximum, as
/// FactsOf(metric).join says. Points that no node reported stay empty. Requires: the same number of points in each, of
/// `step` seconds.
std::vector<Curve> JoinCurves(const std::vector<std::vector<Curve>>& parts, Second step);

}  // namespace divvy::samples
