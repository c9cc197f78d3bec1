#include "research/rates/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "research/rates/price_game.h"

namespace divvy::rates {
namespace max_min_test {

class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed * 2 + 1) {}
  int Below(int bound) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

/// A textbook simplex with Bland's rule, with two phases in one through a large penalty: maximise c x, A x <= b, x >=
/// 0, where b may be negative. Returns nullopt if there is no solution. Deliberately slow and simple; it shares no code
/// with the code under test.
std::optional<double> Maximise(std::vector<std::vector<double>> rows, std::vector<double> limits,
                               const std::vector<double>& objective) {
  constexpr double kPenalty = 1e6;
  const std::size_t m = rows.size(), n = objective.size();
  std::vector<std::vector<double>> table;
  std::vector<std::size_t> basis(m);
  std::vector<double> cost = objective;
  cost.resize(n + 2 * m, 0);  // Slack variables, then artificial variables.
  for (std::size_t r = 0; r < m; ++r) {
    std::vector<double> row(n + 2 * m + 1, 0);
    const double sign = limits[r] < 0 ? -1 : 1;
    for (std::size_t c = 0; c < n; ++c) row[c] = sign * rows[r][c];
    row[n + r] = sign;
    if (sign < 0) {
      row[n + m + r] = 1;
      cost[n + m + r] = -kPenalty;
    }
    row.back() = sign * limits[r];
    basis[r] = sign < 0 ? n + m + r : n + r;
    table.push_back(row);
  }
  for (int pivot = 0; pivot < 5000; ++pivot) {
    std::size_t enter = cost.size();
    for (std::size_t c = 0; c < cost.size() && enter == cost.size(); ++c) {
      double reduced = cost[c];
      for (std::size_t r = 0; r < m; ++r) reduced -= cost[basis[r]] * table[r][c];
      if (reduced > 1e-7) enter = c;
    }
    if (enter == cost.size()) break;
    std::size_t leave = m;
    for (std::size_t r = 0; r < m; ++r) {
      if (table[r][enter] <= 1e-10) continue;
      const double ratio = table[r].back() / table[r][enter];
      if (leave == m || ratio < table[leave].back() / table[leave][enter] - 1e-12) leave = r;
    }
    if (leave == m) return std::nullopt;
    const double by = table[leave][enter];
    for (double& cell : table[leave]) cell /= by;
    for (std::size_t r = 0; r < m; ++r) {
      const double factor = table[r][enter];
      if (r == leave || factor == 0) continue;
      for (std::size_t c = 0; c < table[r].size(); ++c) table[r][c] -= factor * table[leave][c];
    }
    basis[leave] = enter;
  }
  double value = 0;
  for (std::size_t r = 0; r < m; ++r) {
    if (basis[r] >= n + m && table[r].back() > 1e-6) return std::nullopt;
    if (basis[r] < n) value += objective[basis[r]] * table[r].back();
  }
  return value;
}

/// Lexicographic max-min by definition: finds the highest common level of the open jobs, fixes those that cannot go
/// above it, and repeats.
class Oracle {
 public:
  Oracle(const std::vector<RatedJob>& jobs, const std::vector<double>& gpus) : jobs_(jobs), gpus_(gpus) {
    double all = 0;
    for (const double count : gpus) all += count;
    for (const RatedJob& job : jobs) {
      double equal = 0;
      for (std::size_t t = 0; t < gpus.size(); ++t) equal += job.rates[t] * gpus[t] / all;
      std::vector<double> gain;
      for (std::size_t t = 0; t < gpus.size(); ++t)
        gain.push_back(gpus[t] < job.gpus ? 0 : job.rates[t] * job.gpus / (job.weight * equal));
      gain_.push_back(gain);
    }
    level_.assign(jobs.size(), -1);
  }

  std::vector<double> Levels() {
    while (std::ranges::count(level_, -1) > 0) {
      const double z = Best(jobs_.size(), 0);
      std::vector<std::size_t> stuck;
      for (std::size_t j = 0; j < jobs_.size(); ++j)
        if (level_[j] < 0 && Best(j, z - 1e-6) < z + 1e-4) stuck.push_back(j);
      EXPECT_FALSE(stuck.empty());
      if (stuck.empty()) break;
      for (const std::size_t j : stuck) level_[j] = z;
    }
    return level_;
  }

 private:
  /// Returns the highest level of job `raised` while the other open jobs have at least `floor`. For jobs_.size(): the
  /// highest common level of all open jobs.
  double Best(std::size_t raised, double floor) const {
    const std::size_t types = gpus_.size(), z = jobs_.size() * types;
    std::vector<std::vector<double>> rows;
    std::vector<double> limits;
    const auto row = [&](double limit) -> std::vector<double>& {
      limits.push_back(limit);
      return rows.emplace_back(z + 1, 0);
    };
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      auto& time = row(1);
      for (std::size_t t = 0; t < types; ++t) time[j * types + t] = 1;
      const bool is_raised = level_[j] < 0 && (raised == jobs_.size() || raised == j);
      auto& level = row(is_raised ? 0 : -(level_[j] < 0 ? floor : level_[j] - 1e-6));
      for (std::size_t t = 0; t < types; ++t) level[j * types + t] = -gain_[j][t];
      if (is_raised) level[z] = 1;
    }
    for (std::size_t t = 0; t < types; ++t) {
      auto& capacity = row(gpus_[t]);
      for (std::size_t j = 0; j < jobs_.size(); ++j) capacity[j * types + t] = jobs_[j].gpus;
    }
    std::vector<double> objective(z + 1, 0);
    objective[z] = 1;
    return Maximise(rows, limits, objective).value_or(-1);
  }

  const std::vector<RatedJob>& jobs_;
  const std::vector<double>& gpus_;
  std::vector<std::vector<double>> gain_;
  std::vector<double> level_;
};

void ExpectFits(const Shares& shares, const std::vector<RatedJob>& jobs, const std::vector<double>& gpus) {
  std::vector<double> used(gpus.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    double time = 0;
    for (std::size_t t = 0; t < gpus.size(); ++t) {
      EXPECT_GE(shares.time[j][t], 0);
      time += shares.time[j][t];
      used[t] += shares.time[j][t] * jobs[j].gpus;
    }
    EXPECT_LE(time, 1 + 1e-7);
  }
  for (std::size_t t = 0; t < gpus.size(); ++t) EXPECT_LE(used[t], gpus[t] * (1 + 1e-7) + 1e-9);
}

TEST(MaxMin, JobsThatDoNotCareLeaveTheFastGpusToThoseThatDo) {
  // The first job is equally fast on both types; the second is four times faster on the new one.
  const std::vector<RatedJob> jobs = {{{1, 1}}, {{4, 1}}};
  const Shares shares = MaxMinShares(jobs, std::vector<double>{1, 1});
  EXPECT_NEAR(shares.time[0][1], 1, 1e-6);
  EXPECT_NEAR(shares.time[1][0], 1, 1e-6);
  EXPECT_NEAR(shares.level[0], 1, 1e-6);
  EXPECT_NEAR(shares.level[1], 4 / 2.5, 1e-6);
}

TEST(MaxMin, EqualJobsShareEqually) {
  const std::vector<RatedJob> jobs(6, {{3, 1}});
  const std::vector<double> gpus = {2, 1};
  const Shares shares = MaxMinShares(jobs, gpus);
  ExpectFits(shares, jobs, gpus);
  for (const auto& time : shares.time) {
    EXPECT_NEAR(time[0], 2.0 / 6, 1e-6);
    EXPECT_NEAR(time[1], 1.0 / 6, 1e-6);
  }
}

TEST(MaxMin, DoubleWeightGivesDoubleThroughput) {
  const std::vector<RatedJob> jobs = {{{1}, 1, 2}, {{1}, 1, 1}, {{1}, 1, 1}};
  const Shares shares = MaxMinShares(jobs, std::vector<double>{1});
  EXPECT_NEAR(shares.time[0][0], 0.5, 1e-6);
  EXPECT_NEAR(shares.time[1][0], 0.25, 1e-6);
}

TEST(MaxMin, AGangThatFitsNowhereGetsNothingAndTakesNothing) {
  const std::vector<RatedJob> jobs = {{{1, 1}, 4}, {{1, 1}, 1}};
  const Shares shares = MaxMinShares(jobs, std::vector<double>{2, 2});
  EXPECT_EQ(shares.level[0], 0);
  EXPECT_NEAR(shares.time[1][0] + shares.time[1][1], 1, 1e-6);
}

TEST(MaxMin, NoJobsAndNoGpusAreFine) {
  EXPECT_TRUE(MaxMinShares({}, std::vector<double>{1}).time.empty());
  EXPECT_EQ(MaxMinShares(std::vector<RatedJob>{{{1}}}, std::vector<double>{0}).level[0], 0);
}

TEST(MaxMin, MatchesTheDefinitionOnRandomClusters) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    TestRandom random(seed);
    std::vector<double> gpus(static_cast<std::size_t>(1 + random.Below(3)));
    for (double& count : gpus) count = 1 + random.Below(4);
    std::vector<RatedJob> jobs(static_cast<std::size_t>(1 + random.Below(5)));
    for (RatedJob& job : jobs) {
      for (std::size_t t = 0; t < gpus.size(); ++t)
        job.rates.push_back(random.Below(6) == 0 ? 0.0 : 1.0 + random.Below(10));
      // The oracle assumes that every job can run on at least one type.
      job.rates[0] = std::max(job.rates[0], 1.0);
      job.gpus = random.Below(3) == 0 && gpus[0] >= 2 ? 2 : 1;
      job.weight = 1 + random.Below(2);
    }
    const Shares shares = MaxMinShares(jobs, gpus);
    ExpectFits(shares, jobs, gpus);
    const std::vector<double> expected = Oracle(jobs, gpus).Levels();
    for (std::size_t j = 0; j < jobs.size(); ++j) EXPECT_NEAR(shares.level[j], expected[j], 2e-3) << "job " << j;
  }
}

TEST(MaxMin, ReportedLevelsMatchTheAllocatedTime) {
  TestRandom random(7);
  const std::vector<double> gpus = {36, 36, 36};
  std::vector<RatedJob> jobs;
  for (int j = 0; j < 300; ++j) {
    const double base = 1 + j % 26;
    jobs.push_back({{10 * base, base * (2 + j % 7), 1.0 + j % 5}, 1 << random.Below(3), 1});
  }
  const Shares shares = MaxMinShares(jobs, gpus);
  ExpectFits(shares, jobs, gpus);
  double least = 1e9;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    double got = 0, equal = 0;
    for (std::size_t t = 0; t < gpus.size(); ++t) {
      got += shares.time[j][t] * jobs[j].rates[t] * jobs[j].gpus;
      equal += jobs[j].rates[t] / 3;
    }
    EXPECT_NEAR(got / equal, shares.level[j], 1e-6 * shares.level[j]);
    least = std::min(least, shares.level[j]);
  }
  // Every job can have the level of an even split of the GPUs' time, so the worst-off job is not below it.
  EXPECT_GE(least, 108.0 / 300 - 1e-6);
}

TEST(PriceGame, MixesTwoDemandsSoThatNoTypeIsFull) {
  const GameResult game = SolvePriceGame({{1, 0}, {0, 1}, {0.9, 0.9}}, 2);
  EXPECT_NEAR(game.value, 0.5, 1e-9);
  EXPECT_NEAR(game.mix[0], 0.5, 1e-9);
  EXPECT_NEAR(game.mix[1], 0.5, 1e-9);
  EXPECT_NEAR(game.price[0], 0.5, 1e-9);
}

}  // namespace max_min_test
}  // namespace divvy::rates
