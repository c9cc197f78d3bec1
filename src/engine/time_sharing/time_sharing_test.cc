// Each rule of time-sharing as one situation, and what holds in all random ones.
#include "engine/time_sharing/time_sharing.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/time_sharing/test_world.h"

namespace divvy::time_sharing {
namespace time_sharing_test {

constexpr Duration kMinute = std::chrono::minutes(1);
constexpr Duration kHour = std::chrono::hours(1);
constexpr Duration kDay = 24 * kHour;

Options Brief() {
  Options options;
  options.trial = kHour;
  options.min_displacement = 5 * kMinute;
  return options;
}

Options WithoutContract() {
  Options options = Brief();
  options.at_most.reset();
  return options;
}

TEST(TimeSharing, AFreeGpuIsTakenAtOnce) {
  TestWorld world(2, 8, Brief());
  const JobId job = world.Submit(4, kHour);
  world.Decide();
  EXPECT_EQ(world.jobs[job].first_start, world.now);
  EXPECT_EQ(world.last.front().reason, Reason::kFreeGpus);
}

TEST(TimeSharing, ANewJobDisplacesALongOneWhoseTrialIsOver) {
  TestWorld world(1, 8, Brief());
  const JobId longer = world.Submit(8, 10 * kDay);
  world.Run(world.now + 10 * kHour);
  const Time arrival = world.now;
  const JobId brief = world.Submit(1, 3 * kMinute);
  world.Decide();
  EXPECT_EQ(world.PhaseOf(longer), Phase::kParked);
  EXPECT_EQ(world.jobs[brief].first_start, arrival + 10s) << "after the copy to host memory";
  ASSERT_EQ(world.last.size(), 2u);
  EXPECT_EQ(world.last[0].other, brief);
  world.Run(arrival + 4 * kMinute);
  EXPECT_TRUE(world.IsDone(brief));
  EXPECT_EQ(world.PhaseOf(longer), Phase::kRunning);
  EXPECT_EQ(world.View(longer)->lost_settled, 3 * kMinute + 20s);
}

TEST(TimeSharing, JobsOnTrialDoNotDisplaceEachOther) {
  TestWorld world(1, 8, Brief());
  world.Submit(8, 10 * kDay);
  world.Run(world.now + 5 * kMinute);
  const JobId second = world.Submit(8, kMinute);
  world.Decide();
  EXPECT_EQ(world.PhaseOf(second), Phase::kWaiting);
  world.Run(world.now + 4 * kMinute);
  EXPECT_TRUE(world.IsDone(second)) << "after 8 GPU hours of trial, the first is long";
}

TEST(TimeSharing, AUsedUpContractEndsTheTrialOfAnother) {
  TestWorld world(1, 8, Brief());
  const JobId owner = world.Submit(8, 10 * kDay);
  world.Run(world.now + 5 * kHour);
  const JobId guest = world.Submit(8, 5 * kDay);
  // A fifth of five hours and ten minutes, without the copies.
  world.Run(world.now + kHour + 10 * kMinute);
  EXPECT_EQ(world.PhaseOf(owner), Phase::kRunning);
  EXPECT_EQ(world.PhaseOf(guest), Phase::kParked);
  EXPECT_TRUE(world.View(owner)->is_settled);
  EXPECT_FALSE(world.View(guest)->is_settled) << "it waits for its turn";
  world.Run(world.now + 40 * kMinute);
  EXPECT_EQ(world.PhaseOf(owner), Phase::kRunning) << "undisturbed until it may lose something again";
  world.Run(world.now + 30 * kDay);
  EXPECT_TRUE(world.IsDone(owner));
  EXPECT_TRUE(world.IsDone(guest));
}

TEST(TimeSharing, ASmallVictimIsPreferredToALargeOne) {
  TestWorld world(2, 8, Brief());
  const JobId large = world.Submit(8, 10 * kDay);
  std::vector<JobId> small;
  for (int i = 0; i < 8; ++i) small.push_back(world.Submit(1, 10 * kDay));
  world.Run(world.now + 2 * kDay);
  world.Submit(1, kHour);
  world.Decide();
  EXPECT_EQ(world.PhaseOf(large), Phase::kRunning);
  EXPECT_EQ(std::ranges::count_if(small, [&](JobId id) { return world.PhaseOf(id) == Phase::kParked; }), 1);
}

TEST(TimeSharing, GangsAndJobsThatCannotBeParkedStayOnTheirGpus) {
  TestWorld world(3, 8, WithoutContract());
  const JobId gang = world.Submit(16, 10 * kDay);
  const JobId fixed = world.Submit(8, 10 * kDay, false);
  world.Run(world.now + kDay);
  const JobId next = world.Submit(1, kHour);
  world.Run(world.now + kDay);
  EXPECT_EQ(world.PhaseOf(gang), Phase::kRunning);
  EXPECT_EQ(world.PhaseOf(fixed), Phase::kRunning);
  EXPECT_EQ(world.PhaseOf(next), Phase::kWaiting);
}

TEST(TimeSharing, GangsDoNotDisplaceSettledJobs) {
  TestWorld world(2, 8, Brief());
  const JobId settled = world.Submit(8, 10 * kDay);
  world.Run(world.now + kDay);
  ASSERT_TRUE(world.View(settled)->is_settled);
  const JobId gang = world.Submit(16, kHour);
  world.Run(world.now + kHour);
  EXPECT_EQ(world.PhaseOf(gang), Phase::kWaiting);
  EXPECT_EQ(world.PhaseOf(settled), Phase::kRunning);
}

TEST(TimeSharing, NoJobSettlesOnNodesThatGangsNeeded) {
  TestWorld world(2, 8, Brief());
  world.SetGangNodes(2);
  const JobId longer = world.Submit(8, 10 * kDay);
  world.Run(world.now + kDay);
  EXPECT_FALSE(world.View(longer)->is_settled);
  const JobId gang = world.Submit(16, kHour);
  world.Decide();
  EXPECT_EQ(world.PhaseOf(gang), Phase::kRunning);
  EXPECT_EQ(world.PhaseOf(longer), Phase::kParked);
}

TEST(TimeSharing, GangsPreferNodesWithoutParkedJobs) {
  TestWorld world(2, 8, WithoutContract());
  world.Submit(8, 10 * kDay, false);
  const JobId first = world.Submit(8, 10 * kDay);
  world.Run(world.now + kDay);
  world.Submit(8, 30 * kMinute);
  world.Run(world.now + kMinute);
  ASSERT_EQ(world.PhaseOf(first), Phase::kParked);
  const std::uint32_t with_parked = world.View(first)->place.front().node;
  TestWorld wide(3, 8, WithoutContract());
  const JobId a = wide.Submit(4, 10 * kDay), b = wide.Submit(8, 10 * kDay);
  wide.Run(wide.now + kDay);
  const JobId gang = wide.Submit(16, kHour);
  wide.Decide();
  EXPECT_EQ(wide.PhaseOf(gang), Phase::kRunning);
  EXPECT_EQ(wide.PhaseOf(a), Phase::kParked) << "fewer GPUs are displaced";
  EXPECT_EQ(wide.PhaseOf(b), Phase::kRunning);
  EXPECT_EQ(with_parked, 1u);
}

TEST(TimeSharing, HostMemoryBoundsTheParkedJobs) {
  TestWorld world(1, 8, WithoutContract(), 0.5);
  world.Submit(4, 10 * kDay);
  world.Submit(4, 10 * kDay);
  world.Run(world.now + kDay);
  const JobId third = world.Submit(4, 10 * kDay);
  world.Run(world.now + kDay);
  EXPECT_NE(world.PhaseOf(third), Phase::kWaiting);
  const JobId fourth = world.Submit(4, kHour);
  world.Run(world.now + kDay);
  EXPECT_EQ(world.PhaseOf(fourth), Phase::kWaiting) << "the host memory holds four GPUs";
}

TEST(TimeSharing, AJobParkedForTooLongSettlesAndReturns) {
  Options options = WithoutContract();
  options.patience = 6 * kHour;
  TestWorld world(1, 8, options);
  const JobId longer = world.Submit(8, 10 * kDay);
  world.Run(world.now + 2 * kHour);
  // Without patience, the stream of trials would never let it return.
  for (int i = 0; i < 20; ++i) {
    world.Submit(8, kHour);
    world.Run(world.now + 55 * kMinute);
  }
  EXPECT_TRUE(world.View(longer)->is_settled);
  EXPECT_EQ(world.PhaseOf(longer), Phase::kRunning);
  EXPECT_LT(world.View(longer)->lost, 7 * kHour);
}

TEST(TimeSharing, WithoutJobsToParkItIsFirstComeFirstServedWithSkipping) {
  TestWorld world(1, 8, Brief());
  world.Submit(6, 10 * kHour, false);
  const JobId wide = world.Submit(8, kHour, false);
  const JobId small = world.Submit(2, kHour, false);
  world.Run(world.now + kHour);
  EXPECT_TRUE(world.IsDone(small) || world.PhaseOf(small) == Phase::kRunning);
  EXPECT_EQ(world.PhaseOf(wide), Phase::kWaiting);
}

/// Random clusters and arrivals. TestWorld checks every decision: owners, host memory, contracts.
class Histories : public testing::TestWithParam<unsigned> {};

TEST_P(Histories, EveryJobEndsAndNoneIsAboveItsContract) {
  std::mt19937_64 random(GetParam());
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); };
  Options options = Brief();
  const int kind = draw(4);
  if (kind == 0) options.at_most.reset();
  if (kind == 1) options.at_most = draw(50) / 100.0;
  if (draw(2) == 0) options.patience = 5 * kHour;
  if (draw(2) == 0) options.start_patience = 3 * kHour;
  const int nodes = 1 + draw(6), gpus = 1 << draw(4);
  TestWorld world(nodes, gpus, options, draw(5) / 2.0);
  world.SetGangNodes(draw(nodes + 1));
  for (int i = 0; i < 150; ++i) {
    const int size = draw(5) == 0 && nodes > 1 ? gpus + 1 + draw((nodes - 1) * gpus) : 1 + draw(gpus);
    const Duration run_time = draw(6) == 0 ? kHour * (1 + draw(40)) : kMinute * (1 + draw(30));
    world.Submit(size, run_time, draw(8) > 0);
    world.Run(world.now + kMinute * (1 + draw(60)));
    if (HasFailure()) FAIL() << "seed " << GetParam() << ", job " << i;
  }
  world.Run(world.now + 500 * kDay);
  EXPECT_EQ(world.unfinished(), 0u) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Histories, testing::Range(1U, 101U));

/// The bound of the header: younger jobs that can be parked never keep a gang or a parked job from its turn.
TEST(TimeSharing, AnEndlessStreamOfYoungerJobsStarvesNobody) {
  for (const bool has_contract : {true, false}) {
    Options options = has_contract ? Brief() : WithoutContract();
    options.patience = options.start_patience = 12 * kHour;
    TestWorld world(3, 8, options);
    std::mt19937_64 random(7);
    for (int i = 0; i < 6; ++i) world.Submit(4, kDay);
    world.Run(world.now + 3 * kHour);
    const JobId gang = world.Submit(20, kHour);
    const JobId longer = world.Submit(8, 2 * kDay);
    const Time arrival = world.now;
    // More work than the cluster can do: 40 GPUs are requested all the time.
    for (int i = 0; i < 14 * 24 * 4; ++i) {
      for (int j = 0; j < 2; ++j)
        world.Submit(1 + static_cast<int>(random() % 8), kMinute * (10 + static_cast<int>(random() % 120)));
      world.Run(world.now + 15 * kMinute);
      if (world.IsDone(gang) && world.IsDone(longer)) break;
      if (HasFailure()) FAIL() << i;
    }
    ASSERT_TRUE(world.IsDone(gang) && world.IsDone(longer));
    // The elder jobs end within a day and what they lose; then only patience stands between the gang and its start.
    EXPECT_LT(world.jobs[gang].first_start - arrival, 3 * kDay);
    EXPECT_LT(world.jobs[longer].end - arrival, 8 * kDay);
  }
}

TEST(TimeSharing, ReasonsHaveTexts) {
  for (const Reason reason : {Reason::kFreeGpus, Reason::kTrial, Reason::kContract, Reason::kTurn, Reason::kPatience})
    EXPECT_FALSE(ToText(reason).empty());
}

}  // namespace time_sharing_test
}  // namespace divvy::time_sharing
