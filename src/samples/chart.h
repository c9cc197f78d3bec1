// The answer to "how was that between then and then, in so many points": which level has it, and blocks of any level
// put into points of one length.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "samples/block.h"
#include "samples/history.h"

namespace divvy::samples {

struct Range {
  Second since = 0;
  Second until = 0;  // Not included.
  std::size_t points = 400;
};
inline constexpr std::size_t kMostChartPoints = 4000;

/// Seconds of one point: what `range` asks for, as a multiple of `step`, the length of what there is. At least one.
Second StepOf(const Range& range, Second step);
/// The level whose points are to be shown: the ring's seconds (1), or a step of kLevels. The thinnest that is no
/// thinner than asked, and reaches back to `since`; where none does, the finest that reaches.
Second ChooseStep(const Range& range, Second now);

/// One metric of one subject.
struct Curve {
  Metric metric = Metric::kGpuUtilization;
  std::string name;  // A job's own.
  std::vector<Point> points;
};

class Chart {
 public:
  /// `step`: as StepOf gives it. Begins at a multiple of it.
  Chart(const Range& range, Second step);

  /// Blocks in order of time. Where two are of the same time, both count.
  void Add(const Block& block) { Add(block, false); }
  /// Only into points of which nothing is known yet, by earlier blocks: what is kept thinned beside what is known by
  /// the second.
  void AddWhereEmpty(const Block& block) { Add(block, true); }
  Second begin() const { return begin_; }
  Second step() const { return step_; }
  std::size_t count() const { return count_; }
  /// By metric, then a job's own by name; only those of which something was added.
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

/// Machines tell each in their time, up to ten seconds late, and parts of a job do not end in the same second: for so
/// long, and for one point at least, a part that tells nothing is taken to be as it was last, or a sum would dip.
inline constexpr Second kPartsCarried = 15;

/// The curves of a job's parts on several machines as one, by FactsOf(metric).join. Where no part has told there is
/// nothing. Requires: equally many points, of `step` seconds.
std::vector<Curve> JoinCurves(const std::vector<std::vector<Curve>>& parts, Second step);

}  // namespace divvy::samples
