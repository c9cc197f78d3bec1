// Advance reservations in the controller: made ahead of time, closed to others, restored after a restart.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/controller/controller_machines_test_world.h"

namespace divvy {
namespace controller_reservations_test {

using std::chrono::hours;
using std::chrono::minutes;

class Reservations : public ::testing::Test {
 protected:
  Reservations() : world_(4) { root_.is_admin = true, root_.user = {0, 0, "root"}; }

  GpuReservation Asked(int gpus, Duration ahead, Every every = Every::kOnce) {
    GpuReservation asked;
    asked.gpus = gpus;
    asked.user = "ada";
    asked.start = world_.now_ + ahead;
    asked.duration = hours(2);
    asked.every = every;
    return asked;
  }
  std::string Reserve(GpuReservation asked) {
    const auto made = world_.controller_.Reserve(std::move(asked), root_, world_.now_);
    return made ? "" : made.error().message;
  }
  static JobId Submit(World& world, const std::string& user, int gpus, Duration limit) {
    JobSpec spec;
    spec.command = {"true"};
    spec.request.gpus = gpus;
    spec.time_limit = limit;
    Caller caller;
    caller.user = {user == "ada" ? 1000 : 1001, 1000, user};
    const auto done = world.controller_.Submit(std::move(spec), 0, caller, world.now_, World::NoHistory());
    EXPECT_TRUE(done);
    return done ? done->id : JobId();
  }
  JobId Submit(const std::string& user, int gpus, Duration limit) { return Submit(world_, user, gpus, limit); }

  World world_;
  Caller root_;
};

TEST_F(Reservations, OnlyAdministratorsCreateThemAndTheirOwnerMayCancel) {
  EXPECT_FALSE(world_.controller_.Reserve(Asked(2, hours(1)), world_.ada_, world_.now_));
  ASSERT_EQ(Reserve(Asked(2, hours(1))), "");
  Caller bob;
  bob.user = {1001, 1001, "bob"};
  EXPECT_FALSE(world_.controller_.CancelReservation("1", bob, world_.now_));
  EXPECT_TRUE(world_.controller_.CancelReservation("1", world_.ada_, world_.now_));
}

TEST_F(Reservations, BeforeAReservationOnlyJobsThatEndInTimeStart) {
  ASSERT_EQ(Reserve(Asked(4, hours(1))), "");
  const JobId endless = Submit("bob", 1, Duration(0)), longer = Submit("bob", 1, hours(3)),
              quick = Submit("bob", 1, minutes(50));
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector<JobId>{quick});
  world_.Exit(quick, 0);
  world_.now_ += hours(1);
  const JobId own = Submit("ada", 2, hours(1)), too_long = Submit("ada", 1, hours(3));
  EXPECT_EQ(World::Launched(world_.Turn()), std::vector<JobId>{own});
  EXPECT_EQ(world_.StateOf(too_long), JobState::kQueued) << "it would overrun it";
  world_.Exit(own, 0);
  world_.now_ += hours(2);
  const auto after = World::Launched(world_.Turn());
  for (const JobId job : {endless, longer, too_long})
    EXPECT_TRUE(std::find(after.begin(), after.end(), job) != after.end()) << job.value();
  EXPECT_TRUE(world_.controller_.reservations().all().empty()) << "it is over";
}

TEST_F(Reservations, AnActiveReservationNamesItsGpusAndBlocksOtherJobs) {
  ASSERT_EQ(Reserve(Asked(3, minutes(0))), "");
  const auto occurrences =
      world_.controller_.OccurrencesAhead(world_.controller_.reservations().all().at(1), world_.now_);
  ASSERT_EQ(occurrences.size(), 1U);
  ASSERT_EQ(occurrences[0].places.size(), 1U);
  EXPECT_EQ(occurrences[0].places[0].gpus, GpuSet::Of({0, 1, 2}));
  const JobId others = Submit("bob", 2, hours(1)), own = Submit("ada", 4, hours(3));
  world_.Turn();
  EXPECT_EQ(world_.controller_.WaitingReason(*world_.controller_.Find(others)),
            "needs 2 GPUs; 3 of the 4 free GPUs (GPUs 0-2) are reserved for user ada for 2 h more");
  EXPECT_EQ(world_.controller_.WaitingReason(*world_.controller_.Find(own)),
            "needs 4 GPUs; 3 of the 4 free GPUs (GPUs 0-2) are reserved for user ada for 2 h more; a job of its owner "
            "must end by then");
}

TEST_F(Reservations, TheErrorForTooManyGpusIsTheSameForAnyCount) {
  Machines many(1, 8, 4);
  for (const int gpus : {9, 99, 1'000'000}) {
    const auto made = many.controller_.Reserve(Asked(gpus, hours(1)), root_, many.now_);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message,
              "a reservation is on one node, and the largest that accepts work has 8 GPUs; reserve " +
                  std::to_string(gpus) + " GPUs in parts of at most 8");
  }
}

TEST_F(Reservations, WithoutRoomTheErrorNamesTheJobsInTheWay) {
  Submit("bob", 2, Duration(0));
  Submit("bob", 1, hours(2));
  world_.Turn();
  EXPECT_EQ(
      Reserve(Asked(2, hours(1))),
      "there is no room for 2 GPUs in that time: of 4 that accept work, 1 run jobs whose time limits end after it "
      "begins, "
      "2 run jobs without a time limit (job 1, 2)");
  EXPECT_EQ(Reserve(Asked(2, hours(3))), "") << "one of them has ended by then";
  EXPECT_EQ(Reserve(Asked(1, hours(3))),
            "there is no room for 1 GPU in that time: of 4 that accept work, 2 are reserved, 2 run jobs without a time "
            "limit (job 1)");
  EXPECT_EQ(world_.controller_.reservations().all().size(), 1u);
}

TEST_F(Reservations, MoreGpusThanAnyNodeHasAreRefused) {
  ASSERT_TRUE(world_.controller_.Restrict(GpuSet::FirstN(3), root_));
  EXPECT_EQ(Reserve(Asked(4, hours(1))),
            "a reservation is on one node, and the largest that accepts work has 3 GPUs; reserve 4 GPUs in parts of at "
            "most 3");
}

TEST_F(Reservations, RecurringReservationsAreMadeForTheNextDays) {
  ASSERT_EQ(Reserve(Asked(4, hours(1), Every::kDay)), "");
  const GpuReservation& daily = world_.controller_.reservations().all().at(1);
  auto occurrences = world_.controller_.OccurrencesAhead(daily, world_.now_);
  ASSERT_EQ(occurrences.size(), 8u);
  EXPECT_TRUE(
      std::all_of(occurrences.begin(), occurrences.end(), [](const auto& occurrence) { return occurrence.is_held; }));
  world_.Turn();
  // Two days later, moving the clock from one requested wake-up to the next.
  for (const Time end = world_.now_ + hours(48); world_.now_ < end;) {
    world_.now_ = std::min(end, world_.controller_.next_wakeup());
    world_.Turn();
  }
  occurrences = world_.controller_.OccurrencesAhead(world_.controller_.reservations().all().at(1), world_.now_);
  ASSERT_EQ(occurrences.size(), 8u);
  EXPECT_TRUE(
      std::all_of(occurrences.begin(), occurrences.end(), [](const auto& occurrence) { return occurrence.is_held; }));
}

TEST_F(Reservations, ARestartPlacesReservationsAroundRunningJobs) {
  ASSERT_EQ(Reserve(Asked(2, Duration(0))), "");
  const JobId filler = Submit("bob", 1, hours(1));
  world_.Turn();
  const JobId own = Submit("ada", 1, hours(1));
  Effects effects = world_.Turn();
  ASSERT_EQ(world_.StateOf(own), JobState::kStarting);
  World other(4);
  other.now_ = world_.now_ + minutes(1);
  ReservationRegistry registry;
  const auto setting = registry.Add(world_.controller_.reservations().all().at(1));
  other.controller_.Load(World::Stored({*world_.controller_.Find(filler), *world_.controller_.Find(own)}), {setting},
                         10, 2, World::NoHistory());
  const JobId first = Submit(other, "bob", 1, minutes(30)), second = Submit(other, "bob", 1, minutes(30));
  EXPECT_EQ(World::Launched(other.Turn()), std::vector<JobId>{first}) << "one GPU is nobody's";
  EXPECT_EQ(other.StateOf(second), JobState::kQueued);
  const JobId more = Submit(other, "ada", 1, minutes(30));
  EXPECT_EQ(World::Launched(other.Turn()), std::vector<JobId>{more});
}

TEST_F(Reservations, AnActiveReservationStaysOnItsNodeAcrossARestart) {
  Machines before(2, 4, 4);
  const JobId filler = Submit(before, "bob", 2, Duration(0));
  before.Turn();
  ASSERT_EQ(before.Of(filler).node, "");
  ASSERT_TRUE(before.controller_.Reserve(Asked(3, Duration(0)), root_, before.now_));
  before.Turn();
  ReservationRegistry registry;
  const auto setting = registry.Add(before.controller_.reservations().all().at(1));
  Machines after(0);
  for (const std::string name : {"n1", "n2"}) after.controller_.OnNodeRow(MachineRow(name, 4));
  after.controller_.Load({}, {setting}, 10, 2, World::NoHistory());
  const auto kept_on = [&] {
    after.Turn();
    const auto occurrences =
        after.controller_.OccurrencesAhead(after.controller_.reservations().all().at(1), after.now_);
    return occurrences.at(0).places.empty() ? "nowhere" : after.controller_.NodeName(occurrences[0].places[0].node);
  };
  EXPECT_EQ(kept_on(), "n1") << "nothing was heard from it yet";
  after.controller_.OnNodeReconciled("n2");
  after.controller_.OnNodeReconciled("n1");
  EXPECT_EQ(kept_on(), "n1");
  const JobId other = Submit(after, "bob", 2, minutes(30)), waits = Submit(after, "bob", 3, minutes(30));
  after.Turn();
  const JobId own = Submit(after, "ada", 3, minutes(30));
  after.Turn();
  EXPECT_EQ(after.Of(other).node, "n2");
  EXPECT_EQ(after.StateOf(waits), JobState::kQueued);
  EXPECT_EQ(after.Of(own).node, "n1");
}

TEST_F(Reservations, ARestartPlacesFutureReservationsAroundActiveOnes) {
  const JobId filler = Submit("bob", 2, Duration(0));
  world_.Turn();
  ASSERT_EQ(Reserve(Asked(2, hours(20))), "") << "on the two that the job leaves";
  world_.Exit(filler, 0);
  world_.Turn();
  GpuReservation now = Asked(2, Duration(0));
  now.duration = hours(48);
  ASSERT_EQ(Reserve(now), "");
  world_.Turn();
  TeamChange vision;
  vision.name = "vision";
  vision.is_new = true;
  ASSERT_TRUE(world_.controller_.SetTeam(vision, root_, world_.now_));
  world_.Turn();
  GpuSet all;
  for (const std::uint64_t number : {1U, 2U}) {
    const auto occurrences =
        world_.controller_.OccurrencesAhead(world_.controller_.reservations().all().at(number), world_.now_);
    ASSERT_FALSE(occurrences.at(0).places.empty());
    EXPECT_TRUE((all & occurrences[0].places[0].gpus).empty()) << "both have the same GPUs";
    all = all | occurrences[0].places[0].gpus;
  }
  EXPECT_EQ(all.size(), 4);
}

TEST_F(Reservations, ReservationsSurviveATeamChange) {
  ASSERT_EQ(Reserve(Asked(4, hours(1))), "");
  TeamChange vision;
  vision.name = "vision";
  vision.is_new = true;
  ASSERT_TRUE(world_.controller_.SetTeam(vision, root_, world_.now_));
  Submit("bob", 1, hours(3));
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
}

}  // namespace controller_reservations_test
}  // namespace divvy
