// Sweeps and their trials, and their rows in the store: settings "sweep.17" and "sweep.17.3".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "sweep/halving.h"
#include "sweep/sweep_rule.h"

namespace divvy {

inline constexpr std::string_view kSweepPrefix = "sweep.";

/// An element of a sweep's array that has begun.
struct SweepTrial {
  sweep::Halving::Phase phase = sweep::Halving::Phase::kActive;
  std::vector<double> rungs;   // The metric at each rung that it has reached; NaN if it reported none there.
  std::optional<double> last;  // The metric as reported last; may be NaN.
  double last_at = 0;          // The resource then; also without a metric.
  std::optional<double> best;  // Never NaN.
  double best_at = 0;
  std::string end;                 // How it ended: "succeeded". Empty: it has not.
  std::string note;                // Why it was stopped or paused, or what is wrong with its reports.
  std::vector<std::string> names;  // Other numbers that it reported, while it has not reported the metric. Not stored.

  friend bool operator==(const SweepTrial&, const SweepTrial&) = default;
};

struct Sweep {
  Sweep(JobId which, sweep::SweepRule how, std::string whose, std::string called, std::uint32_t most)
      : id(which), rule(std::move(how)), user(std::move(whose)), name(std::move(called)), halving(rule.halving, most) {}

  JobId id;  // Its array.
  sweep::SweepRule rule;
  std::string user;
  std::string name;
  sweep::Halving halving;
  std::map<std::uint32_t, SweepTrial> trials;  // By ordinal.
  std::set<std::uint32_t> parked;              // Paused or promoted; their runs are parked. Not stored: see Restore.
  std::string note;                            // Why it ended, or a problem of all its trials.
  bool is_dirty = true;                        // Sweeps::Follow has something to do.

  /// Returns true if `a` is a better value of the sweep's metric than `b`.
  bool IsBetter(double a, double b) const { return rule.goal == sweep::Goal::kMaximize ? a > b : a < b; }
  double LossOf(double value) const { return rule.goal == sweep::Goal::kMaximize ? -value : value; }
  /// Returns the trial with the best value; of several, the one with the lowest number. nullopt if none has reported a
  /// value.
  std::optional<std::uint32_t> BestTrial() const;
};

/// Returns the row of the store that describes a sweep, as key and text.
std::pair<std::string, std::string> SweepRow(const Sweep& sweep);
std::pair<std::string, std::string> TrialRow(JobId sweep, std::uint32_t ordinal, const SweepTrial& trial);
std::optional<Sweep> SweepOfRow(JobId id, std::string_view text);
std::optional<SweepTrial> TrialOfRow(std::string_view text);

/// The sweep of a key, and the ordinal of the trial if it is a trial's row.
struct SweepKey {
  JobId sweep;
  std::optional<std::uint32_t> trial;
};
std::optional<SweepKey> SweepKeyOf(std::string_view key);

}  // namespace divvy
