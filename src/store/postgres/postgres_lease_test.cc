// The lease of several controllers in PostgreSQL.
#include <gtest/gtest.h>

#include <thread>

#include "store/follower.h"
#include "store/lease.h"
#include "store/postgres/postgres_test_server.h"

namespace divvy {
namespace postgres_lease_test {

class PostgresLeases : public testing::Test {
 protected:
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (const std::string missing = TestServer::Missing(); !missing.empty()) GTEST_SKIP() << missing;
    if (server_ == nullptr) server_ = std::make_unique<TestServer>();
    static int databases = 0;
    database_ = "lease" + std::to_string(++databases);
    options_ = {.url = server_->Url(database_), .cluster = "a", .cluster_file = "/state/cluster-id"};
  }
  std::unique_ptr<ControllerLease> Open(const std::string& name) {
    return Must(OpenPostgresLease(options_, {name, name + ".lab:7433", name + "-instance", "1", "c"}));
  }
  std::unique_ptr<Store> OpenStore(std::int64_t epoch) {
    PostgresOptions options = options_;
    options.lease = epoch;
    return Must(OpenPostgresStore(options));
  }
  static Batch Row(const std::string& value) {
    Batch batch;
    batch.settings.emplace_back("key", value);
    return batch;
  }

  inline static std::unique_ptr<TestServer> server_;
  std::string database_;
  PostgresOptions options_;
};

TEST_F(PostgresLeases, OneControllerLeadsUntilItsLeaseHasEnded) {
  const auto a = Open("a"), b = Open("b");
  EXPECT_EQ(Must(a->Take()), 1);
  EXPECT_EQ(Must(b->Take()), 0);
  const LeaseView seen = Must(b->Beat(0));
  EXPECT_EQ(seen.lease.name, "a");
  EXPECT_EQ(seen.lease.address, "a.lab:7433");
  EXPECT_GT(seen.lease.left, Duration(0));
  EXPECT_LE(seen.lease.left, kLeaseTime);
  EXPECT_TRUE(Must(a->Beat(1)).is_renewed);
  EXPECT_FALSE(Must(b->Beat(2)).is_renewed);
  const LeaseView all = Must(b->Beat(0));
  ASSERT_EQ(all.controllers.size(), 2u);
  EXPECT_EQ(all.controllers[1].name, "b");
  EXPECT_LT(all.controllers[0].silent, std::chrono::seconds(60));

  ASSERT_TRUE(server_->Execute(database_, "UPDATE divvy.lease SET ends = 1"));  // As if nobody had renewed it.
  EXPECT_LT(Must(b->Beat(0)).lease.left, Duration(0));
  EXPECT_TRUE(Must(a->Beat(1)).is_renewed) << "no other controller has led since";
  EXPECT_EQ(Must(b->Take()), 0);
  ASSERT_TRUE(a->Release(1));
  EXPECT_EQ(Must(b->Take()), 2);
  EXPECT_FALSE(Must(a->Beat(1)).is_renewed);
}

TEST_F(PostgresLeases, AControllerThatStartsAgainGetsItsOwnLeaseAtOnce) {
  EXPECT_EQ(Must(Open("a")->Take()), 1);
  EXPECT_EQ(Must(Open("a")->Take()), 2);
}

TEST_F(PostgresLeases, AnEpochIsGreaterThanAllThatAgentsHaveFollowed) {
  const auto a = Open("a");
  ASSERT_TRUE(server_->Execute(database_, "INSERT INTO divvy.settings VALUES ('controller.epoch', '41')"));
  EXPECT_EQ(Must(a->Take()), 42);
}

TEST_F(PostgresLeases, ADeposedLeaderCannotWrite) {
  const auto a = Open("a"), b = Open("b");
  const std::int64_t first = Must(a->Take());
  auto old_store = OpenStore(first);
  ASSERT_TRUE(old_store->Commit({Row("1")}));
  ASSERT_TRUE(a->Release(first));
  const std::int64_t second = Must(b->Take());
  // It still has its session and the lock.
  const Status late = old_store->Commit({Row("2")});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kFailedPrecondition) << late.error().message;
  // A store of a controller that no longer leads cannot be opened, and does not end the session of the one that does.
  const auto store = OpenStore(second);
  ASSERT_TRUE(store->Commit({Row("3")}));
  PostgresOptions deposed = options_;
  deposed.lease = first;
  EXPECT_FALSE(OpenPostgresStore(deposed));
  EXPECT_FALSE(old_store->Commit({Row("4")}));
  ASSERT_TRUE(store->Commit({Row("5")}));
  EXPECT_EQ(Must(store->Load()).settings, (std::vector{std::pair<std::string, std::string>("key", "5")}));
}

TEST_F(PostgresLeases, ARenewalDoesNotWaitForACommit) {
  const auto a = Open("a");
  const std::int64_t epoch = Must(a->Take());
  // A transaction holds the row that every commit changes.
  std::thread commit(
      [&] { server_->Execute(database_, "BEGIN; UPDATE divvy.writer SET commits = commits; SELECT pg_sleep(600)"); });
  const std::string others = "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!server_->Execute(database_, "SELECT 1 / count(*) " + others) && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_TRUE(Must(a->Beat(epoch)).is_renewed);
  EXPECT_TRUE(server_->Execute(database_, "SELECT 1 / count(pg_terminate_backend(pid)) " + others));
  commit.join();
}

TEST_F(PostgresLeases, AStandbyThatFollowsHasTheSameJobsAsOneThatLoads) {
  const auto store = OpenStore(0);
  const auto job = [](std::uint64_t id, JobState state) {
    JobRecord record;
    record.id = record.spec_of = JobId(id);
    record.state = state;
    return record;
  };
  Batch inserts;
  for (std::uint64_t id = 1; id <= 5; ++id)
    inserts.inserts.push_back({job(id, JobState::kQueued), std::make_shared<JobSpec>()});
  ASSERT_TRUE(store->Commit({inserts}));
  const auto follower = FollowPostgresStore(options_);
  ASSERT_TRUE(follower->Follow());
  EXPECT_EQ(follower->jobs()->live.size(), 5u);
  Batch changes;
  changes.updates = {job(2, JobState::kRunning), job(3, JobState::kSucceeded)};
  ASSERT_TRUE(store->Commit({changes}));
  ASSERT_TRUE(follower->Follow());
  EXPECT_EQ(follower->jobs()->live.size(), 4u);
  EXPECT_EQ(follower->jobs()->live.at(JobId(2)).state, JobState::kRunning);
  Batch more;
  more.inserts.push_back({job(6, JobState::kHeld), std::make_shared<JobSpec>()});
  more.updates = {job(1, JobState::kFailed)};
  ASSERT_TRUE(store->Commit({more}));
  const LiveJobs loaded = Must(store->Load()).live;
  PostgresOptions warm = options_;
  warm.followed = follower->jobs();
  warm.lease = Must(Open("a")->Take());  // Ends the session of the store above.
  EXPECT_EQ(Must(Must(OpenPostgresStore(warm))->Load()).live, loaded);
  EXPECT_EQ(loaded.size(), 4u);
}

TEST_F(PostgresLeases, JobsOfADatabaseThatHasLostCommitsAreReadAgain) {
  OpenStore(0);
  JobRecord phantom;
  phantom.id = phantom.spec_of = JobId(99);
  const auto follower = FollowPostgresStore(options_);
  ASSERT_TRUE(follower->Follow());
  follower->jobs()->live.emplace(phantom.id, phantom);
  ASSERT_TRUE(server_->Execute(
      database_,
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'divvy follows'"));
  ASSERT_TRUE(follower->Follow());
  EXPECT_TRUE(follower->jobs()->live.empty()) << "the server may be another one after a reconnection";
  PostgresOptions warm = options_;
  warm.followed = follower->jobs();
  warm.followed->live.emplace(phantom.id, phantom);
  ++warm.followed->commits;
  EXPECT_TRUE(Must(Must(OpenPostgresStore(warm))->Load()).live.empty());
}

TEST_F(PostgresLeases, TwoLiveControllersCannotHaveOneName) {
  const auto a = Open("a");
  EXPECT_TRUE(Must(a->Beat(0)).is_reported);
  const auto other = Must(OpenPostgresLease(options_, {"a", "a.lab:7433", "elsewhere", "1", "c"}));
  EXPECT_FALSE(Must(other->Beat(0)).is_reported);
  ASSERT_TRUE(server_->Execute(database_, "UPDATE divvy.controllers SET seen = 1"));  // It has been gone for long.
  EXPECT_TRUE(Must(other->Beat(0)).is_reported);
}

TEST_F(PostgresLeases, ADatabaseOfAnotherClusterIsRefused) {
  Open("a");
  PostgresOptions other = options_;
  other.cluster = "b";
  const auto lease = OpenPostgresLease(other, {"x", "", "x", "1", ""});
  ASSERT_FALSE(lease);
  EXPECT_NE(lease.error().message.find("belongs to another cluster (a; this one is b)"), std::string::npos)
      << lease.error().message;
}

TEST_F(PostgresLeases, ALostConnectionIsReplaced) {
  const auto a = Open("a");
  const std::int64_t epoch = Must(a->Take());
  ASSERT_TRUE(server_->Execute(database_,
                               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE "
                               "'divvy lease%'"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool is_renewed = false;
  while (!is_renewed && std::chrono::steady_clock::now() < end) {
    const auto seen = a->Beat(epoch);
    is_renewed = seen && seen->is_renewed;
  }
  EXPECT_TRUE(is_renewed);
}

}  // namespace postgres_lease_test
}  // namespace divvy
