// A simulated GPU scheduled by Turns. Tenants launch kernels of given lengths, one kernel runs at a time, and a turn
// ends when the running kernel does. Time is virtual.
#include "sharing/turns.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>
#include <vector>

namespace divvy::sharing {
namespace turns_test {

const Time kStart = Time(1'000'000s);

/// One process: runs kernels until it pauses, then has no work for a while.
struct Program {
  TenantId id;
  std::function<Duration()> kernel;                              // Length of the next kernel.
  std::function<Duration()> pause = [] { return Duration(0); };  // Pause after it; 0: none.
  Time wakes = kStart;                                           // Has work from then on.
  Duration ran{0};
  std::vector<Duration> waited;  // Wait of each kernel after a pause.
  Time asked = kNoTime;
};

class ModelledGpu {
 public:
  explicit ModelledGpu(TurnSettings settings = {}) : turns(settings) {}

  Program& Add(std::uint64_t job, int weight, int limit, std::function<Duration()> kernel,
               bool is_interactive = false) {
    turns.Add({job, 1}, GpuShare(weight), GpuShare(limit), is_interactive, now);
    programs.push_back({.id = {job, 1}, .kernel = std::move(kernel)});
    return programs.back();
  }

  void RunFor(Duration duration) {
    const Time end = now + duration;
    while (now < end) {
      Time next = end;
      for (Program& program : programs) {
        if (program.wakes > now) next = std::min(next, program.wakes);
        else if (program.asked == kNoTime) {
          program.asked = now;
          turns.OnWants(program.id, now);
        }
      }
      const Turns::Decision decision = turns.Decide(now);
      ASSERT_EQ(turns.CheckInvariants(), "");
      if (decision.drains) {  // Between kernels the device is empty, so it is drained at once.
        turns.OnDrained(*decision.drains, now);
        continue;
      }
      if (!decision.holder) {
        now = std::min(next, decision.until);
        continue;
      }
      RunKernel(*decision.holder);
    }
  }

  /// Runs one kernel to its end, even beyond the turn: an overrun.
  void RunKernel(TenantId id) {
    for (Program& program : programs) {
      if (program.id != id) continue;
      if (program.wakes > kStart) program.waited.push_back(now - program.asked);
      const Duration length = program.kernel();
      now += length;
      program.ran += length;
      const Duration pause = program.pause();
      program.asked = now;
      if (pause == Duration(0)) return;
      program.asked = kNoTime;
      program.wakes = now + pause;
      turns.OnIdle(id, now);
    }
  }

  double ShareOf(std::uint64_t job) const {
    Duration all{0};
    Duration own{0};
    for (const Program& program : programs) {
      all += program.ran;
      if (program.id.job == job) own = program.ran;
    }
    return ToSeconds(own) / ToSeconds(all);
  }

  Turns turns;
  Time now = kStart;
  std::deque<Program> programs;
};

std::function<Duration()> Always(Duration length) {
  return [length] { return length; };
}

std::function<Duration()> Between(Duration least, Duration most, unsigned seed) {
  return [least, most, draw = std::mt19937(seed)]() mutable {
    return least + Duration(static_cast<std::int64_t>(draw()) % (most - least).count());
  };
}

TEST(Turns, TenToNinetySharesHoldOverFiveSecondsWhateverTheKernelLengths) {
  const std::vector<std::pair<Duration, Duration>> lengths = {{10us, 10us}, {1ms, 1ms},  {200us, 9ms},
                                                              {9ms, 200us}, {30ms, 1ms}, {1ms, 30ms}};
  for (const auto& [first, second] : lengths) {
    ModelledGpu gpu;
    gpu.Add(1, 1000, 10000, Always(first));
    gpu.Add(2, 9000, 10000, Always(second));
    gpu.RunFor(5s);
    EXPECT_NEAR(gpu.ShareOf(1), 0.10, 0.0101) << first.count() << " beside " << second.count();
    const bool is_fine = first <= 2ms;
    EXPECT_TRUE(!is_fine || std::abs(gpu.ShareOf(1) - 0.10) < 0.002)
        << gpu.ShareOf(1) << ": " << first.count() << " beside " << second.count();
  }
}

TEST(Turns, QuarterQuarterHalfSharesHoldWithinTwoPercent) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    ModelledGpu gpu;
    gpu.Add(1, 2500, 10000, Between(50us, 8ms, seed));
    gpu.Add(2, 2500, 10000, Between(10us, 500us, seed + 100));
    gpu.Add(3, 5000, 10000, Between(1ms, 25ms, seed + 200));
    gpu.RunFor(5s);
    EXPECT_NEAR(gpu.ShareOf(1), 0.25, 0.005) << seed;
    EXPECT_NEAR(gpu.ShareOf(2), 0.25, 0.005) << seed;
    EXPECT_NEAR(gpu.ShareOf(3), 0.50, 0.010) << seed;
  }
}

TEST(Turns, AnOverrunIsChargedAfterwards) {
  ModelledGpu gpu;
  gpu.Add(1, 5000, 10000, Always(400ms));
  gpu.Add(2, 5000, 10000, Always(1ms));
  gpu.RunFor(8s);
  EXPECT_NEAR(gpu.ShareOf(1), 0.5, 0.03);
}

TEST(Turns, IdleTimeOfANeighborIsLentCompletely) {
  ModelledGpu gpu;
  gpu.Add(1, 1000, 10000, Always(1ms));
  Program& owner = gpu.Add(2, 9000, 10000, Always(1ms));
  owner.wakes = kStart + 1h;
  gpu.RunFor(5s);
  EXPECT_EQ(gpu.programs[0].ran, 5s);
  const Turns::Decision decision = gpu.turns.Decide(gpu.now);
  EXPECT_TRUE(decision.is_alone);
  EXPECT_EQ(decision.until, kNever);  // No further decision is needed: the gate stays open.
}

TEST(Turns, NoTimeIsLostWhileAnyTenantHasWork) {
  ModelledGpu gpu;
  gpu.Add(1, 3000, 10000, Between(100us, 5ms, 1)).pause = Between(0ms, 30ms, 2);
  gpu.Add(2, 7000, 10000, Between(100us, 5ms, 3));
  gpu.RunFor(5s);
  EXPECT_GE(gpu.programs[0].ran + gpu.programs[1].ran, 5s);
}

TEST(Turns, ALimitAppliesToASingleTenantToo) {
  for (const Duration kernel : {Duration(100us), Duration(5ms), Duration(120ms)}) {
    ModelledGpu gpu;
    gpu.Add(1, 2000, 3000, Always(kernel));
    gpu.RunFor(10s);
    EXPECT_NEAR(ToSeconds(gpu.programs[0].ran), 3.0, 0.13) << kernel.count();
    EXPECT_GE(ToSeconds(gpu.programs[0].ran), 2.95) << kernel.count();
  }
}

TEST(Turns, ALimitedNeighborLeavesTheRestToOthers) {
  ModelledGpu gpu;
  gpu.Add(1, 5000, 5000, Always(1ms));
  gpu.Add(2, 2000, 10000, Always(1ms));
  gpu.RunFor(5s);
  EXPECT_NEAR(gpu.ShareOf(1), 0.5, 0.02);
  EXPECT_EQ(gpu.programs[0].ran + gpu.programs[1].ran, 5s);
}

TEST(Turns, AnInteractiveTenantRunsWithinOneKernelOfTheOthers) {
  ModelledGpu gpu;
  gpu.Add(1, 5000, 10000, Always(4ms));
  gpu.Add(2, 3000, 10000, Always(4ms));
  gpu.Add(3, 2000, 10000, Always(2ms), true).pause = Between(50ms, 150ms, 7);
  gpu.RunFor(10s);
  ASSERT_GT(gpu.programs[2].waited.size(), 50u);
  for (const Duration waited : gpu.programs[2].waited) EXPECT_LE(waited, 4ms);
}

TEST(Turns, ALongIdleTenantSavesUpNoMoreThanTheBonus) {
  ModelledGpu gpu;
  gpu.Add(1, 5000, 10000, Always(1ms));
  Program& sleeper = gpu.Add(2, 5000, 10000, Always(1ms), true);
  sleeper.wakes = kStart + 60s;
  gpu.RunFor(60s);
  gpu.RunFor(1s);
  EXPECT_LE(sleeper.ran, 500ms + TurnSettings().interactive_bonus + TurnSettings().quantum);
}

TEST(Turns, AHolderThatHangsIsReportedOnceAndWaitedFor) {
  Turns turns;
  const TenantId a{1, 1};
  const TenantId b{2, 1};
  turns.Add(a, GpuShare(5000), GpuShare(10000), false, kStart);
  turns.Add(b, GpuShare(5000), GpuShare(10000), false, kStart);
  turns.OnWants(a, kStart);
  EXPECT_EQ(turns.Decide(kStart).holder, a);
  turns.OnWants(b, kStart + 1s);
  Turns::Decision decision = turns.Decide(kStart + 1s);
  EXPECT_EQ(decision.drains, a);
  EXPECT_EQ(decision.holder, std::nullopt);
  EXPECT_EQ(decision.until, kStart + 3s);
  EXPECT_EQ(turns.Decide(kStart + 2s).hung, std::nullopt);
  EXPECT_EQ(turns.Decide(kStart + 3s).hung, a);
  decision = turns.Decide(kStart + 4s);
  EXPECT_EQ(decision.hung, std::nullopt);
  EXPECT_EQ(decision.drains, a);
  turns.OnDrained(a, kStart + 10s);
  EXPECT_EQ(turns.Decide(kStart + 10s).holder, b);
  EXPECT_EQ(turns.Had(a), 10s);  // Work beyond its turn is charged to it.
}

TEST(Turns, AnEndlessKernelIsChargedUntilItEnds) {
  Turns turns;
  const TenantId a{1, 1};
  const TenantId b{2, 1};
  for (const TenantId id : {a, b}) turns.Add(id, GpuShare(5000), GpuShare(10000), false, kStart);
  turns.OnWants(a, kStart);
  EXPECT_EQ(turns.Decide(kStart).holder, a);
  turns.OnWants(b, kStart + 1s);
  EXPECT_EQ(turns.Decide(kStart + 1s).drains, a);
  EXPECT_EQ(turns.Decide(kStart + 3s).hung, a);
  turns.OnOverrun(a, kStart + 3s);
  // Other tenants continue next to it.
  EXPECT_EQ(turns.Decide(kStart + 3s).holder, b);
  EXPECT_EQ(turns.CheckInvariants(), "");
  turns.OnDrained(a, kStart + 10s);
  EXPECT_EQ(turns.Had(a), 10s);
  EXPECT_EQ(turns.Had(b), 7s);
  EXPECT_EQ(turns.Decide(kStart + 12s).holder, b) << "it is behind by three seconds";
  EXPECT_EQ(turns.Decide(kStart + 13s + 1ms).drains, b);
  EXPECT_EQ(turns.Had(a), 10s);
}

TEST(Turns, ATenantThatJoinsDuringAnEndlessKernelStartsAtTheOthersLevel) {
  Turns turns;
  const TenantId a{1, 1};
  const TenantId b{2, 1};
  const TenantId c{3, 1};
  for (const TenantId id : {a, b}) turns.Add(id, GpuShare(5000), GpuShare(10000), false, kStart);
  turns.OnWants(a, kStart);
  turns.Decide(kStart);
  turns.OnWants(b, kStart + 1s);
  turns.Decide(kStart + 1s);
  EXPECT_EQ(turns.Decide(kStart + 3s).hung, a);
  turns.OnOverrun(a, kStart + 3s);
  EXPECT_EQ(turns.Decide(kStart + 3s).holder, b);
  turns.Add(c, GpuShare(5000), GpuShare(10000), false, kStart + 4s);
  turns.OnWants(c, kStart + 4s);
  EXPECT_EQ(turns.Decide(kStart + 4s + 200ms).drains, b);
}

TEST(Turns, ADeadHolderBlocksNoOther) {
  Turns turns;
  const TenantId a{1, 1};
  const TenantId b{2, 1};
  for (const TenantId id : {a, b}) {
    turns.Add(id, GpuShare(5000), GpuShare(10000), false, kStart);
    turns.OnWants(id, kStart);
  }
  EXPECT_EQ(turns.Decide(kStart).holder, a);
  turns.Remove(a, kStart + 5ms);
  const Turns::Decision decision = turns.Decide(kStart + 5ms);
  EXPECT_EQ(decision.holder, b);
  EXPECT_TRUE(decision.is_alone);
}

TEST(Turns, WeightsMayChangeWhileTenantsRun) {
  ModelledGpu gpu;
  gpu.Add(1, 5000, 10000, Always(1ms));
  gpu.Add(2, 5000, 10000, Always(1ms));
  gpu.RunFor(2s);
  const Duration before = gpu.programs[0].ran;
  gpu.turns.Add({1, 1}, GpuShare(1000), GpuShare(10000), false, gpu.now);
  gpu.turns.Add({2, 1}, GpuShare(9000), GpuShare(10000), false, gpu.now);
  gpu.RunFor(5s);
  EXPECT_NEAR(ToSeconds(gpu.programs[0].ran - before), 0.5, 0.03);
}

}  // namespace turns_test
}  // namespace divvy::sharing
