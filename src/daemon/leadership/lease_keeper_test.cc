// Several controllers on one lease, each with a clock of its own; the database has another one.
#include "driver/lease_keeper.h"

#include <map>

#include <gtest/gtest.h>

#include "daemon/leadership/leader_answers.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace lease_keeper_test {

struct Database {
  Duration now = std::chrono::hours(1);
  bool is_away = false;
  LeaseRow lease;
  Duration ends{0};
  std::map<std::string, ControllerRow> controllers;
  std::map<std::string, Duration> seen;
};

class FakeLease final : public ControllerLease {
 public:
  FakeLease(Database& database, ControllerSelf self, std::function<void()> on_answer)
      : database_(database), self_(std::move(self)), on_answer_(std::move(on_answer)) {}
  Result<LeaseView> Beat(std::int64_t epoch) override {
    if (database_.is_away) return Unreachable("the database is away");
    LeaseView view;
    view.is_reported = true;
    view.is_renewed = epoch != 0 && epoch == database_.lease.epoch;
    if (view.is_renewed) database_.ends = database_.now + kLeaseTime;
    database_.controllers[self_.name] = {self_.name, self_.address, "1", self_.certificate, {}, {}};
    database_.seen[self_.name] = database_.now;
    view.lease = database_.lease;
    view.lease.left = database_.ends - database_.now;
    for (const auto& [name, row] : database_.controllers) {
      view.controllers.push_back(row);
      view.controllers.back().silent = database_.now - database_.seen[name];
    }
    on_answer_();
    return view;
  }
  Result<std::int64_t> Take() override {
    if (database_.is_away) return Unreachable("the database is away");
    if (database_.ends >= database_.now && database_.lease.instance != self_.instance) return std::int64_t{0};
    database_.lease = {database_.lease.epoch + 1, self_.name, self_.address, self_.instance, kNoTime, {}};
    database_.ends = database_.now + kLeaseTime;
    on_answer_();
    return database_.lease.epoch;
  }
  Status Release(std::int64_t epoch) override {
    if (database_.lease.epoch == epoch) database_.ends = Duration(0);
    return {};
  }

 private:
  Database& database_;
  ControllerSelf self_;
  std::function<void()> on_answer_;
};

struct Member {
  Member(Database& database, const std::string& name, const std::string& certificate = "c", bool yields = false) {
    const ControllerSelf self = {name, name + ".lab:7433", name, "1", certificate};
    LeaseKeeper::Ports ports;
    ports.since_boot = [this] { return now; };
    ports.on_elected = [this](std::int64_t epoch) { elected = epoch; };
    ports.on_lost = [this](const std::string& why) { lost = why; };
    ports.log = [](const std::string&, const std::string&) {};
    keeper.emplace(std::make_unique<FakeLease>(database, self, [this] { now += answer_takes; }), self, std::move(ports),
                   yields);
  }
  Duration now = std::chrono::hours(5);  // Its own clock.
  Duration answer_takes{0};
  std::int64_t elected = 0;
  std::string lost;
  std::optional<LeaseKeeper> keeper;
};

class Leadership : public testing::Test {
 protected:
  void Pass(Duration time) {
    database_.now += time;
    a_.now += time;
    b_.now += time;
  }
  Database database_;
  Member a_{database_, "a"};
  Member b_{database_, "b"};
};

TEST_F(Leadership, AStandbyTakesOverOnceTheLeaseHasEnded) {
  a_.keeper->Step();
  EXPECT_EQ(a_.elected, 1);
  EXPECT_TRUE(a_.keeper->may_act());
  for (int i = 0; i < 10; ++i) {
    Pass(1s);
    a_.keeper->Step();
    EXPECT_LE(b_.keeper->Step(), 250ms);
    EXPECT_TRUE(a_.keeper->may_act());
    EXPECT_EQ(b_.elected, 0);
  }
  // The leader hangs. It may not act any more before the lease has ended by the database's clock.
  Pass(kLeaseTime - 100ms);
  b_.keeper->Step();
  EXPECT_EQ(b_.elected, 0);
  EXPECT_FALSE(a_.keeper->may_act());
  Pass(101ms);
  b_.keeper->Step();
  EXPECT_EQ(b_.elected, 2);
  EXPECT_TRUE(b_.keeper->may_act());
  // It wakes up.
  EXPECT_FALSE(a_.keeper->may_act());
  a_.keeper->Step();
  EXPECT_FALSE(a_.lost.empty());
  EXPECT_FALSE(a_.keeper->may_act());
  EXPECT_EQ(LeaderViewOf(*a_.keeper).name, "b");
}

TEST_F(Leadership, TheLeaseCountsFromBeforeTheRenewalWasSent) {
  a_.keeper->Step();
  Pass(1s);
  a_.answer_takes = 2500ms;  // Stopped after the database had renewed the lease, before the answer was read.
  a_.keeper->Step();
  EXPECT_TRUE(a_.keeper->may_act());
  a_.now += 400ms;
  EXPECT_FALSE(a_.keeper->may_act());
}

TEST_F(Leadership, ALeaderContinuesIfTheDatabaseReturnsAndNoOtherHasLed) {
  a_.keeper->Step();
  database_.is_away = true;
  for (int i = 0; i < 60; ++i) {
    Pass(1s);
    a_.keeper->Step();
    b_.keeper->Step();
  }
  EXPECT_FALSE(a_.keeper->may_act());
  EXPECT_FALSE(a_.keeper->view().trouble.empty());
  database_.is_away = false;
  a_.keeper->Step();
  EXPECT_TRUE(a_.keeper->may_act());
  b_.keeper->Step();
  EXPECT_EQ(b_.elected, 0);
  EXPECT_EQ(a_.lost, "");
}

TEST_F(Leadership, ALeaderThatStepsDownLeavesTheLeaseToTheStandby) {
  a_.keeper->Step();
  b_.keeper->Step();
  a_.keeper->StepDown();
  a_.keeper->Step();
  EXPECT_FALSE(a_.lost.empty());
  Member again(database_, "a", "c", true);
  again.keeper->Step();
  EXPECT_EQ(again.elected, 0);
  Pass(10ms);
  b_.keeper->Step();
  EXPECT_EQ(b_.elected, 2);
  // Without a standby that lives, it leads again.
  b_.keeper->Release();
  Pass(kLeaseTime);
  again.now += 1s;
  again.keeper->Step();
  EXPECT_EQ(again.elected, 3);
}

TEST_F(Leadership, ARestartedLeaderNeedNotWaitForItsOwnLease) {
  a_.keeper->Step();
  Pass(100ms);
  Member again(database_, "a");
  again.keeper->Step();
  EXPECT_EQ(again.elected, 2);
}

TEST_F(Leadership, AControllerWithAnotherCertificateDoesNotLead) {
  a_.keeper->Step();
  Member other(database_, "d", "another");
  Pass(kLeaseTime + 1ms);
  other.keeper->Step();
  EXPECT_EQ(other.elected, 0);
  EXPECT_NE(other.keeper->view().conflict.find("copy identity.pem"), std::string::npos);
  // It does not keep the others from leading.
  b_.keeper->Step();
  EXPECT_EQ(b_.elected, 2);
}

TEST_F(Leadership, ProbesSayWhoLeads) {
  a_.keeper->Step();
  Pass(10ms);
  b_.keeper->Step();
  HttpRequest request;
  request.method = "GET";
  request.path = "/leader";
  EXPECT_EQ(AnswerProbe(request, &*a_.keeper, a_.keeper->self())->status, 200);
  const auto answer = AnswerProbe(request, &*b_.keeper, b_.keeper->self());
  EXPECT_EQ(answer->status, 503);
  const auto view = wire::Decode<wire::LeaderView>(answer->body);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->address, "a.lab:7433");
  EXPECT_EQ(view->epoch, 1);
  EXPECT_EQ(view->controllers.size(), 2u);
  request.path = "/readyz";
  EXPECT_EQ(AnswerProbe(request, &*b_.keeper, b_.keeper->self())->status, 200);
  database_.is_away = true;
  b_.keeper->Step();
  EXPECT_EQ(AnswerProbe(request, &*b_.keeper, b_.keeper->self())->status, 503);
  request.path = "/healthz";
  EXPECT_EQ(AnswerProbe(request, &*b_.keeper, b_.keeper->self())->status, 200);
  request.path = "/v1/jobs";
  EXPECT_FALSE(AnswerProbe(request, &*b_.keeper, b_.keeper->self()));
  const auto all = ControllerViewsOf(*a_.keeper);
  EXPECT_EQ(all.front().role, "leader");
}

}  // namespace lease_keeper_test
}  // namespace divvy
