// Predicts how long jobs run from earlier runs of similar jobs. Used by the `shortest` policy and by start estimates of
// jobs without a time limit. A prediction can change an estimate, never a reservation.
//
// Similar jobs have the same user, name, command shape and GPU count. If there are too few such runs, fewer of these
// properties are compared. Each group keeps its latest runs, and the newest count most. Source of the idea: QSSF (Hu et
// al., SC 2021), which predicts from the user's own earlier jobs with the most similar name.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace divvy {

/// The properties of a job that are known before it runs.
struct RunProfile {
  std::string user;
  std::string name;
  std::string shape;  // The result of ShapeOf for its command.
  int gpus = 0;
};

/// Returns a command without the parts that change between runs, to find similar jobs: numbers become '#', values after
/// '=' are removed, long words are cut.
///
/// "python train.py --lr=0.1 --seed 7 /data/run12" -> "python train.py --lr= --seed # /data/run#".
std::string ShapeOf(const std::vector<std::string>& command);

struct RunTimeEstimate {
  Duration typical{0};  // The median run time.
  Duration low{0};      // One in ten runs was shorter.
  Duration high{0};     // One in ten runs was longer.
  std::size_t runs = 0;
  std::string_view basis;  // "same command", "same name", "same size", "this user".
};

class RunTimes {
 public:
  /// Runs kept per kind; older ones are dropped.
  static constexpr std::size_t kRunsKept = 32;
  /// Kinds kept; beyond this, the least recently seen are dropped.
  static constexpr std::size_t kGroupsKept = 20'000;
  /// With fewer runs the next wider kind is used, unless none has more.
  static constexpr std::size_t kEnough = 3;

  /// Records that a job of this kind has run for the time `ran`. Runs that the user or the time limit ended count too.
  void Add(const RunProfile& kind, Duration ran);
  std::optional<RunTimeEstimate> Predict(const RunProfile& kind) const;

  /// Accuracy of the predictions, each made just before its run was recorded.
  struct Accuracy {
    std::uint64_t predicted = 0;
    std::uint64_t unpredicted = 0;  // There was no earlier run of a similar job.
    double median_ratio = 0;        // Actual to typical run time, over the latest 1,000 runs.
    double within_factor_two = 0;   // Fraction of those runs, 0 to 1.
    double inside_interval = 0;     // Fraction with low <= actual <= high.
  };
  Accuracy accuracy() const;
  std::size_t group_count() const { return groups_.size(); }

 private:
  struct Runs {
    std::deque<Duration> latest;  // Newest last.
    std::uint64_t touched = 0;
  };
  struct Outcome {
    double ratio;
    bool is_inside;
  };
  static std::array<std::string, 4> KeysOf(const RunProfile& kind);
  void Forget();

  std::map<std::string, Runs> groups_;
  std::map<std::uint64_t, std::string> by_touch_;
  std::uint64_t touches_ = 0;
  std::deque<Outcome> outcomes_;
  std::uint64_t predicted_ = 0;
  std::uint64_t unpredicted_ = 0;
};

}  // namespace divvy
