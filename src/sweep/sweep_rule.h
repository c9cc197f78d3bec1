// The goal of a sweep and when it stops trials: the part of a sweep's file that the controller needs. A submission
// carries it as a label, and the store keeps it as a setting, both in the same text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::sweep {

enum class Goal { kMinimize, kMaximize };

/// How trials that lose are recognised.
enum class EarlyStop {
  kNone,
  kAsha,           // At each rung a trial continues if it is among the best 1/eta so far, or else is stopped.
  kAshaPromotion,  // At each rung a trial pauses until it is promoted (Li et al., MLSys 2020, algorithm 2).
  kHyperband,      // Brackets of synchronous successive halving (Li et al., JMLR 2018).
};
std::string_view Name(EarlyStop stop);  // "none", "asha", "asha_promotion", "hyperband"
std::optional<EarlyStop> EarlyStopFromName(std::string_view name);

/// Rungs are at min, min * eta, min * eta^2, ... of the resource, up to max.
struct HalvingRule {
  EarlyStop stop = EarlyStop::kNone;
  double min = 1;
  double max = 0;  // The whole training. 0: unknown, which only kAsha allows.
  int eta = 3;

  friend bool operator==(const HalvingRule&, const HalvingRule&) = default;
};

struct SweepRule {
  std::string metric;  // A number that trials report. Empty: the sweep compares nothing.
  Goal goal = Goal::kMinimize;
  std::optional<double> target;    // The sweep ends when a trial reaches it.
  std::string resource = "epoch";  // The number that measures the training of a trial, reported with the metric.
  HalvingRule halving;
  bool parks_losers = false;  // Paused trials stay in host memory if possible. Not for kNone and kAsha.
  int parallel = 0;           // How many trials may run at once. 0: as many as fit.
  bool is_told = false;       // Parameters come from outside, trial by trial (divvy sweep tell).
  std::uint64_t seed = 0;     // For display. The parameters were drawn before the submission.
  std::string method = "";    // For display: "random".

  friend bool operator==(const SweepRule&, const SweepRule&) = default;
};

/// The label of a specification that makes its array a sweep.
inline constexpr std::string_view kRuleLabel = "divvy.sweep";

/// Checks that the rule is valid. The error is one sentence that names the value, what is allowed, and the fix.
Status CheckRule(const SweepRule& rule);
/// Returns the rule as one line: "key value;key value;". ParseRule reads such a line, and fails if the rule is not
/// valid (CheckRule).
std::string FormatRule(const SweepRule& rule);
Result<SweepRule> ParseRule(std::string_view text);

/// Returns the shortest decimal text that reads back as the same number: "0.1", "1e-05".
std::string NumberText(double value);

}  // namespace divvy::sweep
