// Short runs of fault injection, and protocols without one rule, each of which must be detected.
#include "simulate/chaos/chaos.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace divvy::simulate {
namespace chaos_test {

bool IsLong() { return std::getenv("DIVVY_LONG") != nullptr; }

std::string Describe(const ChaosFailure& failure) {
  return "seed " + std::to_string(failure.seed) + ", step " + std::to_string(failure.step) + ": " + failure.broken +
         "\n" + failure.events + "divvy simulate --chaos " + std::to_string(failure.seed) + " --worlds 1";
}

TEST(Chaos, InvariantsHoldUnderEveryFault) {
  ChaosOptions options;
  options.steps = IsLong() ? 10'000'000 : 300'000;
  options.check_every = IsLong() ? 1 : 4;
  const ChaosResult result = RunChaos(options);
  EXPECT_FALSE(result.failure) << Describe(*result.failure);
  const ChaosFigures& figures = result.figures;
  EXPECT_GE(figures.steps, options.steps);
  // A run with few events proves little.
  EXPECT_GT(figures.launches, options.steps / 100) << ToText(figures);
  for (const std::uint64_t faults :
       {figures.crashes, figures.crashes_midway, figures.crashes_in_commit, figures.reboots, figures.supervisor_kills,
        figures.guard_kills, figures.process_kills, figures.launcher_kills, figures.lost_messages,
        figures.doubled_messages, figures.late_messages, figures.full_disks, figures.clock_jumps, figures.gpu_faults,
        figures.foreign_processes})
    EXPECT_GT(faults, 50) << ToText(figures);
}

// A new seed every day, because the fixed ones above only repeat the same worlds.
TEST(Chaos, InvariantsHoldWithTodaysSeed) {
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  ChaosOptions options;
  options.seed = static_cast<std::uint64_t>(today.time_since_epoch().count()) * 1'000'000;
  options.steps = IsLong() ? 10'000'000 : 300'000;
  options.check_every = IsLong() ? 1 : 4;
  std::printf("today's seed: divvy simulate --chaos %llu --steps %llu\n", static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(options.steps));
  const ChaosResult result = RunChaos(options);
  EXPECT_FALSE(result.failure) << Describe(*result.failure);
}

TEST(Chaos, TheSameSeedGivesTheSameHistory) {
  ChaosOptions options;
  options.seed = 7;
  options.worlds = 1;
  options.check_every = 16;
  options.events_kept = 5'000;
  options.traces = true;
  const ChaosResult once = RunChaos(options), again = RunChaos(options);
  EXPECT_GT(once.events.size(), 10'000);
  EXPECT_EQ(once.events, again.events);
  EXPECT_EQ(ToText(once.figures), ToText(again.figures));
}

TEST(Chaos, AWorldRunsAloneAsItRunsAmongOthers) {
  ChaosOptions options;
  options.seed = 20;
  options.worlds = 3;
  options.check_every = 16;
  options.traces = true;
  const ChaosResult among = RunChaos(options);
  options.seed = 22;
  options.worlds = 1;
  EXPECT_EQ(RunChaos(options).events, among.events);
}

TEST(Chaos, CheckingDoesNotChangeTheHistory) {
  ChaosOptions options;
  options.worlds = 1;
  options.traces = true;
  const ChaosResult often = RunChaos(options);
  options.check_every = 1'000;
  const ChaosResult rarely = RunChaos(options);
  EXPECT_EQ(often.events, rarely.events);
  EXPECT_GT(often.figures.checks, 100 * rarely.figures.checks / 2);
}

/// A protocol without one rule. ChaosMutation explains what each one breaks.
struct Omitted {
  const char* name;
  ChaosMutation mutation;
};
void PrintTo(const Omitted& omitted, std::ostream* out) { *out << omitted.name; }
std::string NameOf(const testing::TestParamInfo<Omitted>& omitted) { return omitted.param.name; }

class OmittedRule : public testing::TestWithParam<Omitted> {
 protected:
  /// Ends as soon as a check fails.
  static bool IsCaughtWithin(std::uint64_t steps) {
    ChaosOptions options;
    options.mutation = GetParam().mutation;
    options.steps = steps;
    options.check_every = 16;
    return RunChaos(options).failure.has_value();
  }
};

TEST_P(OmittedRule, IsCaught) { EXPECT_TRUE(IsCaughtWithin(3'000'000)); }

INSTANTIATE_TEST_SUITE_P(
    Soon, OmittedRule,
    testing::Values(
        Omitted{"AnswersBeforeCommit", ChaosMutation::kAnswersBeforeCommit},
        Omitted{"LaunchesBeforeCommit", ChaosMutation::kLaunchesBeforeCommit},
        Omitted{"ForgetsExits", ChaosMutation::kForgetsExits}, Omitted{"TearsCommits", ChaosMutation::kTearsCommits},
        Omitted{"FreesGpusEarly", ChaosMutation::kFreesGpusEarly},
        Omitted{"ForgetsBeforeCommit", ChaosMutation::kForgetsBeforeCommit},
        Omitted{"SkipsRows", ChaosMutation::kSkipsRows}, Omitted{"SkipsSettings", ChaosMutation::kSkipsSettings},
        Omitted{"CommitsFirstOnly", ChaosMutation::kCommitsFirstOnly},
        Omitted{"HidesFullDisk", ChaosMutation::kHidesFullDisk},
        Omitted{"AcceptsRefused", ChaosMutation::kAcceptsRefused}, Omitted{"LosesTimers", ChaosMutation::kLosesTimers},
        Omitted{"DropsStops", ChaosMutation::kDropsStops}, Omitted{"RepeatsCommands", ChaosMutation::kRepeatsCommands},
        Omitted{"AdoptsTwice", ChaosMutation::kAdoptsTwice}, Omitted{"DropsExits", ChaosMutation::kDropsExits},
        Omitted{"IgnoresLeftovers", ChaosMutation::kIgnoresLeftovers},
        Omitted{"StartsUnrecorded", ChaosMutation::kStartsUnrecorded},
        Omitted{"MistakesAttempts", ChaosMutation::kMistakesAttempts},
        Omitted{"OverlooksRecords", ChaosMutation::kOverlooksRecords},
        Omitted{"IgnoresClaims", ChaosMutation::kIgnoresClaims},
        Omitted{"IgnoresReboots", ChaosMutation::kIgnoresReboots},
        Omitted{"TrustsTheDead", ChaosMutation::kTrustsTheDead},
        Omitted{"SparesAdopted", ChaosMutation::kSparesAdopted}, Omitted{"KeepsRecords", ChaosMutation::kKeepsRecords},
        Omitted{"HidesFoundRuns", ChaosMutation::kHidesFoundRuns}, Omitted{"ParksEarly", ChaosMutation::kParksEarly},
        Omitted{"DropsReturns", ChaosMutation::kDropsReturns}, Omitted{"KeepsStopped", ChaosMutation::kKeepsStopped},
        Omitted{"LoosensContract", ChaosMutation::kLoosensContract}),
    NameOf);

class RareOmittedRule : public OmittedRule {};

TEST_P(RareOmittedRule, IsCaught) {
  if (!IsLong()) GTEST_SKIP() << "DIVVY_LONG=1 asks for it";
  EXPECT_TRUE(IsCaughtWithin(10'000'000));
}

INSTANTIATE_TEST_SUITE_P(Later, RareOmittedRule,
                         testing::Values(Omitted{"RepeatsOnSuspicion", ChaosMutation::kRepeatsOnSuspicion},
                                         Omitted{"RemovesAnyRecord", ChaosMutation::kRemovesAnyRecord},
                                         Omitted{"ForgetsToConfirm", ChaosMutation::kForgetsToConfirm},
                                         Omitted{"ForgetsToResume", ChaosMutation::kForgetsToResume},
                                         Omitted{"ForgetsLimits", ChaosMutation::kForgetsLimits},
                                         Omitted{"ForgetsVoidNominations", ChaosMutation::kForgetsVoidNominations}),
                         NameOf);

}  // namespace chaos_test
}  // namespace divvy::simulate
