#include "daemon/services/service_scaler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "daemon/services/service_checks.h"

namespace divvy {
namespace {

using Kind = ServiceAction::Kind;

/// A service in a world that does what it decides: jobs start at once, answer after a second, and end when stopped.
class ServiceWorld {
 public:
  explicit ServiceWorld(wire::ServiceSettings settings, bool has_fractions = false) {
    kept_.settings = std::move(settings);
    kept_.settings.name = "chat";
    wire::ServiceRevision first;
    first.number = 1;
    first.spec.command = {"serve"};
    if (has_fractions) first.spec.request.portion.request = GpuShare(GpuShare::kWhole / 2);
    kept_.revisions.push_back(first);
    kept_.target_revision = 1;
    scaler_ = std::make_unique<ServiceScaler>(kept_, now_);
    has_fractions_ = has_fractions;
  }

  void Second() {
    now_ += 1s;
    ServiceFacts facts;
    facts.now = now_;
    facts.stat_at = now_;
    facts.load = load_;
    facts.is_memory_short = is_memory_short_;
    for (const wire::ServiceReplica& replica : kept_.replicas) {
      ReplicaFacts& seen = facts.replicas[replica.number];
      seen.job = ended_.contains(replica.number) ? ReplicaFacts::Job::kEnded
                 : has_room_                     ? ReplicaFacts::Job::kRunning
                                                 : ReplicaFacts::Job::kWaiting;
      seen.end = "exited with code 1";
      seen.running_since = TimeFromSeconds(replica.since);
      seen.answers = !is_silent_ && !broken_.contains(replica.revision) && now_ - seen.running_since >= 1s;
      if (foreign_.contains(replica.number)) {
        seen.is_foreign = true;
        seen.answers = false;
      }
      seen.attempt = attempt_;
      seen.can_park = has_fractions_;
      seen.in_flight = busy_.contains(replica.number) ? 1 : 0;
    }
    for (const ServiceAction& action : scaler_->Step(facts)) Do(action);
    for (const wire::ServiceReplica& replica : kept_.replicas) {
      if (broken_.contains(replica.revision) && replica.state == "starting") ended_.insert(replica.number);
    }
    most_ = std::max(most_, Count("ready") + Count("starting"));
  }
  void Seconds(int count) {
    for (int i = 0; i < count; ++i) {
      Second();
      least_ready_ = std::min(least_ready_, Count("ready"));
    }
  }
  int Count(std::string_view state) const {
    return static_cast<int>(std::ranges::count(kept_.replicas, state, &wire::ServiceReplica::state));
  }
  void Update() {
    wire::ServiceRevision next = kept_.revisions.back();
    ++next.number;
    next.was_healthy = false;
    next.note.clear();
    kept_.revisions.push_back(next);
    kept_.target_revision = next.number;
    scaler_->OnNewTarget("update", now_);
    least_ready_ = Count("ready");
  }

  /// Revision 2 gets this share.
  void StartCanary(double share) {
    wire::ServiceRevision next = kept_.revisions.back();
    next.number = 2;
    next.was_healthy = false;
    kept_.revisions.push_back(next);
    kept_.canary_revision = 2;
    kept_.canary_share = share;
    scaler_->OnNewCanary("canary", now_);
    least_ready_ = Count("ready");
  }
  int ReadyOf(std::int64_t revision) const {
    return static_cast<int>(std::ranges::count_if(kept_.replicas, [&](const wire::ServiceReplica& replica) {
      return replica.revision == revision && replica.state == "ready";
    }));
  }

  wire::KeptService kept_;
  std::unique_ptr<ServiceScaler> scaler_;
  Time now_ = Time(1'000'000s);
  std::optional<double> load_ = 0;
  bool has_fractions_ = false;
  bool has_room_ = true;
  bool is_memory_short_ = false;
  bool is_silent_ = false;  // No replica ever answers.
  std::string stop_reason_;
  std::uint32_t attempt_ = 0;  // The launch generation of all jobs.
  Status parked_;              // The answers to parking and waking.
  Status woken_;
  std::set<std::int64_t> foreign_;
  std::set<std::int64_t> ended_;
  std::set<std::int64_t> broken_;  // Revisions whose replicas end before they answer.
  std::set<std::int64_t> busy_;
  int most_ = 0;
  int least_ready_ = 1000;
  int starts_ = 0;
  int wakes_ = 0;
  int parks_ = 0;

 private:
  void Do(const ServiceAction& action) {
    if (action.kind == Kind::kStart) {
      ++starts_;
      kept_.replicas.push_back({JobId(static_cast<std::uint64_t>(100 + kept_.next_replica)), kept_.next_replica,
                                action.revision, 20'000, kept_.next_replica, "starting", ToSeconds(now_)});
      ++kept_.next_replica;
    } else if (action.kind == Kind::kStop) {
      EXPECT_FALSE(busy_.contains(action.replica)) << "a replica with requests was stopped";
      ended_.insert(action.replica);
      stop_reason_ = action.reason;
    } else if (action.kind == Kind::kPark) {
      ++parks_;
      scaler_->OnParked(action.replica, parked_, now_);
    } else {
      ++wakes_;
      scaler_->OnWoken(action.replica, woken_, now_ + 500ms);
    }
  }
};

wire::ServiceSettings Replicas(std::int64_t least, std::int64_t most) {
  wire::ServiceSettings settings;
  settings.min_replicas = least;
  settings.max_replicas = most;
  settings.concurrency = 1;
  settings.idle_s = 30;
  settings.down_delay_s = 10;
  return settings;
}

TEST(ServiceScaler, StartsTheLeastReplicasWithoutLoad) {
  ServiceWorld world(Replicas(2, 4));
  world.Seconds(5);
  EXPECT_EQ(world.Count("ready"), 2);
  EXPECT_EQ(world.starts_, 2);
  EXPECT_EQ(world.scaler_->StateName(), "hot");
}

TEST(ServiceScaler, StartsNothingWithoutRequestsIfTheLeastIsZero) {
  ServiceWorld world(Replicas(0, 4));
  world.Seconds(20);
  EXPECT_EQ(world.starts_, 0);
  EXPECT_EQ(world.scaler_->StateName(), "cold");
}

TEST(ServiceScaler, FollowsTheLoadUpAndDownAndEndsAtZero) {
  ServiceWorld world(Replicas(0, 8));
  world.load_ = 6;
  world.Seconds(30);
  EXPECT_EQ(world.Count("ready"), 6);
  world.load_ = 1;
  world.Seconds(120);
  EXPECT_EQ(world.Count("ready"), 1);
  world.load_ = 0;
  world.Seconds(200);
  EXPECT_EQ(world.scaler_->StateName(), "cold");
  EXPECT_TRUE(world.kept_.replicas.empty());
}

TEST(ServiceScaler, DrainsBeforeItStops) {
  ServiceWorld world(Replicas(0, 1));
  world.load_ = 1;
  world.Seconds(5);
  world.busy_.insert(1);
  world.load_ = 0;
  world.Seconds(100);
  EXPECT_EQ(world.Count("draining"), 1);
  world.busy_.clear();
  world.Seconds(3);
  EXPECT_TRUE(world.kept_.replicas.empty());
}

TEST(ServiceScaler, ParksIdleReplicasAndWakesThemBeforeItStartsOthers) {
  ServiceWorld world(Replicas(0, 4), true);
  world.load_ = 2;
  world.Seconds(20);
  EXPECT_EQ(world.Count("ready"), 2);
  world.load_ = 0;
  world.Seconds(120);
  EXPECT_EQ(world.Count("parked"), 2);
  EXPECT_EQ(world.scaler_->StateName(), "parked");
  const int starts = world.starts_;
  world.load_ = 2;
  world.Seconds(2);
  EXPECT_GE(world.Count("ready"), 1);
  world.Seconds(60);
  EXPECT_EQ(world.wakes_, 2);
  EXPECT_EQ(world.Count("ready"), 2);
  EXPECT_EQ(world.starts_, starts);
  EXPECT_GT(world.scaler_->last_wake_s(), 0);
}

TEST(ServiceScaler, ParksAndWakesAgainAfterAFailureThatPasses) {
  ServiceWorld world(Replicas(1, 1), true);
  world.load_ = 1;
  world.Seconds(10);
  world.load_ = 0;
  world.parked_ = FailedPrecondition("the host has no memory");
  world.Seconds(60);
  EXPECT_GE(world.parks_, 1);
  EXPECT_EQ(world.Count("parked"), 0);
  world.parked_ = {};
  world.Seconds(70);
  EXPECT_EQ(world.Count("parked"), 1);
  world.woken_ = FailedPrecondition("another tenant has the memory");
  world.load_ = 1;
  world.Seconds(3);
  EXPECT_EQ(world.Count("ready"), 0) << "it gets no requests while it is not awake";
  world.woken_ = {};
  world.Seconds(5);
  EXPECT_EQ(world.Count("ready"), 1);
  EXPECT_EQ(world.starts_, 1);
}

TEST(ServiceScaler, ForgetsAReplicaWhoseJobWasNotStored) {
  ServiceWorld world(Replicas(1, 1));
  world.Second();
  ASSERT_EQ(world.kept_.replicas.size(), 1U);
  world.scaler_->OnStartLost(1);
  world.Seconds(5);
  EXPECT_EQ(world.starts_, 2);
  EXPECT_EQ(world.scaler_->Note(), "");
}

TEST(ServiceScaler, StopsParkedReplicasIfTheHostIsShortOfMemory) {
  ServiceWorld world(Replicas(1, 4), true);
  world.load_ = 3;
  world.Seconds(20);
  world.load_ = 0;
  world.Seconds(120);
  EXPECT_EQ(world.Count("parked"), 3);
  world.is_memory_short_ = true;
  world.Seconds(10);
  EXPECT_EQ(world.Count("parked"), 1) << "the least number stays";
}

TEST(ServiceScaler, RollsAnUpdateOutWithoutLosingCapacity) {
  ServiceWorld world(Replicas(4, 4));
  world.Seconds(5);
  world.Update();
  world.Seconds(30);
  EXPECT_EQ(world.Count("ready"), 4);
  EXPECT_GE(world.least_ready_, 4);
  EXPECT_LE(world.most_, 5);
  for (const wire::ServiceReplica& replica : world.kept_.replicas) EXPECT_EQ(replica.revision, 2);
}

TEST(ServiceScaler, RollsBackARevisionThatNeverBecomesReady) {
  ServiceWorld world(Replicas(2, 2));
  world.Seconds(5);
  world.broken_.insert(2);
  world.Update();
  world.Seconds(60);
  EXPECT_EQ(world.kept_.target_revision, 1);
  EXPECT_EQ(world.Count("ready"), 2);
  EXPECT_EQ(world.least_ready_, 2);
  EXPECT_NE(world.kept_.revisions.back().note, "");
  EXPECT_NE(world.scaler_->Note().find("revision 2 was rolled back to 1: replica"), std::string::npos);
}

TEST(ServiceScaler, GivesANewRevisionTheRoomOfAnOldReplica) {
  ServiceWorld world(Replicas(2, 2));
  world.Seconds(5);
  world.has_room_ = true;
  world.Update();
  world.Second();
  EXPECT_EQ(world.Count("draining"), 0);
  // The new replica waits for a GPU.
  ServiceFacts facts;
  for (int i = 0; i < 15; ++i) {
    world.now_ += 1s;
    facts.now = facts.stat_at = world.now_;
    facts.load = 0;
    for (const wire::ServiceReplica& replica : world.kept_.replicas) {
      facts.replicas[replica.number].job =
          replica.revision == 2 ? ReplicaFacts::Job::kWaiting : ReplicaFacts::Job::kRunning;
    }
    static_cast<void>(world.scaler_->Step(facts));
  }
  EXPECT_EQ(world.Count("draining"), 1);
}

TEST(ServiceScaler, ACanaryHasReplicasForItsShareBesideTheOthers) {
  ServiceWorld world(Replicas(1, 8));
  world.load_ = 4;
  world.Seconds(10);
  world.StartCanary(0.3);
  world.Seconds(10);
  EXPECT_EQ(world.ReadyOf(1), 4);
  EXPECT_EQ(world.ReadyOf(2), 2) << "0.3 of 4, rounded up";
  EXPECT_EQ(world.scaler_->StateName(), "canary");
  world.load_ = 0;
  world.Seconds(60);
  EXPECT_EQ(world.ReadyOf(2), 0) << "a canary is not kept without requests";
  world.load_ = 1;
  world.Seconds(10);
  EXPECT_EQ(world.ReadyOf(1), 1);
  EXPECT_EQ(world.ReadyOf(2), 1);
}

TEST(ServiceScaler, APromotedCanaryTakesOver) {
  ServiceWorld world(Replicas(1, 8));
  world.load_ = 4;
  world.Seconds(10);
  world.StartCanary(0.5);
  world.Seconds(10);
  world.least_ready_ = 1000;
  world.scaler_->EndCanary("promoted", world.now_);
  world.kept_.target_revision = 2;
  world.scaler_->OnNewTarget("promoted", world.now_);
  world.Seconds(20);
  EXPECT_EQ(world.ReadyOf(1), 0);
  EXPECT_EQ(world.ReadyOf(2), 4);
  EXPECT_GE(world.least_ready_, 4) << "no capacity is lost meanwhile";
}

TEST(ServiceScaler, ACanaryThatNeverBecomesReadyIsRolledBack) {
  ServiceWorld world(Replicas(1, 8));
  world.load_ = 4;
  world.Seconds(10);
  world.StartCanary(0.1);
  world.broken_.insert(2);
  world.Seconds(20);
  EXPECT_EQ(world.kept_.canary_revision, 0);
  EXPECT_EQ(world.kept_.target_revision, 1);
  EXPECT_EQ(world.ReadyOf(1), 4);
  EXPECT_EQ(world.kept_.replicas.size(), 4U);
  EXPECT_TRUE(world.scaler_->Note().starts_with("revision 2, a canary, was rolled back to 1: replica"))
      << world.scaler_->Note();
  EXPECT_NE(world.kept_.revisions.back().note, "");
}

TEST(ServiceScaler, ACanaryThatIsTakenBackFinishesItsRequests) {
  ServiceWorld world(Replicas(1, 8));
  world.load_ = 2;
  world.Seconds(10);
  world.StartCanary(0.1);
  world.Seconds(5);
  ASSERT_EQ(world.ReadyOf(2), 1);
  world.busy_.insert(world.kept_.replicas.back().number);
  world.scaler_->EndCanary("it was rolled back", world.now_);
  world.Seconds(5);
  EXPECT_EQ(world.Count("draining"), 1);
  EXPECT_EQ(world.ReadyOf(1), 2);
  world.busy_.clear();
  world.Seconds(3);
  EXPECT_EQ(world.kept_.replicas.size(), 2U);
}

TEST(ServiceScaler, ARollbackDoesNotGoToARejectedCanary) {
  ServiceWorld world(Replicas(2, 4));
  world.Seconds(5);
  world.StartCanary(0.5);
  world.Seconds(5);
  ASSERT_TRUE(world.kept_.revisions.back().was_healthy);
  world.scaler_->EndCanary("it was rolled back", world.now_);
  EXPECT_EQ(world.kept_.revisions.back().note, "canary: it was rolled back");
  world.Seconds(5);
  world.broken_.insert(3);
  world.Update();
  world.Seconds(60);
  EXPECT_EQ(world.kept_.target_revision, 1);
}

TEST(ServiceScaler, ARefusedCanaryIsNoFailureOfTheService) {
  ServiceWorld world(Replicas(1, 4));
  world.Seconds(5);
  world.StartCanary(0.5);
  world.scaler_->OnStartRefused(2, "no room", world.now_);
  EXPECT_EQ(world.scaler_->Note(), "a replica of the canary could not be started: no room");
  world.Second();
  EXPECT_EQ(world.ReadyOf(1), 1);
  EXPECT_EQ(world.starts_, 1) << "the canary is tried again later";
  world.scaler_->EndCanary("it was rolled back", world.now_);
  EXPECT_EQ(world.scaler_->Note(), "");
}

TEST(ServiceScaler, UpdateRightAfterChangedSettingsKeepsTheNumber) {
  ServiceWorld world(Replicas(1, 4));
  world.Seconds(10);
  world.scaler_->OnSettings();
  world.Update();
  world.most_ = 0;
  world.Seconds(20);
  EXPECT_EQ(world.ReadyOf(2), 1);
  EXPECT_LE(world.most_, 2);
}

TEST(ServiceScaler, ARestartDuringAnUpdateKeepsTheNumber) {
  ServiceWorld world(Replicas(0, 8));
  world.load_ = 4;
  world.Seconds(30);
  ASSERT_EQ(world.ReadyOf(1), 4);
  world.Update();
  world.Second();
  world.scaler_ = std::make_unique<ServiceScaler>(world.kept_, world.now_);
  world.most_ = 0;
  world.Seconds(30);
  EXPECT_EQ(world.ReadyOf(2), 4);
  EXPECT_LE(world.most_, 5);
}

TEST(ServiceScaler, AnUpdateWakesParkedReplicasOfItsRevision) {
  ServiceWorld world(Replicas(1, 8), true);
  world.load_ = 4;
  world.Seconds(10);
  world.StartCanary(0.5);
  world.Seconds(10);
  ASSERT_EQ(world.ReadyOf(2), 2);
  world.kept_.replicas[0].state = world.kept_.replicas[1].state = "parked";
  world.scaler_->EndCanary("it was rolled back", world.now_);
  world.Seconds(5);
  EXPECT_EQ(world.wakes_, 2);
  EXPECT_EQ(world.ReadyOf(1), 4);
  EXPECT_EQ(world.ReadyOf(2), 0);
}

TEST(ServiceScaler, ANewServiceDoesNotParkBeforeTheFrontCounts) {
  ServiceWorld world(Replicas(1, 4), true);
  world.load_.reset();
  world.Seconds(10);
  EXPECT_EQ(world.ReadyOf(1), 1);
  world.load_ = 0;
  world.Seconds(10);
  EXPECT_EQ(world.ReadyOf(1), 1);
  EXPECT_EQ(world.parks_, 0);
}

TEST(ServiceScaler, ParkedReplicasStayParkedAfterARestart) {
  ServiceWorld world(Replicas(1, 4), true);
  world.Seconds(60);
  ASSERT_EQ(world.Count("parked"), 1);
  world.scaler_ = std::make_unique<ServiceScaler>(world.kept_, world.now_);
  world.load_.reset();
  world.Seconds(5);
  world.load_ = 0;
  world.Seconds(5);
  EXPECT_EQ(world.Count("parked"), 1);
  EXPECT_EQ(world.wakes_, 0);
}

TEST(ServiceScaler, WaitsLongerAfterEachFailure) {
  ServiceWorld world(Replicas(1, 1));
  world.broken_.insert(1);
  world.Seconds(120);
  EXPECT_GE(world.starts_, 4);
  EXPECT_LE(world.starts_, 10);
  EXPECT_EQ(world.scaler_->StateName(), "failing");
  EXPECT_NE(world.scaler_->Note().find("exited with code 1 before it was ready; see divvy logs"), std::string::npos);
}

TEST(ServiceScaler, WaitsLongerAlsoIfReplicasEndSoonAfterTheyWereReady) {
  ServiceWorld world(Replicas(1, 1));
  for (int i = 0; i < 120; ++i) {
    world.Second();
    if (world.Count("ready") == 1) world.ended_.insert(world.kept_.replicas.front().number);
  }
  EXPECT_GE(world.starts_, 4);
  EXPECT_LE(world.starts_, 10);
  EXPECT_EQ(world.scaler_->StateName(), "failing");
  EXPECT_NE(world.scaler_->Note().find("exited with code 1; see divvy logs"), std::string::npos);
  world.Seconds(70);
  ASSERT_EQ(world.Count("ready"), 1);
  EXPECT_NE(world.scaler_->Note(), "") << "it has not been ready for a minute";
  world.Seconds(60);
  EXPECT_EQ(world.scaler_->Note(), "");
  world.ended_.insert(world.kept_.replicas.front().number);
  world.Seconds(5);
  EXPECT_EQ(world.Count("ready"), 1) << "the first delay is a second again";
}

TEST(ServiceScaler, ReplicasThatEndTogetherAreReplacedAfterOneDelay) {
  ServiceWorld world(Replicas(8, 8));
  world.Seconds(5);
  ASSERT_EQ(world.Count("ready"), 8);
  for (const wire::ServiceReplica& replica : world.kept_.replicas) world.ended_.insert(replica.number);
  world.Seconds(5);
  EXPECT_EQ(world.Count("ready"), 8);
}

TEST(ServiceScaler, StopsAReplicaThatNeverAnswersWithThisReason) {
  wire::ServiceSettings settings = Replicas(1, 1);
  settings.ready_within_s = 2;
  ServiceWorld world(settings);
  world.is_silent_ = true;
  world.Seconds(5);
  EXPECT_EQ(world.stop_reason_,
            "stopped by service chat: it did not answer on port 20000 within 2 s; it must listen on the port in "
            "$PORT");
}

TEST(ServiceScaler, ReplacesAReplicaThatEnds) {
  ServiceWorld world(Replicas(1, 1));
  world.Seconds(5);
  world.ended_.insert(1);
  world.Seconds(5);
  EXPECT_EQ(world.Count("ready"), 1);
  EXPECT_EQ(world.starts_, 2);
}

TEST(ServiceScaler, AReplicaWhosePortIsAnotherUsersGetsNoRequests) {
  wire::ServiceSettings settings = Replicas(1, 1);
  settings.ready_within_s = 20;
  ServiceWorld world(settings);
  world.Seconds(5);
  world.foreign_.insert(1);
  world.Seconds(2);
  EXPECT_EQ(world.Count("ready"), 0);
  EXPECT_NE(world.scaler_->NoteOf(1).find("no process of its owner listens"), std::string::npos);
  world.foreign_.clear();
  world.Seconds(3);
  EXPECT_EQ(world.Count("ready"), 1);
  EXPECT_EQ(world.scaler_->NoteOf(1), "");
  world.foreign_.insert(1);
  world.Seconds(30);
  EXPECT_EQ(world.starts_, 2) << "another replica, with another port";
  EXPECT_EQ(world.Count("ready"), 1);
  EXPECT_EQ(world.scaler_->Note(), "") << "the revision is not to blame";
}

TEST(ServiceScaler, AReplicaWhoseJobRanAgainIsNotReadyBeforeItAnswers) {
  ServiceWorld world(Replicas(1, 1));
  world.Seconds(5);
  ASSERT_EQ(world.Count("ready"), 1);
  world.broken_.insert(1);  // The new process does not answer.
  world.attempt_ = 1;
  world.Second();
  EXPECT_EQ(world.Count("ready"), 0);
}

TEST(ServiceScaler, ACanaryThatIsTakenBackIsNotAFailedRevision) {
  ServiceWorld world(Replicas(2, 4));
  world.Seconds(5);
  world.StartCanary(0.5);
  world.Seconds(5);
  world.scaler_->EndCanary("it was rolled back", world.now_);
  EXPECT_TRUE(world.kept_.revisions.back().was_withdrawn);

  ServiceWorld failing(Replicas(2, 4));
  failing.Seconds(5);
  failing.StartCanary(0.5);
  failing.broken_.insert(2);
  failing.Seconds(20);
  ASSERT_EQ(failing.kept_.canary_revision, 0);
  EXPECT_FALSE(failing.kept_.revisions.back().was_withdrawn);
}

TEST(ServiceScaler, SumsAMetricAndCountsBadValuesLikeTheMean) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(SumOfMetric({}), 0);
  EXPECT_EQ(SumOfMetric({10, 30}), 40);
  EXPECT_EQ(SumOfMetric({10, std::nullopt, 30, nan}), 80);
  EXPECT_EQ(SumOfMetric({-5, 7}), 14);
  EXPECT_EQ(SumOfMetric({nan, infinity, std::nullopt, -1}), std::nullopt);
  EXPECT_EQ(SumOfMetric({1.7e308, 1.7e308}), std::nullopt) << "the sum is too large";
}

TEST(ServiceScaler, NamesAMetricThatNoReplicaReports) {
  wire::ServiceSettings settings = Replicas(1, 4);
  settings.metric = "depth";
  settings.target = 10;
  ServiceWorld world(settings);
  world.Seconds(5);
  EXPECT_EQ(world.scaler_->Note(), "");
  world.scaler_->OnMetric(false);
  EXPECT_EQ(world.scaler_->Note(),
            "no replica reports a number from 0 on as 'depth' (NaN does not count); until one does, the number of "
            "replicas stays");
}

TEST(ServiceScaler, ChangesNothingWithoutNumbersOfTheFront) {
  ServiceWorld world(Replicas(0, 8));
  world.load_ = 4;
  world.Seconds(20);
  const int ready = world.Count("ready");
  world.load_.reset();
  world.Seconds(300);
  EXPECT_EQ(world.Count("ready"), ready);
}

TEST(ServiceChecks, RefuseWhatCannotBeWithOneSentence) {
  const auto message = [](auto change) {
    wire::ServiceSettings settings;
    settings.name = "chat";
    change(settings);
    const Status status = CheckService(settings);
    return status ? std::string() : status.error().message;
  };
  using S = wire::ServiceSettings;
  EXPECT_EQ(message([](S&) {}), "");
  EXPECT_NE(message([](S& s) { s.min_replicas = 3; }).find("--replicas 3..1 is not allowed"), std::string::npos);
  EXPECT_NE(message([](S& s) { s.port = 80; }).find("--port 80 is not allowed: expected 1024"), std::string::npos);
  EXPECT_NE(message([](S& s) { s.name = "a b"; }).find("service name 'a b' is not allowed"), std::string::npos);
  EXPECT_NE(message([](S& s) { s.target = std::nan(""); }).find("--target nan is not allowed"), std::string::npos);
  EXPECT_NE(message([](S& s) { s.wait_s = 7200; }).find("--wait of 7200 s is not allowed: expected 1 s to 1 h"),
            std::string::npos);
  EXPECT_NE(message([](S& s) { s.idle_s = std::nan(""); }).find("--idle of nan s is not allowed"), std::string::npos);
  const auto metric = [](const char* name, double target, double rps) {
    return [=](S& s) {
      s.metric = name;
      s.target = target;
      s.requests_per_second = rps;
    };
  };
  EXPECT_EQ(message(metric("depth", 1000, 0)), "");  // Above --concurrency.
  EXPECT_NE(message(metric("depth", 0, 0)).find("--target-metric 'depth' needs the value"), std::string::npos);
  EXPECT_NE(message(metric("depth", 0, 5)).find("--target-metric and --rps exclude each other"), std::string::npos);
  EXPECT_NE(message(metric("a\nb", 1, 0)).find("is not allowed: expected 1 to 64 bytes"), std::string::npos);
  for (const char* path : {"healthz", "/a b", "/a\nbind *:1", "/\"", "/a#b", "/a\\x"})
    EXPECT_NE(message([&](S& s) { s.health = path; }).find("is not a path"), std::string::npos) << path;
}

}  // namespace
}  // namespace divvy
