// Answers chart queries: selects the level for a time range and number of points, and resamples blocks of any level to
// points of one length.
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
/// Returns the level to show: 1 for the ring's seconds, or a step of kLevels. This is the coarsest level that is not
/// coarser than requested and reaches back to `since`. If there is none, the finest level that reaches back.
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

/// How long a silent part of a job is assumed to be unchanged (at least one point). Nodes report separately and up to
/// ten seconds late, and parts of a job do not end in the same second; otherwise a sum would dip.
inline constexpr Second kPartsCarried = 15;

/// Merges the curves of a job's parts on several nodes, by FactsOf(metric).join. Points that no part reported stay
/// empty. Requires: the same number of points in each, of `step` seconds.
std::vector<Curve> JoinCurves(const std::vector<std::vector<Curve>>& parts, Second step);

}  // namespace divvy::samples
