#include "sweep/halving.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace divvy::sweep {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();
/// Without a maximum, more rungs than any training reaches.
constexpr int kMostRungs = 64;

/// The greatest k with min * eta^k <= max. The tolerance makes 0.1 * 3^2 reach 0.9.
int TopRung(const HalvingRule& rule) {
  if (rule.max == 0) return kMostRungs;
  int top = 0;
  for (double at = rule.min * rule.eta; at <= rule.max * (1 + 1e-9) && top < kMostRungs; at *= rule.eta) ++top;
  return top;
}

std::uint64_t Power(int base, int exponent) {
  std::uint64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= static_cast<std::uint64_t>(base);
  return power;
}

/// n = ceil((top + 1) / (power + 1) * eta^power): how many trials the bracket has whose first rung is at
/// max / eta^power.
std::uint64_t TrialsOfBracket(int top, int power, int eta) {
  const std::uint64_t rungs = static_cast<std::uint64_t>(top) + 1;
  const std::uint64_t here = static_cast<std::uint64_t>(power) + 1;
  return (rungs * Power(eta, power) + here - 1) / here;
}

}  // namespace

std::uint32_t Halving::TrialsOfHyperband(const HalvingRule& rule) {
  const int top = TopRung(rule);
  std::uint64_t all = 0;
  for (int power = top; power >= 0; --power) {
    all += TrialsOfBracket(top, power, rule.eta);
    if (all > std::numeric_limits<std::uint32_t>::max()) return std::numeric_limits<std::uint32_t>::max();
  }
  return static_cast<std::uint32_t>(all);
}

Halving::Halving(const HalvingRule& rule, std::uint32_t trials)
    : rule_(rule), top_(rule.stop == EarlyStop::kNone ? -1 : TopRung(rule)), states_(trials) {
  if (rule_.stop != EarlyStop::kHyperband) return;
  bracket_of_.resize(trials);
  int power = top_;
  for (std::uint32_t trial = 0; trial < trials;) {
    const std::uint64_t planned = TrialsOfBracket(top_, power, rule_.eta);
    Bracket& bracket = brackets_.emplace_back();
    bracket.first_power = power;
    bracket.planned = static_cast<std::uint32_t>(std::min<std::uint64_t>(planned, trials - trial));
    for (std::uint32_t i = 0; i < bracket.planned; ++i, ++trial) {
      bracket.members.push_back(trial);
      bracket_of_[trial] = static_cast<std::uint32_t>(brackets_.size() - 1);
    }
    power = power == 0 ? top_ : power - 1;
  }
}

double Halving::ResourceOf(int rung) const { return rule_.min * std::pow(static_cast<double>(rule_.eta), rung); }

int Halving::RungsOf(std::uint32_t trial) const {
  if (rule_.stop == EarlyStop::kHyperband) return brackets_[bracket_of_[trial]].first_power + 1;
  if (rule_.stop == EarlyStop::kAsha && rule_.max == 0) return static_cast<int>(states_[trial].losses.size()) + 1;
  return top_ + 1;
}

double Halving::NextRung(std::uint32_t trial) const {
  const int reached = static_cast<int>(states_[trial].losses.size());
  if (rule_.stop == EarlyStop::kHyperband) {
    const int power = brackets_[bracket_of_[trial]].first_power - reached;
    return power < 0 ? kEndless : rule_.max / std::pow(static_cast<double>(rule_.eta), power);
  }
  return reached > top_ ? kEndless : ResourceOf(reached);
}

void Halving::Insert(std::uint32_t trial, std::size_t rung) {
  if (rung >= rungs_.size()) rungs_.resize(rung + 1);
  const Entry entry{states_[trial].losses[rung], trial};
  rungs_[rung].insert(std::ranges::upper_bound(rungs_[rung], entry), entry);
}

std::vector<Decision> Halving::Report(std::uint32_t trial, double loss) {
  State& state = states_[trial];
  const bool has_ended = state.phase == Phase::kEnded;
  if ((state.phase != Phase::kActive && !has_ended) || NextRung(trial) == kEndless) return {};
  // The bracket of a trial that has ended may have been decided without it, so its loss no longer counts.
  if (has_ended && rule_.stop == EarlyStop::kHyperband) return {};
  state.losses.push_back(std::isnan(loss) ? kEndless : loss);
  const std::size_t rung = state.losses.size() - 1;
  if (rule_.stop == EarlyStop::kHyperband) {
    Bracket& bracket = BracketOf(trial);
    std::vector<Decision> decisions{{trial, Verdict::kContinue}};
    if (static_cast<int>(rung) == bracket.first_power) return decisions;  // The last rung is the whole training.
    state.phase = Phase::kPaused;
    SettleBracket(bracket, decisions);
    // The verdict on this trial is the first entry: its own, if the rung is complete now.
    const auto own = std::find_if(decisions.begin() + 1, decisions.end(),
                                  [&](const Decision& decision) { return decision.trial == trial; });
    if (own == decisions.end()) {
      decisions.front().verdict = Verdict::kPause;
    } else {
      decisions.front().verdict = own->verdict;
      decisions.erase(own);
    }
    return decisions;
  }
  Insert(trial, rung);
  const auto eta = static_cast<std::size_t>(rule_.eta);
  if (has_ended && rule_.stop == EarlyStop::kAsha) return {};
  if (static_cast<int>(rung) == top_) return has_ended ? std::vector<Decision>() : std::vector{Decision{trial}};
  if (rule_.stop == EarlyStop::kAsha) {
    const Entry entry{state.losses[rung], trial};
    const auto rank = static_cast<std::size_t>(std::ranges::lower_bound(rungs_[rung], entry) - rungs_[rung].begin());
    const bool wins = rank < std::max<std::size_t>(rungs_[rung].size() / eta, 1);
    if (!wins) state.phase = Phase::kStopped;
    return {{trial, wins ? Verdict::kContinue : Verdict::kStop}};
  }
  std::vector<Decision> decisions;
  if (!has_ended) {
    state.phase = Phase::kPaused;
    decisions.push_back({trial, Verdict::kPause});
  }
  for (std::size_t k = std::min(rungs_.size(), static_cast<std::size_t>(top_)); k-- > 0;) {
    const std::size_t best = rungs_[k].size() / eta;
    for (std::size_t i = 0; i < best; ++i) {
      State& candidate = states_[rungs_[k][i].second];
      if (candidate.phase != Phase::kPaused || candidate.losses.size() != k + 1) continue;
      candidate.phase = Phase::kActive;
      const std::uint32_t promoted = rungs_[k][i].second;
      if (promoted == trial) decisions.front().verdict = Verdict::kContinue;
      else decisions.push_back({promoted, Verdict::kContinue});
      return decisions;
    }
  }
  return decisions;
}

// The bracket stays at its current rung until each of its members has reached the rung or ended. A member that has not
// started keeps it there, too.
void Halving::SettleBracket(Bracket& bracket, std::vector<Decision>& decisions) {
  while (bracket.rung < bracket.first_power) {
    const auto rung = static_cast<std::size_t>(bracket.rung);
    std::vector<Entry> reached;
    for (const std::uint32_t trial : bracket.members) {
      const State& state = states_[trial];
      const bool is_over = state.phase == Phase::kEnded || state.phase == Phase::kStopped;
      if (state.losses.size() <= rung && !is_over) return;
      if (state.losses.size() > rung) reached.emplace_back(state.losses[rung], trial);
    }
    std::ranges::sort(reached);
    const std::uint64_t planned = bracket.planned / Power(rule_.eta, bracket.rung);
    const std::uint64_t best = std::max<std::uint64_t>(planned / static_cast<std::uint64_t>(rule_.eta), 1);
    bracket.members.clear();
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const std::uint32_t trial = reached[i].second;
      State& state = states_[trial];
      const bool wins = i < best;
      if (wins) bracket.members.push_back(trial);
      if (state.phase != Phase::kPaused || state.losses.size() != rung + 1) continue;
      state.phase = wins ? Phase::kActive : Phase::kStopped;
      decisions.push_back({trial, wins ? Verdict::kContinue : Verdict::kStop});
    }
    std::ranges::sort(bracket.members);
    ++bracket.rung;
  }
}

std::vector<Decision> Halving::End(std::uint32_t trial) {
  std::vector<Decision> decisions;
  State& state = states_[trial];
  if (state.phase == Phase::kStopped || rule_.stop == EarlyStop::kNone) return decisions;
  state.phase = Phase::kEnded;
  if (rule_.stop == EarlyStop::kHyperband) SettleBracket(BracketOf(trial), decisions);
  return decisions;
}

void Halving::Restore(std::uint32_t trial, const std::vector<double>& losses, Phase phase) {
  State& state = states_[trial];
  state.losses = losses;
  if (const auto most = static_cast<std::size_t>(std::max(RungsOf(trial), 0)); state.losses.size() > most)
    state.losses.resize(most);
  state.phase = phase;
  if (rule_.stop != EarlyStop::kAsha && rule_.stop != EarlyStop::kAshaPromotion) return;
  for (std::size_t rung = 0; rung < state.losses.size(); ++rung) Insert(trial, rung);
}

std::vector<Decision> Halving::Settle() {
  std::vector<Decision> decisions;
  for (Bracket& bracket : brackets_) SettleBracket(bracket, decisions);
  return decisions;
}

}  // namespace divvy::sweep
