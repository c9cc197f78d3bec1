// Jobs with several components: one job, prepared and ended as a whole.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "control/controller/controller_machines_test_world.h"

namespace divvy {
namespace controller_components_test {

JobSpec Components(int first_gpus, std::vector<Component> others) {
  JobSpec spec;
  spec.command = {"train"};
  spec.request.gpus = first_gpus;
  spec.request.others = std::move(others);
  return spec;
}

Component WithGpus(int gpus, int nodes = 1) {
  Component one;
  one.gpus = gpus;
  one.nodes = one.tasks = nodes;
  return one;
}

TEST(Components, ComponentsArePreparedAndEndTogether) {
  Machines world(3, 4);
  const auto job =
      world.controller_.Submit(Components(4, {WithGpus(4, 2)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job->id), (Names{"n1", "n2", "n3"}));
  const std::vector<NodeAllocation> allocations = AllocationsOf(world.Of(job->id));
  ASSERT_EQ(allocations.size(), 3U);
  EXPECT_EQ(allocations[0].parts, (std::vector<ComponentAllocation>{{0, allocations[0].gpus, 1}}));
  EXPECT_EQ(allocations[1].parts, (std::vector<ComponentAllocation>{{1, allocations[1].gpus, 1}}));
  world.Prepare(job->id, allocations[0].node);
  world.Prepare(job->id, allocations[2].node);
  EXPECT_TRUE(Machines::Told<GoCommand>(world.Turn(), job->id).empty()) << "one is not ready";
  world.Prepare(job->id, allocations[1].node);
  EXPECT_EQ(Machines::Told<GoCommand>(world.Turn(), job->id).size(), 3U);
  world.controller_.OnStarted(job->id, 1, world.now_, allocations[0].node);
  // A node of the second component loses its part.
  world.End(job->id, allocations[2].node, 137);
  const Effects stopping = world.Turn();
  EXPECT_EQ(Machines::Told<StopCommand>(stopping, job->id), (Names{allocations[0].node, allocations[1].node}));
  EXPECT_EQ(world.controller_.scheduler().free_count(), 0) << "nothing is free before all have ended";
  world.End(job->id, allocations[0].node, 143);
  world.End(job->id, allocations[1].node, 143);
  EXPECT_EQ(World::EndOf(world.Turn(), job->id), JobState::kFailed);
  EXPECT_EQ(world.controller_.scheduler().free_count(), 12);
}

TEST(Components, ADependencyOnTheIdOfAComponentIsOneOnTheJob) {
  Machines world(1, 4);
  const auto job =
      world.controller_.Submit(Components(2, {WithGpus(1)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job);
  JobSpec next;
  next.command = {"true"};
  next.dependencies = {Dependency{.kind = DependencyKind::kAfterAny, .job = JobId(job->id.value() + 1)}};
  const auto waiting = world.controller_.Submit(next, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(waiting) << waiting.error().message;
  EXPECT_EQ(world.Of(waiting->id).dependencies.front().job, job->id);
  next.dependencies.front().job = JobId(job->id.value() + 9);
  EXPECT_FALSE(world.controller_.Submit(next, 0, world.ada_, world.now_, World::NoHistory())) << "no such job";
  // The job has ended, and only the history knows it.
  JobSpec array;
  array.command = {"true"};
  const auto given = world.controller_.Submit(array, 1000, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(given) << "ids up to 1000";
  ASSERT_TRUE(world.controller_.Cancel(given->id, 0, Duration(-1), "", world.ada_, world.now_));
  const auto history = [](JobId id) -> std::optional<JobRecord> {
    if (id != JobId(900)) return std::nullopt;
    JobRecord ended;
    ended.id = id;
    ended.state = JobState::kSucceeded;
    ended.request.others.resize(2);
    return ended;
  };
  next.dependencies.front().job = JobId(902);
  EXPECT_TRUE(world.controller_.Submit(next, 0, world.ada_, world.now_, history));
  next.dependencies.front().job = JobId(903);
  EXPECT_FALSE(world.controller_.Submit(next, 0, world.ada_, world.now_, history)) << "it has three components";
}

TEST(Components, ComponentsOnOneNodeAreAGangOfOne) {
  Machines world(1, 4);
  const auto job =
      world.controller_.Submit(Components(2, {WithGpus(1)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(job);
  EXPECT_EQ(Machines::Told<LaunchCommand>(world.Turn(), job->id), Names{"n1"});
  const std::vector<NodeAllocation> allocations = AllocationsOf(world.Of(job->id));
  ASSERT_EQ(allocations.size(), 1U);
  EXPECT_EQ(allocations[0].gpus.size(), 3);
  EXPECT_EQ(allocations[0].parts.size(), 2U);
  world.Prepare(job->id, "n1");
  EXPECT_EQ(Machines::Told<GoCommand>(world.Turn(), job->id), Names{"n1"});
  world.controller_.OnStarted(job->id, 1, world.now_, "n1");
  world.End(job->id, "n1", 0);
  EXPECT_EQ(World::EndOf(world.Turn(), job->id), JobState::kSucceeded);
}

TEST(Components, EachComponentTakesAnId) {
  Machines world(2, 4);
  const auto submit = [&](JobSpec spec) {
    return world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, World::NoHistory());
  };
  const auto job = submit(Components(1, {WithGpus(1), WithGpus(1)}));
  const auto next = submit(Components(1, {}));
  ASSERT_TRUE(job && next);
  EXPECT_EQ(next->id.value(), job->id.value() + 3);
}

TEST(Components, ComponentsThatNeverFitTogetherAreRefused) {
  Machines world(2, 4);
  const auto job = world.controller_.Submit(Components(3, {WithGpus(3), WithGpus(3)}), 0, world.ada_, world.now_,
                                            World::NoHistory());
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("fits alone"), std::string::npos) << job.error().message;
  // The components' requests cannot be changed afterwards.
  const auto fits =
      world.controller_.Submit(Components(3, {WithGpus(3)}), 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(fits);
  JobChanges changes;
  changes.gpus = 1;
  const auto changed = world.controller_.Update(fits->id, changes, world.ada_, world.now_, World::NoHistory());
  ASSERT_FALSE(changed);
  EXPECT_NE(changed.error().message.find("components"), std::string::npos) << changed.error().message;
}

}  // namespace controller_components_test
}  // namespace divvy
