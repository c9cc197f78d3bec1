#include "samples/waste.h"

#include <gtest/gtest.h>

namespace divvy::samples {
namespace waste_test {

constexpr Second kStart = 1'790'000'100;
constexpr double kGib = 1 << 30;

class WasteTest : public testing::Test {
 protected:
  WasteTest() {
    shape_.gpus = 4;
    shape_.gpu_memory = 80_GiB;
    shape_.may_share = true;
  }

  // Simulates this many minutes with one observation every ten seconds.
  void Use(WasteWatch& watch, int minutes, const std::vector<double>& uses, double memory = 40 * kGib,
           std::optional<double> cpus = std::nullopt, std::optional<double> machine_cpus = std::nullopt) {
    for (int i = 0; i < minutes * 6; ++i) {
      now_ += 10;
      WasteWatch::Look look;
      look.at = now_;
      for (const double use : uses) look.gpus.push_back({use, memory});
      look.cpus = cpus;
      look.machine_cpus = machine_cpus;
      watch.Add(look, rules_);
    }
  }

  WasteWatch One(double part = 1) {
    shape_.gpus = 1;
    shape_.part = part;
    return {shape_, kStart};
  }

  WasteRules rules_;
  WasteShape shape_;
  Second now_ = kStart;
};

TEST_F(WasteTest, AnIdleJobIsReportedAfterTheGracePeriodAndHalfAnHour) {
  WasteWatch watch(shape_, kStart);
  Use(watch, 39, {0, 0, 0, 0});
  EXPECT_TRUE(watch.Findings(rules_).empty());
  Use(watch, 2, {0, 0, 0, 0});
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, WasteKind::kIdle);
  EXPECT_EQ(findings[0].gpus, 4);
  EXPECT_TRUE(findings[0].ends);
  EXPECT_EQ(findings[0].text, "does nothing with its 4 GPUs: 0% for 40 min");
  Use(watch, 1, {0, 0.01, 0, 0});
  EXPECT_EQ(watch.Findings(rules_).at(0).kind, WasteKind::kSomeIdle);
}

TEST_F(WasteTest, OneSecondOfWorkRestartsTheHalfHour) {
  WasteWatch watch = One();
  Use(watch, 25, {0});
  Use(watch, 1, {0.5});
  Use(watch, 29, {0});
  EXPECT_TRUE(watch.Findings(rules_).empty());
  Use(watch, 2, {0});
  EXPECT_EQ(watch.Findings(rules_).at(0).kind, WasteKind::kIdle);
}

TEST_F(WasteTest, UnusedGpusAreOmittedFromTheSuggestedRequest) {
  WasteWatch watch(shape_, kStart);
  Use(watch, 45, {0.9, 0, 0, 0.8});
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, WasteKind::kSomeIdle);
  EXPECT_EQ(findings[0].gpus, 2);
  EXPECT_EQ(findings[0].flags, "--gpus 2");
  EXPECT_EQ(findings[0].text, "uses 2 of its 4 GPUs; the others are at 0% for 44 min");
}

TEST_F(WasteTest, TheMeanCoversTheLastHourWithoutTheGracePeriod) {
  WasteWatch watch(shape_, kStart);
  Use(watch, 10, {0, 0, 0, 0});
  Use(watch, 50, {0.2, 0.2, 0.2, 0.2});
  EXPECT_TRUE(watch.Findings(rules_).empty()) << "less than an hour is known";
  Use(watch, 10, {0.2, 0.2, 0.2, 0.2});
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, WasteKind::kUnderused);
  EXPECT_EQ(findings[0].flags, "--gpus 1");
  EXPECT_NEAR(findings[0].gpus, 3.2, 1e-6);
  Use(watch, 60, {0.3, 0.3, 0.3, 0.3});
  EXPECT_TRUE(watch.Findings(rules_).empty()) << "what was before is forgotten";
}

TEST_F(WasteTest, ForAHardlyUsedGpuAFractionIsSuggested) {
  WasteWatch watch = One();
  Use(watch, 75, {0.1}, 30 * kGib);
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].flags, "--gpus 0.5") << "30 GiB and a quarter more of 80";
}

TEST_F(WasteTest, ForLittleMemoryAFractionOrASliceIsSuggested) {
  shape_.may_slice = true;
  WasteWatch watch = One();
  Use(watch, 75, {0.3}, 9 * kGib);
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, WasteKind::kSmallMemory);
  EXPECT_EQ(findings[0].text, "never took more than 11% of the memory of its GPU");
  EXPECT_EQ(findings[0].flags, "--gpus 0.5 or --slice '>=30G'") << "0.3 of the time and a quarter more";
  WasteWatch busy = One();
  Use(busy, 75, {0.9}, 9 * kGib);
  EXPECT_TRUE(busy.Findings(rules_).empty()) << "it keeps its GPU at work";
}

TEST_F(WasteTest, ARequestByMemoryGetsASuggestionByMemory) {
  shape_.is_by_memory = true;
  WasteWatch watch = One(0.5);
  Use(watch, 75, {0.2}, 5 * kGib);
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U) << "0.2 of the GPU is 0.4 of its half";
  EXPECT_EQ(findings[0].kind, WasteKind::kSmallMemory);
  EXPECT_EQ(findings[0].flags, "--gpu-memory 7G --compute 0.25");
}

TEST_F(WasteTest, ForBusyCoresMoreCoresAreSuggested) {
  shape_.cpus = 4;
  shape_.cpus_most = 6;
  WasteWatch watch = One();
  Use(watch, 75, {0.2}, 40 * kGib, 3.95);
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, WasteKind::kCpuBound);
  EXPECT_EQ(findings[0].flags, "--cpus 6");
  EXPECT_EQ(findings[0].text, "waits for its CPUs: its 4 cores are busy, and its GPU is at 20%");
  Use(watch, 60, {0.2}, 40 * kGib, 1.0);
  EXPECT_EQ(watch.Findings(rules_).at(0).kind, WasteKind::kUnderused);
}

TEST_F(WasteTest, AJobWithoutACpuRequestIsMeasuredAgainstABusyNode) {
  shape_.cpus_most = 64;
  shape_.cpus_fair = 8;
  WasteWatch watch = One();
  Use(watch, 75, {0.3}, 40 * kGib, 6.0, 0.99);
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, WasteKind::kCpuBound);
  EXPECT_EQ(findings[0].flags, "--cpus 12");
  EXPECT_EQ(findings[0].text,
            "waits for CPUs: all 64 cores of its node are busy, 6.0 of them for it, and its GPU is at 30%");
  // Not reported if cores are idle, it hardly computes, its GPU is busy, or nothing is known about the machine.
  for (const auto& [use, cores, machine] :
       {std::tuple(0.3, 6.0, std::optional(0.6)), {0.3, 2.0, 0.99}, {0.6, 6.0, 0.99}, {0.3, 6.0, std::nullopt}}) {
    WasteWatch other = One();
    Use(other, 75, {use}, 40 * kGib, cores, machine);
    for (const Waste& waste : other.Findings(rules_)) EXPECT_NE(waste.kind, WasteKind::kCpuBound) << waste.text;
  }
}

TEST_F(WasteTest, AJobWithAllCoresIsNotToldToRequestMore) {
  shape_.cpus_most = 16;
  shape_.cpus_fair = 2;
  WasteWatch watch = One();
  Use(watch, 75, {0.2}, 40 * kGib, 15.8, 0.99);
  ASSERT_EQ(watch.Findings(rules_).size(), 1U);
  EXPECT_EQ(watch.Findings(rules_)[0].kind, WasteKind::kCpuBound);
  EXPECT_EQ(watch.Findings(rules_)[0].flags, "");
}

TEST_F(WasteTest, UnknownUtilizationGivesNoFinding) {
  WasteWatch watch = One();
  for (int i = 0; i < 1000; ++i) {
    now_ += 10;
    watch.Add({now_, {{std::nullopt, std::nullopt}}, std::nullopt}, rules_);
  }
  EXPECT_TRUE(watch.Findings(rules_).empty());
  EXPECT_EQ(watch.gpu_hours(), 0);
  // Half an hour without observations does not count as half an hour at 0%.
  Use(watch, 12, {0});
  now_ += 3600;
  Use(watch, 12, {0});
  EXPECT_TRUE(watch.Findings(rules_).empty());
}

TEST_F(WasteTest, GpuHoursAreCountedByUtilization) {
  WasteWatch watch(shape_, kStart);
  Use(watch, 60, {1, 0.5, 0, 0});
  EXPECT_NEAR(watch.gpu_hours(), 4, 0.02);
  EXPECT_NEAR(watch.lost_gpu_hours(), 2.5, 0.02);
  EXPECT_NEAR(watch.idle_gpu_hours(), 2, 0.02);
}

TEST_F(WasteTest, AFractionCountsAsItsFraction) {
  WasteWatch watch = One(0.25);
  Use(watch, 60, {0.125}, 10 * kGib);
  EXPECT_NEAR(watch.gpu_hours(), 0.25, 0.002);
  EXPECT_NEAR(watch.lost_gpu_hours(), 0.125, 0.002);
  Use(watch, 60, {0.5}, 10 * kGib);
  EXPECT_NEAR(watch.lost_gpu_hours(), 0.125, 0.002) << "what it borrows is no loss";
}

TEST_F(WasteTest, NewGpusAreJudgedAfresh) {
  WasteWatch watch(shape_, kStart);
  Use(watch, 45, {0, 0, 0, 0});
  ASSERT_FALSE(watch.Findings(rules_).empty());
  shape_.gpus = 2;
  watch.Reshape(shape_);
  EXPECT_TRUE(watch.Findings(rules_).empty());
  EXPECT_NEAR(watch.lost_gpu_hours(), 3, 0.05);
  Use(watch, 29, {0, 0});
  EXPECT_TRUE(watch.Findings(rules_).empty());
  Use(watch, 2, {0, 0});
  EXPECT_EQ(watch.Findings(rules_).at(0).gpus, 2);
}

TEST_F(WasteTest, StoredTotalsContinue) {
  // Five hours at 0%, of which the last half hour has single observations.
  WasteWatch watch(shape_, kStart);
  now_ = kStart + 4 * 3600 + 1800;
  Use(watch, 30, {0, 0, 0, 0}, 1 * kGib);
  WasteWatch::Past past{20, 18, 18, 70 * kGib, 5 * 3600};
  watch.Resume(past);
  EXPECT_EQ(watch.lost_gpu_hours(), 18);
  const auto findings = watch.Findings(rules_);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, "does nothing with its 4 GPUs: 0% for 5 h");
  EXPECT_FALSE(watch.KnowsEnough(rules_, true));
  Use(watch, 60, {0.1, 0, 0, 0}, 1 * kGib);
  EXPECT_NEAR(watch.lost_gpu_hours(), 18 + 3.9, 0.02);
  EXPECT_NEAR(watch.gpu_hours(), 24, 0.02);
}

TEST_F(WasteTest, StoredTotalsAreNoProofOfWork) {
  // The last minute before a daemon was killed is not stored; the job may have been warned in it.
  WasteWatch watch = One();
  Use(watch, 60, {0.5});
  watch.Resume({1, 0.5, 0, 40 * kGib, 0});
  EXPECT_FALSE(watch.KnowsEnough(rules_, true));
  Use(watch, 2, {0});
  EXPECT_FALSE(watch.KnowsEnough(rules_, true));
  Use(watch, 1, {0.5});
  EXPECT_TRUE(watch.KnowsEnough(rules_, true));
}

TEST_F(WasteTest, AfterARestartTimeCountsFromTheFirstObservation) {
  // The gap between the last stored and the first new observation is longer than idle_after.
  rules_.idle_after = std::chrono::seconds(30);
  WasteWatch watch = One();
  Use(watch, 60, {0.5});
  watch.Resume({1, 0.5, 0, 40 * kGib, 0});
  WasteWatch::Look look;
  look.at = now_ += 40;
  look.gpus.push_back({0.0, 40 * kGib});
  watch.Add(look, rules_);
  EXPECT_FALSE(watch.KnowsEnough(rules_, true));
  Use(watch, 1, {0});
  EXPECT_TRUE(watch.KnowsEnough(rules_, true));
}

TEST_F(WasteTest, RulesCanBeSwitchedOff) {
  rules_.underused = 0;
  rules_.small_memory = 0;
  WasteWatch watch = One();
  Use(watch, 75, {0.01}, 1 * kGib);
  EXPECT_TRUE(watch.Findings(rules_).empty());
}

}  // namespace waste_test
}  // namespace divvy::samples
