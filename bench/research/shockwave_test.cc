#include "research/shockwave.h"

#include <gtest/gtest.h>

#include "simulate/traces/test_files.h"

namespace divvy::research {
namespace shockwave_test {

/// Steps per second of LM by batch size. Larger batches process samples somewhat faster.
GavelThroughputs Table() {
  std::string text = "{\"v100\": {";
  for (const int gpus : {1, 2, 4}) {
    for (const int batch : {5, 10, 20, 40, 80}) {
      const double rate = 600.0 / batch * (1 + batch / 100.0) * gpus;
      text += (gpus == 1 && batch == 5 ? "\"('LM (batch size " : ",\"('LM (batch size ") + std::to_string(batch) +
              ")', " + std::to_string(gpus) + ")\": {\"null\": " + std::to_string(rate) + "}";
    }
  }
  return *GavelThroughputs::Parse(text + "}}", "table");
}

ShockwaveJob Lm(double steps, double arrival_s, BatchMode mode = BatchMode::kStatic, int gpus = 1, int batch = 80) {
  return {"LM", batch, gpus, mode, steps, arrival_s};
}

ShockwaveOptions Small(ShockwavePolicy policy, int gpus) {
  ShockwaveOptions options;
  options.policy = policy;
  options.gpus = gpus;
  return options;
}

class ShockwaveTrace : public simulate::TestFiles {
 protected:
  std::string Write(const std::string& text) const { return File("trace.tsv", text); }
};

TEST_F(ShockwaveTrace, IsReadLineByLine) {
  const auto jobs = ReadShockwaveTrace(
      Write("LM (batch size 10)\tlanguage_modeling\t--steps\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t0\n"
            "ResNet-18 (batch size 32)\timage\t--num_steps\t1\t143450\t2\taccordion\t1\t-1.0\t3338\t55\n"));
  ASSERT_TRUE(jobs) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].mode, BatchMode::kGns);
  EXPECT_EQ((*jobs)[1].family, "ResNet-18");
  EXPECT_EQ((*jobs)[1].batch, 32);
  EXPECT_EQ((*jobs)[1].gpus, 2);
  EXPECT_EQ((*jobs)[1].arrival_s, 55);
  EXPECT_EQ(KindAt((*jobs)[1], 64), (JobKind{"ResNet-18 (batch size 64)", 2}));
}

TEST_F(ShockwaveTrace, NamesTheLineThatIsNotAJob) {
  const std::string good = "LM (batch size 10)\tx\ty\t1\t100\t1\tgns\t1\t-1\t14\t10\n";
  for (const char* bad : {"LM\tx\ty\t1\t100\t1\tgns\t1\t-1\t14\t10\n", "LM (batch size 10)\tx\n",
                          "LM (batch size 10)\tx\ty\t1\t100\t1\tfast\t1\t-1\t14\t10\n",
                          "LM (batch size 10)\tx\ty\t1\t0\t1\tgns\t1\t-1\t14\t10\n",
                          "LM (batch size 10)\tx\ty\t1\t100\t0\tgns\t1\t-1\t14\t10\n",
                          "GPT (batch size 10)\tx\ty\t1\t100\t1\tgns\t1\t-1\t14\t10\n",
                          "LM (batch size 10)\tx\ty\t1\t100\t1\tgns\t1\t-1\t14\t9\n"}) {
    const auto jobs = ReadShockwaveTrace(Write(good + bad));
    ASSERT_FALSE(jobs) << bad;
    EXPECT_NE(jobs.error().message.find(":2: "), std::string::npos) << jobs.error().message;
  }
  EXPECT_FALSE(ReadShockwaveTrace(Write("")));
}

TEST(ShockwaveBatches, GnsDoublesTheBatchAtItsEpochsUpToTheLargest) {
  const ShockwaveJob job = Lm(11935.0 * 50, 0, BatchMode::kGns, 1, 5);
  ASSERT_EQ(Epochs(job), 50);
  const std::vector<int> batches = ProfiledBatches(job);
  EXPECT_EQ(batches[30], 5);
  EXPECT_EQ(batches[31], 10);
  EXPECT_EQ(batches[41], 20);
  EXPECT_EQ(batches[48], 20);
  EXPECT_EQ(batches[49], 5);  // In the published profile the last epoch is back at the first size.
  EXPECT_EQ(NextBatch(job, 5, 29), 5);
  EXPECT_EQ(NextBatch(job, 5, 30), 10);
  EXPECT_EQ(NextBatch(job, 5, 45), 10);  // Doubles only once at a time.
  EXPECT_EQ(NextBatch(Lm(1e6, 0, BatchMode::kGns, 1, 80), 80, 500), 80);
}

TEST(ShockwaveBatches, AccordionUsesTheLargestBatchOutsideTheCriticalEpochs) {
  const ShockwaveJob job = {"ResNet-50", 32, 1, BatchMode::kAccordion, 3125.0 * 100, 0};
  ASSERT_EQ(Epochs(job), 100);
  const std::vector<int> batches = ProfiledBatches(job);
  EXPECT_EQ(batches[20], 32);  // Not critical, but among the first 30 %.
  EXPECT_EQ(batches[35], 32);
  EXPECT_EQ(batches[45], 128);
  EXPECT_EQ(NextBatch(job, 32, 20), 128);
  EXPECT_EQ(NextBatch(job, 128, 31), 32);
  EXPECT_EQ(NextBatch({"Transformer", 32, 1, BatchMode::kAccordion, 1e5, 0}, 32, 99), 32);
}

TEST(Shockwave, AJobAloneTakesItsProfiledTime) {
  const std::vector<ShockwaveJob> jobs = {Lm(746.0 * 13, 0)};
  for (const auto policy : {ShockwavePolicy::kMaxMin, ShockwavePolicy::kSlack, ShockwavePolicy::kSlackProfiled}) {
    const auto result = RunShockwave(Small(policy, 4), jobs, Table());
    ASSERT_TRUE(result);
    EXPECT_NEAR(result->makespan_s, 746 * 13 / 13.5, 5);
    EXPECT_NEAR(result->worst_rho, 1, 0.01);
    EXPECT_EQ(result->restarts, 0);
  }
}

TEST(Shockwave, AGrowingBatchMakesAJobFaster) {
  const auto took = [](BatchMode mode) {
    return RunShockwave(Small(ShockwavePolicy::kSlack, 4), {Lm(11935.0 * 60, 0, mode, 1, 5)}, Table())->makespan_s;
  };
  EXPECT_LT(took(BatchMode::kGns), 0.97 * took(BatchMode::kStatic));
  EXPECT_LT(took(BatchMode::kAccordion), 0.8 * took(BatchMode::kStatic));
}

TEST(Shockwave, StoppingAndStartingAJobCostsTime) {
  // With shares, two jobs take turns on one GPU; with slack, one runs to its end first.
  const std::vector<ShockwaveJob> jobs(2, Lm(746.0 * 40, 0));
  const auto shares = RunShockwave(Small(ShockwavePolicy::kMaxMin, 1), jobs, Table());
  const auto slack = RunShockwave(Small(ShockwavePolicy::kSlack, 1), jobs, Table());
  EXPECT_GT(shares->restarts, slack->restarts);
  EXPECT_GT(shares->makespan_s, slack->makespan_s);
}

TEST(Shockwave, SlackPolicyStartsTheLongJobEarlyAndStarvesNone) {
  std::vector<ShockwaveJob> jobs;
  for (int i = 0; i < 24; ++i) jobs.push_back(Lm(746.0 * (30 + i), 10.0 * i));
  jobs.push_back(Lm(746.0 * 400, 300, BatchMode::kStatic, 2));
  const auto shares = RunShockwave(Small(ShockwavePolicy::kMaxMin, 4), jobs, Table());
  const auto slack = RunShockwave(Small(ShockwavePolicy::kSlack, 4), jobs, Table());
  EXPECT_LT(slack->makespan_s, 0.85 * shares->makespan_s);
  EXPECT_LE(slack->worst_rho, 1.5);
}

TEST(Shockwave, ReportsAJobThatCanNeverRun) {
  const auto result = RunShockwave(Small(ShockwavePolicy::kSlack, 2), {Lm(1000, 0, BatchMode::kStatic, 4)}, Table());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kFailedPrecondition);
}

TEST(Shockwave, PolicyNamesAreReadAndWritten) {
  EXPECT_EQ(ParseShockwavePolicy("slack-profiled"), ShockwavePolicy::kSlackProfiled);
  EXPECT_FALSE(ParseShockwavePolicy("shockwave"));
}

}  // namespace shockwave_test
}  // namespace divvy::research
