// Compares the forecast of a submission with what then happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "control/books/record_parts.h"
#include "control/controller/controller_test_world.h"
#include "engine/scheduler/explain.h"
#include "model/same_element.h"

namespace divvy {
namespace controller_forecast_test {

using std::chrono::hours;
using std::chrono::minutes;

JobSpec SpecOf(int gpus, Duration limit) {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "job";
  spec.request.gpus = gpus;
  spec.time_limit = limit;
  return spec;
}

TEST(Forecast, UsesTheGroupLimitOfTheSubmission) {
  World world(4);
  JobSpec spec = SpecOf(1, hours(1));
  spec.group = "eval";
  ASSERT_TRUE(world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory()));
  world.Turn();
  JobSpec next = spec;
  next.group_limit = 1;
  const auto waits = world.controller_.Foresee(next, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->start, world.now_ + hours(1));
  EXPECT_EQ(world.controller_.scheduler().group_limit(GroupNameOf("eval", "ada")), 0) << "nothing was submitted";
  const auto free = world.controller_.Foresee(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(free);
  EXPECT_EQ(free->start, world.now_);

  ASSERT_TRUE(world.controller_.Submit(next, 0, world.ada_, world.now_, World::NoHistory()));
  world.Turn();
  next.group_limit = 3;
  const auto wider = world.controller_.Foresee(next, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(wider);
  EXPECT_EQ(wider->start, world.now_) << "the cap is raised for all of the group";
  EXPECT_EQ(world.controller_.scheduler().group_limit(GroupNameOf("eval", "ada")), 1) << "and stays as it was";
  const Effects effects = world.Turn();
  EXPECT_TRUE(effects.commands.empty());
  EXPECT_TRUE(effects.batch.settings.empty());
}

TEST(Forecast, UsesAnArraysLimitAndLeavesNoLimitBehind) {
  World world(4);
  JobSpec spec = SpecOf(1, hours(1));
  spec.array = ArraySpec{IndexRanges(0, 9), 2};
  const auto foreseen = world.controller_.Foresee(spec, 10, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(foreseen);
  EXPECT_EQ(foreseen->start, world.now_);
  EXPECT_EQ(world.controller_.scheduler().group_limit(ArrayGroupName(foreseen->id)), 0);
  world.Turn();
  EXPECT_EQ(world.controller_.CheckInvariants(), "");
}

TEST(Forecast, MakesNoRecordsOfElementsThatWaitOneByOne) {
  World world(4);
  const JobId first = world.Submit(1, 2);
  world.Turn();
  const std::size_t live = world.controller_.live().size();
  JobSpec spec = SpecOf(1, hours(1));
  spec.dependencies = {Dependency{.kind = DependencyKind::kAfterOk, .job = first, .element = kSameElement}};
  const auto waits = world.controller_.Foresee(spec, 2, world.ada_, world.now_, World::NoHistory());
  ASSERT_TRUE(waits) << waits.error().message;
  EXPECT_NE(waits->start, world.now_);
  EXPECT_NE(waits->basis, "it waits for an event that can no longer happen");
  EXPECT_EQ(world.controller_.live().size(), live);
  EXPECT_TRUE(world.Turn().batch.inserts.empty());
  // One of the elements fails, so the whole array does. The counterpart of the other one may start.
  world.Exit(ElementId(first, 0), 0);
  world.Exit(ElementId(first, 1), 1);
  const std::vector<JobRecord> ended = world.Turn().finished;
  const auto history = [&](JobId id) -> std::optional<JobRecord> {
    const auto at = std::ranges::find(ended, id, &JobRecord::id);
    return at == ended.end() ? std::nullopt : std::optional(*at);
  };
  const auto starts = world.controller_.Foresee(spec, 2, world.ada_, world.now_, history);
  ASSERT_TRUE(starts) << starts.error().message;
  EXPECT_EQ(starts->start, world.now_) << starts->basis;
}

// Small worlds with all kinds of limits. A job that is predicted to start at once starts where predicted. For a job
// predicted to wait, `why` says the same right after its submission.
TEST(Forecast, MatchesWhyAfterTheSubmission) {
  int starts = 0;
  int waits = 0;
  int others = 0;  // The estimate differed after the decision.
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 draws(seed);
    const auto below = [&](int n) { return static_cast<int>(draws() % static_cast<unsigned>(n)); };
    World world(4);
    for (int step = 0; step < 12; ++step) {
      JobSpec spec = SpecOf(1 + below(3), minutes(10 * (1 + below(6))));
      if (below(3) == 0) {
        spec.group = "eval";
        if (below(2) == 0) spec.group_limit = 1 + below(2);
      }
      std::uint64_t elements = 0;
      if (below(3) == 0) {
        elements = static_cast<std::uint64_t>(1 + below(4));
        spec.array = ArraySpec{IndexRanges(0, static_cast<std::uint32_t>(elements - 1)), below(3)};
      }
      const auto foreseen = world.controller_.Foresee(spec, elements, world.ada_, world.now_, World::NoHistory());
      ASSERT_TRUE(foreseen);
      const auto made = world.controller_.Submit(spec, elements, world.ada_, world.now_, World::NoHistory());
      ASSERT_TRUE(made);
      EXPECT_EQ(made->id, foreseen->id);
      const std::string where = "seed " + std::to_string(seed) + ", step " + std::to_string(step);
      const auto why = [&] {
        return Explain(world.controller_.scheduler(), made->id, world.now_, world.controller_.run_spread());
      };
      const core::Explanation before = why();
      const JobId first = elements > 0 ? ElementId(made->id, 0) : made->id;
      const bool has_started = std::ranges::count(World::Launched(world.Turn()), first) > 0;
      EXPECT_EQ(has_started, foreseen->start == world.now_) << where;
      if (has_started) {
        ++starts;
        ASSERT_EQ(foreseen->allocations.size(), 1u) << where;
        EXPECT_EQ(world.controller_.Find(first)->gpus, foreseen->allocations[0].gpus) << where;
      } else if (!before.blockers.empty()) {
        ++waits;
        EXPECT_EQ(foreseen->start, before.start.typical) << where;
        EXPECT_EQ(foreseen->basis, before.start.basis) << where;
        // The decision may have made reservations meanwhile, which changes estimates.
        others += foreseen->start == why().start.typical ? 0 : 1;
      }
      if (below(3) == 0) world.now_ += minutes(10 * below(4));
      for (const auto& [id, running] : world.controller_.scheduler().running_jobs()) {
        if (running.known_end > world.now_) continue;
        world.Exit(id, 0);
        world.Turn();
        break;
      }
    }
  }
  EXPECT_GT(starts, 50);
  EXPECT_GT(waits, 50);
  EXPECT_LT(others, waits / 20);
}

}  // namespace controller_forecast_test
}  // namespace divvy
