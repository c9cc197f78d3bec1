// Array elements that never get records of their own: jobs that depend on them must learn how they ended.
#include <gtest/gtest.h>

#include <optional>

#include "control/controller/controller_test_world.h"
#include "model/same_element.h"

namespace divvy {
namespace controller_elements_test {

Dependency AfterElement(DependencyKind kind, JobId array, std::uint32_t element) {
  Dependency dependency;
  dependency.kind = kind;
  dependency.job = array;
  dependency.element = element;
  return dependency;
}

Dependency AfterJob(DependencyKind kind, JobId job) {
  Dependency dependency;
  dependency.kind = kind;
  dependency.job = job;
  return dependency;
}

TEST(ArrayElements, CancellingAnArrayLetsItsDependentsStart) {
  World world(1);
  const JobId blocker = world.Submit(1);
  const JobId array = world.Submit(1, 3);
  const JobId waiting = world.Submit(0, 0, {AfterElement(DependencyKind::kAfterAny, array, 1)});
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(array, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{waiting});
  EXPECT_EQ(world.StateOf(blocker), JobState::kStarting);
}

TEST(ArrayElements, CancellingAnArrayEndsJobsThatNeedItsSuccess) {
  World world(1);
  world.Submit(1);
  const JobId array = world.Submit(1, 3);
  const JobId waiting = world.Submit(0, 0, {AfterElement(DependencyKind::kAfterOk, array, 1)});
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(array, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(World::EndOf(world.Turn(), waiting), JobState::kCancelled);
}

// Such a dependency has no target, so it would never be decided.
TEST(ArrayElements, ADependencyOnElementsOfAnElementIsRefused) {
  World world(1);
  world.Submit(1);
  const JobId array = world.Submit(1, 3);
  JobSpec spec;
  spec.command = {"true"};
  spec.dependencies = {AfterElement(DependencyKind::kAfterAny, JobId(array.value() + 1), 1)};
  const auto nothing = [](JobId) -> std::optional<JobRecord> { return std::nullopt; };
  const auto refused = world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, nothing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "dependency on 3_1: job 3 is an element of array 2 and has no elements itself");
}

// For a waiting element the daemon returns the element as it would be; that is not an end.
TEST(ArrayElements, AWaitingElementDoesNotCountAsEndedForDependencies) {
  World world(1);
  world.Submit(1);
  const JobId array = world.Submit(1, 3);
  world.Turn();
  JobSpec spec;
  spec.command = {"true"};
  spec.dependencies = {AfterElement(DependencyKind::kAfterAny, array, 1)};
  const auto alive = [&](JobId id) -> std::optional<JobRecord> {
    JobRecord record;
    record.id = id;
    record.array = array;
    record.array_index = record.array_ordinal = 1;
    return record;
  };
  const auto waiting = world.controller_.Submit(spec, 0, world.ada_, world.now_, alive);
  ASSERT_TRUE(waiting);
  ASSERT_TRUE(world.controller_.Cancel(array, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{waiting->id});
}

TEST(ArrayElements, TheFirstElementStartIsLoggedOnceForTheArray) {
  World world(1);
  const JobId array = world.Submit(1, 3);
  const auto is_of_array = [&](const Batch::HistoryLine& line) { return line.job == array; };
  const Effects first = world.Turn();
  ASSERT_EQ(std::ranges::count_if(first.batch.history, is_of_array), 1);
  EXPECT_EQ(std::ranges::find_if(first.batch.history, is_of_array)->text, "its first element started");
  world.Exit(ElementId(array, 0), 0);
  const Effects second = world.Turn();
  ASSERT_EQ(World::Launched(second), std::vector<JobId>{ElementId(array, 1)});
  EXPECT_EQ(std::ranges::count_if(second.batch.history, is_of_array), 0);
}

TEST(ArrayElements, ADependencyOnAnElementIdWorksLikeOneOnTheElement) {
  World world(1);
  world.Submit(1);
  const JobId array = world.Submit(1, 3);
  const JobId waiting = world.Submit(0, 0, {AfterJob(DependencyKind::kAfterAny, ElementId(array, 1))});
  world.Turn();
  ASSERT_TRUE(world.controller_.Cancel(array, 0, Duration(-1), "", world.ada_, world.now_));
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{waiting});
}

TEST(ArrayElements, WaitForTheElementWithTheSameIndex) {
  World world(4);
  const JobId first = world.Submit(1, 3);
  const JobId second = world.Submit(1, 4, {AfterElement(DependencyKind::kAfterOk, first, kSameElement)});
  ASSERT_EQ(World::Launched(world.Turn()).size(), 3U) << "those of the first array";
  world.Exit(ElementId(first, 1), 0);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{ElementId(second, 1)});
  world.Exit(ElementId(first, 0), 1);
  EXPECT_EQ(World::EndOf(world.Turn(), ElementId(second, 0)), JobState::kCancelled);
  world.Exit(ElementId(first, 2), 0);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::Launched(effects), std::vector<JobId>{ElementId(second, 2)});
  EXPECT_EQ(World::EndOf(effects, ElementId(second, 3)), JobState::kCancelled)
      << "it has no counterpart, so it waits for the success of all";
}

TEST(ArrayElements, CannotWaitOneByOneInALargeArray) {
  World world(1);
  JobSpec spec;
  spec.command = {"true"};
  const JobId first = world.Submit(1, 3);
  spec.dependencies = {AfterElement(DependencyKind::kAfterOk, first, kSameElement)};
  const auto refused = world.controller_.Submit(spec, 5000, world.ada_, world.now_, World::NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("aftercorr is possible for arrays of at most 4096 elements"),
            std::string::npos);
  spec.dependencies.resize(5, spec.dependencies.front());
  const auto copies = world.controller_.Submit(spec, 4000, world.ada_, world.now_, World::NoHistory());
  ASSERT_FALSE(copies) << "each element would have five dependencies";
  EXPECT_NE(copies.error().message.find("at most 16384 elements times dependencies, not 4000 x 5"), std::string::npos);
}

TEST(ArrayElements, AreHeldAndReleasedTogetherWhenEachWaitsOnItsOwn) {
  World world(4);
  const JobId first = world.Submit(1, 2);
  const JobId second = world.Submit(1, 2, {AfterElement(DependencyKind::kAfterOk, first, kSameElement)});
  world.Turn();
  const auto hold = [&] {
    const auto held = world.controller_.Hold(second, world.ada_, world.now_);
    return held ? *held : held.error().message;
  };
  EXPECT_EQ(hold(), "held");
  EXPECT_EQ(world.StateOf(ElementId(second, 0)), JobState::kHeld);
  EXPECT_EQ(world.StateOf(ElementId(second, 1)), JobState::kHeld);
  EXPECT_EQ(hold(), "was already held");
  world.Exit(ElementId(first, 0), 0);
  EXPECT_TRUE(World::Launched(world.Turn()).empty());
  const auto released = world.controller_.Release(second, kNoTime, world.ada_, world.now_);
  ASSERT_TRUE(released) << released.error().message;
  EXPECT_EQ(*released, "released");
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{ElementId(second, 0)});
  world.Exit(ElementId(first, 1), 0);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{ElementId(second, 1)});
  EXPECT_NE(hold().find("cannot be held"), std::string::npos) << "both run";
}

// The lookups go to the store, one by one, while everything else waits.
TEST(ArrayElements, DependenciesOnUnknownJobsCostFewLookups) {
  World world(1);
  const JobId array = world.Submit(1, 200);
  ASSERT_TRUE(world.controller_.Cancel(array, 0, Duration(-1), "", world.ada_, world.now_));
  world.Turn();
  std::size_t lookups = 0;
  const auto refusal = [&](std::uint64_t first, std::size_t many) {
    JobSpec spec;
    spec.command = {"true"};
    for (std::size_t i = 0; i < many; ++i)
      spec.dependencies.push_back(AfterJob(DependencyKind::kAfterAny, JobId(first + i)));
    lookups = 0;
    const auto counted = [&](JobId) -> std::optional<JobRecord> {
      ++lookups;
      return std::nullopt;
    };
    const auto made = world.controller_.Submit(std::move(spec), 0, world.ada_, world.now_, counted);
    return made ? "" : made.error().message;
  };
  EXPECT_NE(refusal(100, 100).find("there is no such job"), std::string::npos);
  EXPECT_LE(lookups, 65U);
  EXPECT_NE(refusal(5000, 1000).find("there is no such job"), std::string::npos) << "such ids were never given";
  EXPECT_LE(lookups, 1U);
  EXPECT_NE(refusal(1, 1001).find("1001 are too many; at most 1000 are allowed"), std::string::npos);
  EXPECT_EQ(lookups, 0U);
}

TEST(ArrayElements, AreAllCountedWhenTheirDependencyFails) {
  World world(1);
  const JobId first = world.Submit(1);
  const JobId array = world.Submit(1, 3, {AfterJob(DependencyKind::kAfterOk, first)});
  world.Turn();
  world.Exit(first, 1);
  const Effects effects = world.Turn();
  ASSERT_EQ(World::EndOf(effects, array), JobState::kCancelled);
  for (const JobRecord& record : effects.finished) {
    if (record.id != array) continue;
    EXPECT_EQ(record.array_cancelled, 3U);
    EXPECT_TRUE(record.array_waiting.empty());
  }
}

TEST(ArrayElements, AnElementWithChangedDependenciesSurvivesAFailedDependencyOfTheRest) {
  World world(2);
  const JobId first = world.Submit(1);
  const JobId array = world.Submit(1, 3, {AfterJob(DependencyKind::kAfterOk, first)});
  world.Turn();
  JobChanges changes;
  changes.dependencies.emplace();
  const JobId element = ElementId(array, 0);
  ASSERT_TRUE(world.controller_.Update(element, changes, world.ada_, world.now_, World::NoHistory()));
  ASSERT_EQ(World::Launched(world.Turn()), std::vector<JobId>{element});
  world.Exit(first, 1);
  EXPECT_EQ(World::EndOf(world.Turn(), array), std::nullopt) << "one of its elements runs";
  world.Exit(element, 0);
  const Effects effects = world.Turn();
  EXPECT_EQ(World::EndOf(effects, array), JobState::kCancelled);
  for (const JobRecord& record : effects.finished) {
    if (record.id != array) continue;
    EXPECT_EQ(record.array_succeeded + record.array_cancelled, 3U);
  }
}

// As in Slurm, `after` an array waits until its last element has started, and delays count from there.
TEST(ArrayElements, AfterAnArrayStartsOnceItsLastElementHasStarted) {
  World world(1);
  const JobId array = world.Submit(1, 2);
  Dependency delayed = AfterJob(DependencyKind::kAfter, array);
  delayed.delay = std::chrono::minutes(5);
  const JobId next = world.Submit(0, 0, {AfterJob(DependencyKind::kAfter, array)});
  const JobId later = world.Submit(0, 0, {delayed});
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{ElementId(array, 0)});
  EXPECT_EQ(world.controller_.Find(array)->started, world.now_);
  world.controller_.OnStarted(ElementId(array, 0), 1, world.now_);
  EXPECT_TRUE(World::Launched(world.Turn()).empty()) << "its second one waits";
  world.now_ += std::chrono::hours(1);
  world.Exit(ElementId(array, 0), 0);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{ElementId(array, 1)});
  const Time last = world.now_;
  world.controller_.OnStarted(ElementId(array, 1), 1, last);
  EXPECT_EQ(World::Launched(world.Turn()), std::vector<JobId>{next});
  EXPECT_EQ(world.controller_.Find(later)->begin, last + std::chrono::minutes(5));
  // The same applies to a dependency that is added when all have started.
  const JobId after_that = world.Submit(0, 0, {delayed});
  EXPECT_EQ(world.controller_.Find(after_that)->begin, last + std::chrono::minutes(5));
}

}  // namespace controller_elements_test
}  // namespace divvy
