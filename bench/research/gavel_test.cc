#include "research/gavel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "research/gavel_jobs.h"

namespace divvy::research {
namespace gavel_test {

/// Throughputs of all models that are drawn, on three types. Every third model gains little from the fast type. Pairs
/// run at `together` of their speed.
std::string Throughputs(double together) {
  std::vector<std::string> models;
  const auto add = [&](const std::string& family, const std::vector<int>& batches) {
    for (const int batch : batches) models.push_back(family + " (batch size " + std::to_string(batch) + ")");
  };
  add("ResNet-18", {16, 32, 64, 128, 256});
  add("ResNet-50", {16, 32, 64, 128});
  add("Transformer", {16, 32, 64, 128, 256});
  add("LM", {5, 10, 20, 40, 80});
  add("Recommendation", {512, 1024, 2048, 4096, 8192});
  models.insert(models.end(), {"A3C", "CycleGAN"});
  std::string text = "{";
  constexpr std::array<const char*, 3> kWorkers = {"v100", "p100", "k80"};
  for (std::size_t worker = 0; worker < 3; ++worker) {
    text += (worker == 0 ? "\"" : ",\"") + std::string(kWorkers[worker]) + "\": {";
    const auto rate = [&](std::size_t m) {
      return 20.0 / (1.0 + static_cast<double>(worker) * (m % 3 == 0 ? 0.1 : 1.5));
    };
    for (std::size_t m = 0; m < models.size(); ++m) {
      text += (m == 0 ? "\"('" : ",\"('") + models[m] + "', 1)\": {\"null\": " + std::to_string(rate(m));
      for (std::size_t other = 0; other < models.size() && together > 0; ++other)
        text += ", \"('" + models[other] + "', 1)\": [" + std::to_string(rate(m) * together) + ", " +
                std::to_string(rate(other) * together) + "]";
      text += "}";
    }
    text += "}";
  }
  return text + "}";
}

GavelThroughputs Table(double together = 0.6) { return *GavelThroughputs::Parse(Throughputs(together), "table"); }

GavelOptions Small(GavelPolicy policy) {
  GavelOptions options;
  options.policy = policy;
  options.v100 = options.p100 = options.k80 = 4;
  options.jobs_per_hour = 0.5;
  options.measured_from = 20;
  options.measured_to = 120;
  return options;
}

double Mean(GavelPolicy policy) { return RunGavel(Small(policy), Table())->mean_jct_h; }

TEST(Gavel, RandomDrawsMatchPythons) {
  PythonRandom random(2);  // random.Random(2)
  EXPECT_DOUBLE_EQ(random.Unit(), 0.9560342718892494);
  EXPECT_DOUBLE_EQ(random.Unit(), 0.9478274870593494);
  EXPECT_DOUBLE_EQ(random.Unit(), 0.05655136772680869);
  std::vector<std::size_t> draws;
  for (int i = 0; i < 5; ++i) draws.push_back(random.Below(26));
  EXPECT_EQ(draws, (std::vector<std::size_t>{2, 11, 5, 23, 25}));
}

TEST(Gavel, JobsArriveAtTheRequestedRateAndRunForHalfAnHourToAWeek) {
  const auto workload = GenerateGavelJobs(Table(), 6, 2000, 0, false);
  ASSERT_TRUE(workload);
  EXPECT_EQ(workload->kinds.size(), 26u);
  EXPECT_NEAR(2000 / (workload->jobs.back().arrival_s / 3600), 6, 0.3);
  for (const GavelJob& job : workload->jobs) {
    EXPECT_GE(job.steps / 20, 60 * 31.6);
    EXPECT_LE(job.steps / 20, 60 * 10000);
  }
}

TEST(Gavel, AJobAloneTakesItsTimeOnItsFastestType) {
  GavelOptions options = Small(GavelPolicy::kProgress);
  options.jobs_per_hour = 0.001;
  options.measured_from = 0;
  options.measured_to = 1;
  const auto workload = GenerateGavelJobs(Table(), options.jobs_per_hour, 1, 0, false);
  const auto result = RunGavel(options, Table());
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->mean_jct_h, workload->jobs[0].steps / 20 / 3600, 1e-9);
}

TEST(Gavel, RejectsGangsThatFitOnNoGpuType) {
  GavelOptions options = Small(GavelPolicy::kMaxMin);
  options.multi_gpu = true;
  const auto result = RunGavel(options, Table());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "jobs of up to 8 GPUs of one type come, but no type has more than 4; give one of them 8");
}

TEST(Gavel, MoreKnowledgeAndMoreFreedomShortenCompletionTimes) {
  const double agnostic = Mean(GavelPolicy::kAgnostic), max_min = Mean(GavelPolicy::kMaxMin);
  const double progress = Mean(GavelPolicy::kProgress), packed = Mean(GavelPolicy::kProgressPacked);
  EXPECT_LT(max_min, 0.9 * agnostic);
  EXPECT_LT(progress, 0.9 * max_min);
  EXPECT_LE(packed, progress);
}

TEST(Gavel, MigrationsCostTimeAndAreRareWithProgressWeights) {
  GavelOptions options = Small(GavelPolicy::kProgress);
  const double before = RunGavel(options, Table())->mean_jct_h;
  options.move_s = 120;
  const auto after = RunGavel(options, Table());
  EXPECT_GT(after->mean_jct_h, before);
  EXPECT_LT(after->mean_jct_h, 1.2 * before);
  EXPECT_LT(after->moves_per_round, 0.1);
}

TEST(Gavel, SameSeedGivesSameResultAndAnotherSeedAnother) {
  GavelOptions options = Small(GavelPolicy::kProgressPacked);
  const auto once = RunGavel(options, Table())->jct_h;
  EXPECT_EQ(once, RunGavel(options, Table())->jct_h);
  options.seed = 1;
  EXPECT_NE(once, RunGavel(options, Table())->jct_h);
}

TEST(Gavel, ReportsAClusterThatCannotKeepUpWithTheLoad) {
  GavelOptions options = Small(GavelPolicy::kMaxMin);
  options.v100 = options.p100 = options.k80 = 1;
  options.jobs_per_hour = 2000;
  options.measured_from = 4999;
  options.measured_to = 5000;
  const auto result = RunGavel(options, Table());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kFailedPrecondition);
}

TEST(Gavel, NamesAJobTypeWithoutThroughputs) {
  const auto table = GavelThroughputs::Parse(R"-({"v100": {"('A3C', 1)": {"null": 1}}})-", "table");
  ASSERT_TRUE(table);
  const auto result = RunGavel(Small(GavelPolicy::kProgress), *table);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("v100 rate of"), std::string::npos);
}

TEST(GavelThroughputs, ReadsSpeedsAloneAndTogether) {
  constexpr const char* kText =
      R"-({"k80": {"('LM (batch size 5)', 2)": {"null": 1.5, "('A3C', 2)": [1, 0.25]}}, "p100": {}})-";
  const auto table = GavelThroughputs::Parse(kText, "table");
  ASSERT_TRUE(table) << table.error().message;
  const JobKind lm{"LM (batch size 5)", 2}, a3c{"A3C", 2};
  EXPECT_EQ(table->Alone("k80", lm), 1.5);
  EXPECT_EQ(table->Locality("k80", lm, a3c), std::pair(1.0, 0.25));
  EXPECT_FALSE(table->Alone("k80", a3c));
  EXPECT_FALSE(table->Alone("p100", lm));
  EXPECT_FALSE(table->Locality("v100", lm, a3c));
}

TEST(GavelThroughputs, RefusesMalformedFilesAndNamesThePlace) {
  const std::vector<std::string> wrong = {"",
                                          "[]",
                                          "{",
                                          R"-({"k80": 1})-",
                                          R"-({"k80": {"LM": {}}})-",
                                          R"-({"k80": {"('LM', 0)": {}}})-",
                                          R"-({"k80": {"('LM', 1)": {"null": -1}}})-",
                                          R"-({"k80": {"('LM', 1)": {"null": 1e99}}})-",
                                          R"-({"k80": {"('LM', 1)": {"('A', 1)": [1]}}})-",
                                          R"-({"k80": {}} x)-",
                                          R"-({"a\"b": {}})-"};
  for (const std::string& text : wrong) {
    const auto table = GavelThroughputs::Parse(text, "table");
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.error().code, ErrorCode::kCorruptData);
    EXPECT_TRUE(table.error().message.starts_with("table: ")) << table.error().message;
    EXPECT_NE(table.error().message.find(" at byte "), std::string::npos);
  }
  EXPECT_EQ(GavelThroughputs::Read("/nonexistent/file").error().code, ErrorCode::kNotFound);
}

TEST(Gavel, PolicyNamesAreReadAndWritten) {
  EXPECT_EQ(ParseGavelPolicy("progress-packed"), GavelPolicy::kProgressPacked);
  EXPECT_FALSE(ParseGavelPolicy("Progress"));
}

}  // namespace gavel_test
}  // namespace divvy::research
