// Idle GPUs that any job may use exclude those of active advance reservations and those of nodes that one job has
// exclusively.
#include "engine/scheduler/idle_gpus.h"

#include <gtest/gtest.h>

#include "engine/scheduler/test_world.h"

namespace divvy {
namespace idle_gpus_test {

using namespace std::chrono_literals;

struct Machines : World {
  Machines() {
    scheduler.SetNode(kOwnNode, Words("head"), Capacity(0));
    scheduler.SetNode(1, Words("n1"), Capacity(4, "NVIDIA H100 80GB HBM3"));
    scheduler.SetNode(2, Words("n2"), Capacity(2, "Tesla V100-SXM2-32GB"));
  }
  static NodeAttributes Words(const std::string& name) {
    NodeAttributes attributes;
    attributes.name = name;
    return attributes;
  }
  static NodeCapacity Capacity(int gpus, const std::string& model = "") {
    NodeCapacity capacity;
    for (int i = 0; i < gpus; ++i) AddGpu(capacity, model, 80_GiB);
    capacity.cpus = 8;
    capacity.memory = 64_GiB;
    return capacity;
  }
  std::vector<JobId> Decide() {
    return scheduler.Decide(now, [](JobId entry) { return entry; }).jobs;
  }
};

TEST(IdleGpus, GpusOfAnActiveReservationBelongToItsOwner) {
  Machines world;
  const auto advance = world.scheduler.Reserve(3, "", "ada", world.now, world.now + 1h, world.now);
  ASSERT_TRUE(advance);
  world.scheduler.Reserve(1, "", "eve", world.now + 2h, world.now + 3h, world.now);
  const IdleGpus idle(world.scheduler, world.now);
  EXPECT_EQ(idle.free(1).size(), 1);
  EXPECT_EQ(idle.reserved(1), GpuSet::Of({0, 1, 2}));
  EXPECT_EQ(idle.AdvanceReservationOf(1, 1), advance);
  EXPECT_FALSE(idle.AdvanceReservationOf(1, 3));
  EXPECT_EQ(idle.free_count(), 3);
  EXPECT_EQ(idle.reserved_count(), 3);
  EXPECT_EQ(IdleGpus(world.scheduler, world.now + 1h).free_count(), 6) << "it is over";
  const auto places = PlacesOfReservation(world.scheduler, *advance);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].node, 1U);
  EXPECT_EQ(places[0].gpus, GpuSet::Of({0, 1, 2}));
}

TEST(IdleGpus, GpusOfAnExclusiveNodeBelongToItsJob) {
  Machines world;
  PoolRow whole;
  whole.name = "whole";
  whole.nodes = {"n1"};
  whole.is_exclusive = true;
  world.scheduler.SetPools({whole});
  WaitingEntry entry = World::Job(1, 0);
  entry.pool = "whole";
  world.Submit(entry);
  ASSERT_EQ(world.Decide(), std::vector<JobId>{JobId(1)});
  const IdleGpus idle(world.scheduler, world.now);
  EXPECT_EQ(idle.AloneOn(1), JobId(1));
  EXPECT_FALSE(idle.AloneOn(2));
  EXPECT_EQ(idle.unused(1).size(), 4);
  EXPECT_EQ(idle.free_count(), 2);
  world.scheduler.Finish(JobId(1));
  EXPECT_EQ(IdleGpus(world.scheduler, world.now).free_count(), 6);
}

}  // namespace idle_gpus_test
}  // namespace divvy
