// The verdicts are compared with independent, literal implementations of the published algorithms, on synthetic
// learning curves and in random orders of reports.
#include "sweep/halving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "sweep/draws.h"

namespace divvy::sweep {
namespace halving_test {

/// The loss of a trial after training with a resource: a power law towards its own final loss. `steps` quantises the
/// losses, so that ties are frequent.
class Curves {
 public:
  Curves(std::uint64_t seed, double steps) : seed_(seed), steps_(steps) {}
  double Loss(std::uint32_t trial, double resource) const {
    Draws draws(seed_ * 1'000'003 + trial);
    draws.Next();
    const double last = draws.Unit(), scale = 0.5 + draws.Unit(), power = 0.3 + draws.Unit();
    const double loss = last + scale * std::pow(resource, -power);
    if (steps_ > 0 && draws.Unit() < 0.05) return std::numeric_limits<double>::quiet_NaN();
    return steps_ > 0 ? std::floor(loss * steps_) / steps_ : loss;
  }

 private:
  std::uint64_t seed_;
  double steps_;
};

double Comparable(double loss) { return std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss; }

// --- ASHA -----------------------------------------------------------------------------------------------------------

/// Algorithm 2 of Li et al. (MLSys 2020), line by line. Where the paper leaves the order open, the trial with the
/// lowest number is first.
class PublishedAsha {
 public:
  PublishedAsha(int eta, int top) : eta_(eta), top_(top) {}
  struct Job {
    std::uint32_t trial = 0;
    int rung = 0;
    friend bool operator==(const Job&, const Job&) = default;
  };

  void Record(const Job& job, double loss) { losses_[job.rung][job.trial] = Comparable(loss); }
  /// Without another trial, nothing is left for the worker.
  std::optional<Job> GetJob(std::uint32_t trials) {
    for (int k = top_ - 1; k >= 0; --k) {
      std::vector<std::uint32_t> promotable;
      for (const std::uint32_t trial : TopK(k, losses_[k].size() / static_cast<std::size_t>(eta_)))
        if (!promoted_[k].contains(trial)) promotable.push_back(trial);
      if (promotable.empty()) continue;
      promoted_[k].insert(promotable.front());
      return Job{promotable.front(), k + 1};
    }
    if (next_ == trials) return std::nullopt;
    return Job{next_++, 0};
  }

 private:
  std::vector<std::uint32_t> TopK(int rung, std::size_t k) {
    std::vector<std::uint32_t> trials;
    for (const auto& [trial, loss] : losses_[rung]) trials.push_back(trial);
    std::ranges::stable_sort(trials, {}, [&](std::uint32_t trial) { return losses_[rung][trial]; });
    trials.resize(std::min(k, trials.size()));
    return trials;
  }

  int eta_;
  int top_;
  std::uint32_t next_ = 0;
  std::map<int, std::map<std::uint32_t, double>> losses_;
  std::map<int, std::set<std::uint32_t>> promoted_;
};

/// Runs both on `workers` workers that finish in a random order. Returns the trained resource.
void CompareWithPublishedAsha(std::uint64_t seed, int eta, std::size_t workers, std::uint32_t trials, double steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const HalvingRule rule{EarlyStop::kAshaPromotion, 1, std::pow(eta, 4), eta};
  const Curves curves(seed, steps);
  Draws draws(seed);
  PublishedAsha published(eta, 4);
  Halving halving(rule, trials);
  std::vector<PublishedAsha::Job> running;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < workers; ++i) {
    running.push_back(*published.GetJob(trials));
    ASSERT_EQ(running.back(), (PublishedAsha::Job{next++, 0}));
  }
  while (!running.empty()) {
    const std::size_t i = draws.Next() % running.size();
    const PublishedAsha::Job done = running[i];
    const double resource = halving.NextRung(done.trial);
    ASSERT_DOUBLE_EQ(resource, std::pow(eta, done.rung));
    const double loss = curves.Loss(done.trial, resource);
    published.Record(done, loss);
    const auto expected = published.GetJob(trials);
    const auto decisions = halving.Report(done.trial, loss);
    ASSERT_FALSE(decisions.empty());
    ASSERT_EQ(decisions.front().trial, done.trial);
    std::optional<PublishedAsha::Job> actual;
    for (const Decision& decision : decisions) {
      if (decision.verdict != Verdict::kContinue || (decision.trial == done.trial && done.rung == 4)) continue;
      ASSERT_FALSE(actual) << "one report promotes one trial";
      actual = PublishedAsha::Job{decision.trial, static_cast<int>(halving.losses(decision.trial).size())};
    }
    // A worker for which nothing is promoted starts the next trial.
    if (!actual && next < trials) actual = PublishedAsha::Job{next++, 0};
    ASSERT_EQ(actual, expected);
    if (expected) running[i] = *expected;
    else running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

TEST(Asha, PromotesAsThePublishedAlgorithm) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    CompareWithPublishedAsha(seed, seed % 2 == 0 ? 3 : 2, 1 + seed % 9, 90, 0);
}

TEST(Asha, PromotesAsThePublishedAlgorithmWithTiesAndNaN) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) CompareWithPublishedAsha(seed, 3, 1 + seed % 9, 90, 5);
}

TEST(Asha, StopsWhatIsNotAmongTheBestSoFar) {
  for (std::uint64_t seed = 1; seed <= 9; ++seed) {
    SCOPED_TRACE(seed);
    const int eta = 2 + static_cast<int>(seed % 3);
    Halving halving({EarlyStop::kAsha, 1, 0, eta}, 200);
    const Curves curves(seed, seed % 2 == 0 ? 4 : 0);
    Draws draws(seed);
    std::vector<std::pair<std::uint32_t, int>> running;
    for (std::uint32_t trial = 0; trial < 200; ++trial) running.emplace_back(trial, 0);
    std::map<int, std::vector<std::pair<double, std::uint32_t>>> seen;
    while (!running.empty()) {
      const std::size_t i = draws.Next() % running.size();
      auto& [trial, rung] = running[i];
      const double loss = curves.Loss(trial, halving.NextRung(trial));
      auto& rungs = seen[rung];
      rungs.emplace_back(Comparable(loss), trial);
      const auto better = std::ranges::count_if(rungs, [&](const auto& other) { return other < rungs.back(); });
      const bool continues = better < std::max<std::ptrdiff_t>(std::ssize(rungs) / eta, 1);
      const auto decisions = halving.Report(trial, loss);
      ASSERT_EQ(decisions, (std::vector<Decision>{{trial, continues ? Verdict::kContinue : Verdict::kStop}}));
      if (continues && rung < 6) ++rung;
      else running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

TEST(Asha, RungsEndAtTheMaximum) {
  Halving halving({EarlyStop::kAsha, 1, 256, 2}, 1);
  for (int rung = 0; rung < 9; ++rung) {
    EXPECT_DOUBLE_EQ(halving.NextRung(0), std::pow(2, rung));
    EXPECT_EQ(halving.Report(0, 1.0).front().verdict, Verdict::kContinue);
  }
  EXPECT_TRUE(std::isinf(halving.NextRung(0)));
  EXPECT_TRUE(halving.Report(0, 1.0).empty());
  EXPECT_EQ(halving.RungsOf(0), 9);
}

TEST(Asha, RungsOfFractionsAreExact) {
  const Halving halving({EarlyStop::kAshaPromotion, 0.1, 0.9, 3}, 1);
  EXPECT_EQ(halving.RungsOf(0), 3);
}

TEST(Asha, TiesGoToTheLowestTrial) {
  Halving halving({EarlyStop::kAsha, 1, 0, 2}, 2);
  EXPECT_EQ(halving.Report(1, 0.5).front().verdict, Verdict::kContinue);
  EXPECT_EQ(halving.Report(0, 0.5).front().verdict, Verdict::kContinue) << "trial 0 is before trial 1";
  Halving other({EarlyStop::kAsha, 1, 0, 2}, 2);
  EXPECT_EQ(other.Report(0, 0.5).front().verdict, Verdict::kContinue);
  EXPECT_EQ(other.Report(1, 0.5).front().verdict, Verdict::kStop);
}

TEST(Asha, NaNIsTheGreatestLoss) {
  Halving halving({EarlyStop::kAsha, 1, 0, 2}, 3);
  EXPECT_EQ(halving.Report(0, 1e30).front().verdict, Verdict::kContinue);
  EXPECT_EQ(halving.Report(1, std::nan("")).front().verdict, Verdict::kStop);
  EXPECT_TRUE(halving.Report(1, 0.1).empty()) << "a stopped trial stays stopped";
}

/// GPU time of asynchronous successive halving beside random search that runs until it has the same best result:
/// 1,000 trials, nine rungs, eight workers. This is the figure of docs/sweeps.md.
TEST(Asha, NeedsAThirdOfTheTimeOfRandomSearch) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    constexpr std::uint32_t kTrials = 1000;
    constexpr double kMax = 256;
    const Curves curves(seed, 0);
    Halving halving({EarlyStop::kAsha, 1, kMax, 2}, kTrials);
    struct Worker {
      double free_at = 0;
      std::uint32_t trial = 0;
      double trained = 0;
    };
    std::vector<Worker> workers(8);
    std::uint32_t next = 0;
    for (Worker& worker : workers) worker = {1, next++, 0};
    double used = 0, best = std::numeric_limits<double>::infinity();
    while (!workers.empty()) {
      const auto worker = std::ranges::min_element(workers, {}, &Worker::free_at);
      const double at = halving.NextRung(worker->trial);
      used += at - worker->trained;
      worker->trained = at;
      const double loss = curves.Loss(worker->trial, at);
      const bool continues = halving.Report(worker->trial, loss).front().verdict == Verdict::kContinue;
      if (at == kMax) best = std::min(best, loss);
      if (continues && at < kMax) {
        worker->free_at += halving.NextRung(worker->trial) - at;
      } else if (next < kTrials) {
        *worker = {worker->free_at + 1, next++, 0};
      } else {
        workers.erase(worker);
      }
    }
    std::uint32_t tried = 0;
    while (tried < kTrials && curves.Loss(tried, kMax) > best) ++tried;
    const double random = (tried + 1) * kMax;
    EXPECT_LE(used / random, 0.35) << "seed " << seed << ": " << used << " of " << random;
  }
}

// --- Hyperband ------------------------------------------------------------------------------------------------------

/// Algorithm 1 of Li et al. (JMLR 18, 2018), line by line, one pass over all brackets. Returns the resources with which
/// each trial was trained.
std::map<std::uint32_t, std::vector<double>> PublishedHyperband(double most, int eta, const Curves& curves) {
  std::map<std::uint32_t, std::vector<double>> trained;
  const int s_max = static_cast<int>(std::floor(std::log(most) / std::log(eta) + 1e-9));
  const double budget = (s_max + 1) * most;
  std::uint32_t next = 0;
  for (int s = s_max; s >= 0; --s) {
    const int n = static_cast<int>(std::ceil(budget / most * std::pow(eta, s) / (s + 1) - 1e-9));
    const double r = most * std::pow(eta, -s);
    std::vector<std::uint32_t> configurations;
    for (int i = 0; i < n; ++i) configurations.push_back(next++);
    for (int i = 0; i <= s; ++i) {
      const int n_i = static_cast<int>(std::floor(n * std::pow(eta, -i) + 1e-9));
      const double r_i = r * std::pow(eta, i);
      for (const std::uint32_t trial : configurations) trained[trial].push_back(r_i);
      std::ranges::stable_sort(configurations, {},
                               [&](std::uint32_t trial) { return Comparable(curves.Loss(trial, r_i)); });
      configurations.resize(std::min<std::size_t>(static_cast<std::size_t>(n_i / eta), configurations.size()));
      std::ranges::sort(configurations);
    }
  }
  return trained;
}

TEST(Hyperband, TrainsTheTrialsOfThePublishedAlgorithm) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    const int eta = seed % 2 == 0 ? 3 : 4;
    const double most = seed % 2 == 0 ? 81 : 64;
    const HalvingRule rule{EarlyStop::kHyperband, 1, most, eta};
    const Curves curves(seed, seed % 3 == 0 ? 4 : 0);
    const auto expected = PublishedHyperband(most, eta, curves);
    const std::uint32_t trials = Halving::TrialsOfHyperband(rule);
    ASSERT_EQ(trials, expected.size());
    Halving halving(rule, trials);
    std::map<std::uint32_t, std::vector<double>> trained;
    Draws draws(seed);
    std::vector<std::uint32_t> active;
    for (std::uint32_t trial = 0; trial < trials; ++trial) active.push_back(trial);
    std::size_t stopped = 0;
    while (!active.empty()) {
      const std::size_t i = draws.Next() % active.size();
      const std::uint32_t trial = active[i];
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(i));
      trained[trial].push_back(halving.NextRung(trial));
      for (const Decision& decision : halving.Report(trial, curves.Loss(trial, halving.NextRung(trial)))) {
        if (decision.verdict == Verdict::kStop) ++stopped;
        const bool goes_on = decision.verdict == Verdict::kContinue && !std::isinf(halving.NextRung(decision.trial));
        if (goes_on) active.push_back(decision.trial);
      }
    }
    EXPECT_EQ(trained, expected);
    const auto whole = std::ranges::count_if(trained, [&](const auto& one) { return one.second.back() == most; });
    EXPECT_EQ(stopped, trials - static_cast<std::size_t>(whole)) << "every loser is stopped";
    EXPECT_TRUE(halving.Settle().empty());
  }
}

TEST(Hyperband, HasTheBracketsOfThePaper) {
  // R = 81, eta = 3: 81 + 34 + 15 + 8 + 5 trials.
  EXPECT_EQ(Halving::TrialsOfHyperband({EarlyStop::kHyperband, 1, 81, 3}), 143U);
}

TEST(Hyperband, TrialsThatEndDoNotKeepARungOpen) {
  Halving halving({EarlyStop::kHyperband, 1, 3, 3}, 3);
  EXPECT_EQ(halving.Report(0, 0.3), (std::vector<Decision>{{0, Verdict::kPause}}));
  EXPECT_EQ(halving.Report(1, 0.2), (std::vector<Decision>{{1, Verdict::kPause}}));
  EXPECT_EQ(halving.End(2), (std::vector<Decision>{{1, Verdict::kContinue}, {0, Verdict::kStop}}));
}

TEST(Hyperband, ALateReportOfATrialThatHasEndedDoesNotCount) {
  const HalvingRule rule{EarlyStop::kHyperband, 1, 9, 3};
  Halving halving(rule, Halving::TrialsOfHyperband(rule));
  halving.End(0);
  EXPECT_TRUE(halving.Report(0, 0.1).empty());
  EXPECT_TRUE(halving.losses(0).empty());
}

TEST(Hyperband, AnUnfinishedBracketStillHasAWinner) {
  Halving halving({EarlyStop::kHyperband, 1, 9, 3}, 2);
  EXPECT_EQ(halving.Report(0, 0.3), (std::vector<Decision>{{0, Verdict::kPause}}));
  EXPECT_EQ(halving.Report(1, 0.2), (std::vector<Decision>{{1, Verdict::kContinue}, {0, Verdict::kStop}}));
}

// --- Restarts -------------------------------------------------------------------------------------------------------

/// Reports in a random order, where one of the two machines is rebuilt from its rows before every report.
TEST(Halving, DecidesTheSameAfterEveryRestart) {
  for (const EarlyStop stop : {EarlyStop::kAsha, EarlyStop::kAshaPromotion, EarlyStop::kHyperband}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(std::string(Name(stop)) + " seed " + std::to_string(seed));
      constexpr std::uint32_t kTrials = 40;
      const HalvingRule rule{stop, 1, 27, 3};
      const Curves curves(seed, 6);
      Halving whole(rule, kTrials);
      Halving restarted(rule, kTrials);
      Draws draws(seed);
      std::set<std::uint32_t> active;
      for (std::uint32_t trial = 0; trial < kTrials; ++trial) active.insert(trial);
      while (!active.empty()) {
        const std::uint32_t trial =
            *std::next(active.begin(), static_cast<std::ptrdiff_t>(draws.Next() % active.size()));
        Halving next(rule, kTrials);
        for (std::uint32_t one = 0; one < kTrials; ++one)
          next.Restore(one, restarted.losses(one), restarted.phase(one));
        restarted = next;
        ASSERT_TRUE(restarted.Settle().empty());
        std::vector<Decision> decisions;
        if (draws.Unit() < 0.1) {
          decisions = whole.End(trial);
          ASSERT_EQ(restarted.End(trial), decisions);
          active.erase(trial);
        } else {
          const double loss = curves.Loss(trial, whole.NextRung(trial));
          decisions = whole.Report(trial, loss);
          ASSERT_EQ(restarted.Report(trial, loss), decisions);
        }
        for (const Decision& decision : decisions) {
          const bool goes_on = decision.verdict == Verdict::kContinue && !std::isinf(whole.NextRung(decision.trial));
          if (goes_on) active.insert(decision.trial);
          else active.erase(decision.trial);
        }
      }
    }
  }
}

}  // namespace halving_test
}  // namespace divvy::sweep
