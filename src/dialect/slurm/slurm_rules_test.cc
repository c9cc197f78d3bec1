// Rules of Slurm's options that its own test suite checks.
#include <gtest/gtest.h>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_request.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace slurm_rules_test {

using namespace std::chrono_literals;

/// The spec of these words of sbatch's command line, or the error.
Result<JobSpec> Asked(const std::vector<std::string>& words, std::vector<std::string> environment = {}) {
  static ParseContext around;
  around = TestParseContext();
  around.environment = std::move(environment);
  JobSpec spec;
  DIVVY_CHECK(ApplySbatchEnvironment(around, spec));
  DIVVY_CHECK(ParseOptions(SbatchOptions(spec, around), words));
  DIVVY_CHECK(FinishSlurm(spec));
  return spec;
}

std::string Refusal(const std::vector<std::string>& words, std::vector<std::string> environment = {}) {
  const auto spec = Asked(words, std::move(environment));
  return spec ? "" : spec.error().message;
}

TEST(SlurmRules, DistributionFillsInTheDefaults) {
  const auto text = [](std::string_view value) {
    const auto how = slurm::ParseDistribution(value);
    return how ? how->text : how.error().message;
  };
  EXPECT_EQ(text("cyclic"), "cyclic");
  EXPECT_EQ(text("*"), "block");
  EXPECT_EQ(text("*:*"), "block:cyclic");
  EXPECT_EQ(text("*:*:*"), "block:cyclic:cyclic");
  EXPECT_EQ(text("*:block:*"), "block:block:block") << "cores follow the sockets";
  EXPECT_EQ(text("cyclic:fcyclic:block"), "cyclic:fcyclic:block");
  EXPECT_EQ(text("pack"), "pack");
  EXPECT_EQ(text("*,nopack"), "block,nopack");
  EXPECT_EQ(slurm::ParseDistribution("plane=4")->plane_size, 4);
  for (const char* wrong : {"blocker", "block:cyclicer", "block:cyclic:cyclicer", "**", "*:**", ",", ",pack", "plane=0",
                            "block:arbitrary", "a:b:c:d", "pack,pack", ""}) {
    EXPECT_FALSE(slurm::ParseDistribution(wrong)) << wrong;
  }
}

TEST(SlurmRules, GpuBindIsCheckedAtSubmission) {
  for (const char* right : {"closest", "none", "single:2", "per_task:1", "map_gpu:0,1*2", "mask_gpu:0x3,c",
                            "verbose,closest", "v,map_gpu:0"}) {
    EXPECT_EQ(Refusal({std::string("--gpu-bind=") + right}), "") << right;
  }
  for (const char* wrong : {"map_gpu:NaN", "verbose,mask_gpu:NaN", "map_gpu:", "map_gpu:0,,1", "single:x", "nearest"}) {
    EXPECT_NE(Refusal({std::string("--gpu-bind=") + wrong}).find("Invalid --gpu-bind argument"), std::string::npos)
        << wrong;
  }
}

TEST(SlurmRules, ANumberOfNodesAloneIsOneTaskOnEach) {
  const auto spec = Asked({"-N2", "--gpus-per-task=3"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->request.tasks, 2);
  EXPECT_EQ(spec->request.gpus, 3);
  EXPECT_NE(Refusal({"--gpus-per-task=3"}).find("needs the number of tasks"), std::string::npos);
}

TEST(SlurmRules, ReservedCoresAndThreadsExcludeEachOther) {
  EXPECT_NE(Refusal({"--thread-spec=1", "-S1"}).find("cannot be together with --thread-spec"), std::string::npos);
  EXPECT_NE(Refusal({}, {"SBATCH_CORE_SPEC=1", "SBATCH_THREAD_SPEC=1"}), "");
  const auto spec = Asked({"-S2"}, {"SBATCH_THREAD_SPEC=1"});
  ASSERT_TRUE(spec) << "the command line replaces the environment";
  EXPECT_EQ(slurm::Value(*spec, "core-spec"), "2");
  EXPECT_EQ(slurm::Value(*spec, "thread-spec"), std::nullopt);
}

TEST(SlurmRules, TimeMinMustFitBeforeTheDeadline) {
  EXPECT_NE(Refusal({"--deadline=now+1hour", "--time-min=120"}).find("Invalid time-min"), std::string::npos);
  EXPECT_NE(Refusal({"--time-min=120", "--deadline=now+1hour"}).find("Invalid time-min"), std::string::npos);
  EXPECT_NE(Refusal({"--begin=now+50minutes", "--deadline=now+1hour", "--time-min=11"}), "");
  EXPECT_EQ(Refusal({"--deadline=now+1hour", "--time-min=30"}), "");
}

TEST(SlurmRules, TimeMinLetsTheDeadlineShortenTheTimeLimit) {
  const auto limit = [](const std::vector<std::string>& words) {
    auto spec = Asked(words);
    EXPECT_TRUE(spec);
    if (!spec) return Duration(0);
    FitTimeLimit(*spec, kTestNow);
    return spec->time_limit;
  };
  EXPECT_EQ(limit({"--deadline=now+1hour", "-t120", "--time-min=20"}), 0min) << "it becomes the time left at the start";
  EXPECT_EQ(limit({"--begin=now+5", "--deadline=now+600", "-t100", "--time-min=9"}), 0min);
  EXPECT_EQ(limit({"--deadline=now+1hour", "--time-min=20"}), 0min) << "without a limit as well";
  EXPECT_EQ(limit({"--deadline=now+1hour", "-t30", "--time-min=20"}), 30min);
  EXPECT_EQ(limit({"--deadline=now+1hour", "-t120"}), 120min) << "refused at the submission";
}

TEST(SlurmRules, ExportedNamesMayHaveDots) {
  const auto spec = Asked({"--export=TEST_ENV_1.28=123"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->extra_environment, std::vector<std::string>{"TEST_ENV_1.28=123"});
  EXPECT_NE(Refusal({"--export=1A=2"}), "");
  EXPECT_NE(Refusal({"--export=A B=2"}), "");
  EXPECT_NE(Refusal({"--export=A.B"}), "") << "a name alone is that of a shell's variable";
}

TEST(SlurmRules, ATimeOfDayMayComeBeforeTheDay) {
  const auto at = [](std::string_view text) { return ParseMoment(text, kTestNow, Duration(0)); };
  ASSERT_TRUE(at("noon-tomorrow"));
  EXPECT_EQ(*at("noon-tomorrow"), *at("tomorrow") + 12h);
  EXPECT_EQ(*at("16:30-tomorrow"), *at("tomorrow") + 16h + 30min);
  EXPECT_EQ(*at("23:59-today"), *at("tomorrow") - 1min);
  EXPECT_FALSE(at("late-tomorrow"));
}

TEST(SlurmRules, SrunTakesTheNumberOfTasksFromTheEnvironment) {
  ParseContext around = TestParseContext();
  around.environment = {"SLURM_NPROCS=5", "SLURM_OVERCOMMIT=1"};
  JobSpec spec;
  ASSERT_TRUE(ApplyCommandEnvironment("SLURM_", around, spec));
  EXPECT_EQ(slurm::Value(spec, "ntasks"), "5");
  EXPECT_TRUE(slurm::Value(spec, "overcommit"));
}

}  // namespace slurm_rules_test
}  // namespace divvy::dialect
