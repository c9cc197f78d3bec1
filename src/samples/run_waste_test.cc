#include "samples/run_waste.h"

#include <gtest/gtest.h>

namespace divvy::samples {
namespace run_waste_test {

constexpr double kGib = 1 << 30;

JobUse Used(double hours, double mean, double idle_hours = 0, double tail_hours = 0, double memory = 40 * kGib,
            double cores = 1) {
  JobUse use;
  use.machines = 1;
  use.seconds = use.cpu_seconds = hours * 3600;
  use.use_seconds = use.seconds * mean;
  use.idle_seconds = idle_hours * 3600;
  use.idle_tail = tail_hours * 3600;
  use.memory_peak = use.memory_most = memory;
  use.core_seconds = use.cpu_seconds * cores;
  return use;
}

class RunWasteTest : public testing::Test {
 protected:
  RunWasteTest() {
    shape_.gpus = 4;
    shape_.gpu_memory = 80_GiB;
    shape_.may_share = true;
  }
  WasteRules rules_;
  WasteShape shape_;
};

TEST_F(RunWasteTest, ABusyOrHardlyObservedRunLostNothingWorthReporting) {
  EXPECT_TRUE(WasteOfRun(shape_, Used(5, 0.8), rules_).empty());
  EXPECT_TRUE(WasteOfRun(shape_, Used(0.4, 0, 0.4, 0.4), rules_).empty()) << "less than half an hour";
  EXPECT_TRUE(WasteOfRun(shape_, JobUse(), rules_).empty());
}

TEST_F(RunWasteTest, AnIdleRunNeedsNoGpu) {
  const auto found = WasteOfRun(shape_, Used(3, 0, 3, 3), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, WasteKind::kIdle);
  EXPECT_TRUE(found[0].ends);
  EXPECT_EQ(found[0].text, "did nothing with its 4 GPUs: 0% in all samples of 3 h");
}

TEST_F(RunWasteTest, ARunThatForgotToEndShouldHaveBeenStopped) {
  auto found = WasteOfRun(shape_, Used(10, 0.4, 5, 5), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "did nothing with its 4 GPUs in its last 5 h");
  EXPECT_EQ(found[0].flags, "--on-waste stop");
  found = WasteOfRun(shape_, Used(10, 0.4, 5, 0.9), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].flags, "") << "two warnings later it was over";
}

TEST_F(RunWasteTest, SuggestsTheSmallestSufficientRequest) {
  auto found = WasteOfRun(shape_, Used(5, 0.2), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, WasteKind::kUnderused);
  EXPECT_EQ(found[0].text, "hardly used its 4 GPUs: 20% on average");
  EXPECT_EQ(found[0].flags, "--gpus 1");
  EXPECT_NEAR(found[0].gpus, 3.2, 1e-9);
  shape_.gpus = 1;
  found = WasteOfRun(shape_, Used(5, 0.1, 0, 0, 30 * kGib), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].flags, "--gpus 0.5");
  found = WasteOfRun(shape_, Used(5, 0.3, 0, 0, 6 * kGib), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, WasteKind::kSmallMemory);
  EXPECT_EQ(found[0].flags, "--gpus 0.5");
}

TEST_F(RunWasteTest, UseOfAFractionIsMeasuredAgainstTheFraction) {
  shape_.gpus = 1;
  shape_.part = 0.5;
  EXPECT_TRUE(WasteOfRun(shape_, Used(5, 0.3, 0, 0, 30 * kGib), rules_).empty()) << "60% of its half";
  const auto found = WasteOfRun(shape_, Used(5, 0.1, 0, 0, 10 * kGib), rules_);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].flags, "--gpus 0.2");
}

TEST_F(RunWasteTest, ARunLimitedByCoresNeededMoreOfThem) {
  shape_.cpus = 4;
  shape_.cpus_most = 64;
  const auto found = WasteOfRun(shape_, Used(5, 0.2, 0, 0, 40 * kGib, 3.9), rules_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, WasteKind::kCpuBound);
  EXPECT_EQ(found[0].text, "waited for its CPUs: its 4 cores were busy, and its 4 GPUs were at 20%");
  EXPECT_EQ(found[0].flags, "--cpus 8");
}

TEST_F(RunWasteTest, PeakMemoryIsThatOfOneGpu) {
  JobUse use = Used(1, 1);
  EXPECT_DOUBLE_EQ(MemoryPeakOf(use, 4), 40 * kGib);
  use.memory_most = 0;
  EXPECT_DOUBLE_EQ(MemoryPeakOf(use, 4), 10 * kGib);
}

TEST_F(RunWasteTest, IdleGpusWereNotNeeded) {
  RunDetail detail;
  detail.gpus_unused = 3;
  auto found = WasteOfRun(shape_, Used(5, 0.22), rules_, detail);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, WasteKind::kSomeIdle);
  EXPECT_EQ(found[0].gpus, 3);
  EXPECT_EQ(found[0].text, "used 1 of its 4 GPUs; the others did nothing");
  EXPECT_EQ(found[0].flags, "--gpus 1");
  found = WasteOfRun(shape_, Used(5, 0.1, 2.5, 2.5), rules_, detail);
  ASSERT_EQ(found.size(), 2U) << "and it forgot to end";
  EXPECT_EQ(found[0].flags, "--on-waste stop");
  EXPECT_EQ(found[1].flags, "--gpus 1");
}

TEST_F(RunWasteTest, ARunWithoutACpuRequestIsMeasuredAgainstItsNode) {
  shape_.cpus_most = 64;
  shape_.cpus_fair = 32;
  RunDetail detail;
  detail.machine_cpus = 0.97;
  const auto of = [&](double cores) {
    return WasteOfRun(shape_, Used(5, 0.3, 0, 0, 40 * kGib, cores), rules_, detail);
  };
  const auto found = of(20);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, WasteKind::kCpuBound);
  EXPECT_EQ(found[0].text,
            "waited for CPUs: all 64 cores of its node were busy, 20 of them for it, and its 4 GPUs were at 30%");
  EXPECT_EQ(found[0].flags, "--cpus 40");
  EXPECT_TRUE(of(10).empty()) << "it hardly computed";
  detail.machine_cpus = 0.8;
  EXPECT_TRUE(of(20).empty()) << "there were idle ones";
}

TEST(RunWaste, AShortRunOrASmallLossIsNotReported) {
  const WasteRules rules;
  EXPECT_TRUE(IsWorthTelling(0.5, std::chrono::hours(1), rules));
  EXPECT_FALSE(IsWorthTelling(0.004, std::chrono::hours(1), rules)) << "it rounds to nothing";
  EXPECT_FALSE(IsWorthTelling(8, std::chrono::minutes(10), rules)) << "within the grace";
  WasteRules strict;
  strict.grace = Duration(0);
  EXPECT_TRUE(IsWorthTelling(0.01, std::chrono::seconds(10), strict));
}

}  // namespace run_waste_test
}  // namespace divvy::samples
