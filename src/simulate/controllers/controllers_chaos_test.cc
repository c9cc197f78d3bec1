// Short runs of fault injection into several controllers, and protocols without one rule, each of which must be
// detected.
#include "simulate/controllers/controllers_chaos.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace divvy::simulate {
namespace controllers_chaos_test {

bool IsLong() { return std::getenv("DIVVY_LONG") != nullptr; }

std::string Describe(const ChaosFailure& failure) {
  return "seed " + std::to_string(failure.seed) + ", step " + std::to_string(failure.step) + ": " + failure.broken +
         "\n" + failure.events + "divvy simulate --chaos " + std::to_string(failure.seed) + " --controllers --worlds 1";
}

TEST(ControllersChaos, GuaranteesHoldUnderEveryFault) {
  ControllersChaosOptions options;
  options.steps = IsLong() ? 10'000'000 : 1'000'000;
  const ControllersChaosResult result = RunControllersChaos(options);
  EXPECT_FALSE(result.failure) << Describe(*result.failure);
  const ControllersChaosFigures& figures = result.figures;
  // A run with few events proves little.
  EXPECT_GT(figures.nodes.launches, options.steps / 1000) << ToText(figures);
  for (const std::uint64_t count :
       {figures.leaders, figures.kills, figures.stops, figures.frozen_clocks, figures.clock_jumps,
        figures.database_cuts, figures.failovers, figures.agent_cuts, figures.agent_restarts, figures.unknown_outcomes,
        figures.unknown_but_done, figures.late_requests, figures.fenced_commits, figures.deposed_but_acting})
    EXPECT_GT(count, 20) << ToText(figures);
  EXPECT_GT(figures.refused_welcomes, 0) << ToText(figures);
}

// A new seed every day, because the fixed ones above only repeat the same worlds.
TEST(ControllersChaos, GuaranteesHoldWithTodaysSeed) {
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  ControllersChaosOptions options;
  options.seed = static_cast<std::uint64_t>(today.time_since_epoch().count()) * 1'000'000;
  options.steps = IsLong() ? 10'000'000 : 500'000;
  std::printf("today's seed: divvy simulate --chaos %llu --controllers --steps %llu\n",
              static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.steps));
  const ControllersChaosResult result = RunControllersChaos(options);
  EXPECT_FALSE(result.failure) << Describe(*result.failure);
}

TEST(ControllersChaos, TheSameSeedGivesTheSameHistory) {
  ControllersChaosOptions options;
  options.seed = 7;
  options.worlds = 1;
  options.events_kept = 5'000;
  options.traces = true;
  const ControllersChaosResult once = RunControllersChaos(options), again = RunControllersChaos(options);
  EXPECT_GT(once.events.size(), 10'000);
  EXPECT_EQ(once.events, again.events);
  EXPECT_EQ(ToText(once.figures), ToText(again.figures));
}

/// ControllersMutation explains what each one breaks.
struct WithoutRule {
  const char* name;
  ControllersMutation mutation;
  std::uint64_t seed = 1;  // A later one where the first worlds do not need the rule.
};
void PrintTo(const WithoutRule& rule, std::ostream* out) { *out << rule.name; }
std::string NameOf(const testing::TestParamInfo<WithoutRule>& rule) { return rule.param.name; }

class ControllersWithoutRule : public testing::TestWithParam<WithoutRule> {};

TEST_P(ControllersWithoutRule, IsCaught) {
  ControllersChaosOptions options;
  options.mutation = GetParam().mutation;
  options.seed = GetParam().seed;
  options.steps = 10'000'000;  // Ends as soon as a check fails.
  const ControllersChaosResult result = RunControllersChaos(options);
  ASSERT_TRUE(result.failure) << ToText(result.figures);
  std::printf("after %llu steps: %s\n", static_cast<unsigned long long>(result.figures.steps),
              result.failure->broken.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Soon, ControllersWithoutRule,
    testing::Values(WithoutRule{"SkipsEpochCheck", ControllersMutation::kSkipsEpochCheck},
                    WithoutRule{"JudgesLeaseByWallClock", ControllersMutation::kJudgesLeaseByWallClock},
                    WithoutRule{"CountsLeaseFromAnswer", ControllersMutation::kCountsLeaseFromAnswer},
                    WithoutRule{"TakesEarly", ControllersMutation::kTakesEarly},
                    WithoutRule{"AssumesLostCommitFailed", ControllersMutation::kAssumesLostCommitFailed},
                    WithoutRule{"AssumesLostCommitDone", ControllersMutation::kAssumesLostCommitDone},
                    WithoutRule{"AcceptsOldEpoch", ControllersMutation::kAcceptsOldEpoch},
                    WithoutRule{"ForgetsEpoch", ControllersMutation::kForgetsEpoch},
                    WithoutRule{"ReusesEpoch", ControllersMutation::kReusesEpoch},
                    WithoutRule{"TrustsFollowedState", ControllersMutation::kTrustsFollowedState, 370},
                    WithoutRule{"LeavesOldSession", ControllersMutation::kLeavesOldSession},
                    WithoutRule{"DropsReports", ControllersMutation::kDropsReports}),
    NameOf);

}  // namespace controllers_chaos_test
}  // namespace divvy::simulate
