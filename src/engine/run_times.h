// How long jobs run, from how long their like ran before: what `shortest` orders by and what an estimate of a start
// uses where there is no time limit. A prediction moves an estimate, never a promise.
//
// Jobs are alike by user, name, shape of the command and GPUs; where there are too few of these, by less and less of
// it. Of each kind the latest runs count, the newest most. Source of the idea: QSSF (Hu et al., SC 2021), which
// predicts from the user's own earlier jobs with the most similar name.
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

/// What is known of a job before it runs.
struct RunKind {
  std::string user;
  std::string name;
  std::string shape;  // ShapeOf its command.
  int gpus = 0;
};

/// A command without what changes from run to run: numbers become '#', values behind '=' go, long words are cut.
/// "python train.py --lr=0.1 --seed 7 /data/run12" -> "python train.py --lr= --seed # /data/run#".
std::string ShapeOf(const std::vector<std::string>& command);

struct RunTimeEstimate {
  Duration typical{0};  // As many ran shorter as longer.
  Duration low{0};      // One in ten ran shorter,
  Duration high{0};     // one in ten longer.
  std::size_t runs = 0;
  std::string_view basis;  // "same command", "same name", "same size", "this user".
};

class RunTimes {
 public:
  /// Of one kind; older ones are forgotten.
  static constexpr std::size_t kRunsKept = 32;
  /// Kinds kept; beyond it those that were not seen for longest go.
  static constexpr std::size_t kKindsKept = 20'000;
  /// Fewer runs say little: the next wider kind is asked, unless none has more.
  static constexpr std::size_t kEnough = 3;

  /// A job of `kind` has run to its end. Ends by the user's hand or by the time limit are runs too, as far as they
  /// came.
  void Add(const RunKind& kind, Duration ran);
  std::optional<RunTimeEstimate> Predict(const RunKind& kind) const;

  /// How good predictions made just before each run began to count have been.
  struct Accuracy {
    std::uint64_t predicted = 0;
    std::uint64_t unpredicted = 0;  // No run of the like before.
    double median_ratio = 0;        // Actual to typical, of the latest 1,000.
    double within_factor_two = 0;   // Share of them, 0..1.
    double inside_interval = 0;     // low <= actual <= high.
  };
  Accuracy accuracy() const;
  std::size_t kinds() const { return kinds_.size(); }

 private:
  struct Runs {
    std::deque<Duration> latest;  // Newest last.
    std::uint64_t touched = 0;
  };
  struct Outcome {
    double ratio;
    bool is_inside;
  };
  static std::array<std::string, 4> KeysOf(const RunKind& kind);
  void Forget();

  std::map<std::string, Runs> kinds_;
  std::map<std::uint64_t, std::string> by_touch_;
  std::uint64_t touches_ = 0;
  std::deque<Outcome> outcomes_;
  std::uint64_t predicted_ = 0;
  std::uint64_t unpredicted_ = 0;
};

}  // namespace divvy
