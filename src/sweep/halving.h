// Which trials of a sweep continue: ASHA, with or without pauses, and Hyperband. A state machine: losses of trials go
// in and verdicts come out. The same losses in the same order give the same verdicts; ties go to the lowest trial.
//
// A trial trains to its next rung, and its loss there is compared with those of other trials:
//  - kAsha: it continues if it is among the best max(1, n / eta) of the n trials that have reached the rung so far.
//  - kAshaPromotion: algorithm 2 of Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020). It
//    pauses unless it is promoted. Each report promotes at most one trial: the best one that is not promoted yet, among
//    the best n / eta of the highest possible rung.
//  - kHyperband: Li et al., "Hyperband" (JMLR 18, 2018). Trials fill brackets in order; those of a bracket pause at a
//    rung until all have reached it or ended, and the best 1 / eta continue. After the last bracket follows the first.
//
// The state follows from what Restore takes, so that it can be rebuilt from one stored row per trial.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sweep/sweep_rule.h"

namespace divvy::sweep {

enum class Verdict { kContinue, kPause, kStop };

struct Decision {
  std::uint32_t trial = 0;
  Verdict verdict = Verdict::kContinue;

  friend bool operator==(const Decision&, const Decision&) = default;
};

class Halving {
 public:
  enum class Phase { kActive, kPaused, kStopped, kEnded };

  /// Decides which trials of a sweep continue, by successive halving. `rule` must be valid (CheckRule). `trials`: the
  /// maximum number of trials in the sweep.
  Halving(const HalvingRule& rule, std::uint32_t trials);

  /// Returns after how many steps (or other units of training) the trial is compared with others next, that is, the
  /// position of its next rung. Infinity if it has passed the last one.
  double NextRung(std::uint32_t trial) const;
  /// Records that the trial has reached its next rung with this loss; NaN counts as the greatest loss. Returns the
  /// verdict on this trial first, and then those on others that follow. A trial that has ended gets no verdict; its
  /// loss still counts, except with kHyperband. Has no effect if the trial is paused or stopped, or has passed the last
  /// rung. Cost: O(trials).
  std::vector<Decision> Report(std::uint32_t trial, double loss);
  /// Records that the trial has ended by itself, or that someone else stopped it. Returns verdicts on other trials that
  /// follow from it.
  std::vector<Decision> End(std::uint32_t trial);

  /// Restores a trial after a restart. `losses`: its losses at the rungs that it has reached. Call this once for each
  /// trial that has begun, then Settle.
  void Restore(std::uint32_t trial, const std::vector<double>& losses, Phase phase);
  /// Returns the verdicts that follow from the restored trials and were not carried out before the restart.
  std::vector<Decision> Settle();

  std::uint32_t trials() const { return static_cast<std::uint32_t>(states_.size()); }
  const std::vector<double>& losses(std::uint32_t trial) const { return states_[trial].losses; }
  Phase phase(std::uint32_t trial) const { return states_[trial].phase; }
  /// Returns how many rungs the trial can reach in total. For kAsha without a maximum: those reached so far, and one
  /// more.
  int RungsOf(std::uint32_t trial) const;
  /// Returns how many trials have reached this rung. Only for kAsha and kAshaPromotion.
  std::size_t ReachedRung(std::size_t rung) const { return rung < rungs_.size() ? rungs_[rung].size() : 0; }

  /// Returns how many trials Hyperband starts in all of its brackets together, before it begins with the first bracket
  /// again.
  static std::uint32_t TrialsOfHyperband(const HalvingRule& rule);

 private:
  struct State {
    std::vector<double> losses;
    Phase phase = Phase::kActive;
  };
  using Entry = std::pair<double, std::uint32_t>;  // Loss and trial.
  struct Bracket {
    int first_power = 0;                 // Its first rung is at max / eta^first_power.
    std::uint32_t planned = 0;           // Trials of a full bracket.
    std::vector<std::uint32_t> members;  // Trials of the current rung.
    int rung = 0;
  };

  double ResourceOf(int rung) const;
  void Insert(std::uint32_t trial, std::size_t rung);
  void SettleBracket(Bracket& bracket, std::vector<Decision>& decisions);
  Bracket& BracketOf(std::uint32_t trial) { return brackets_[bracket_of_[trial]]; }

  HalvingRule rule_;
  int top_ = 0;  // The number of the last rung; for kHyperband: of its longest bracket.
  std::vector<State> states_;
  std::vector<std::vector<Entry>> rungs_;  // Sorted. For kAsha and kAshaPromotion.
  std::vector<Bracket> brackets_;          // For kHyperband.
  std::vector<std::uint32_t> bracket_of_;  // By trial.
};

}  // namespace divvy::sweep
