// Copies of stores, between both kinds.
#include "store/copy/store_copy.h"

#include <gtest/gtest.h>

#include "store/postgres/postgres_test_server.h"
#include "store/sqlite.h"

namespace divvy {
namespace store_copy_test {

/// A store with something in every table.
void Fill(Store& store, std::uint64_t jobs) {
  auto spec = Spec("train.py");
  spec->capture.environment = {"A=1", "B=\xE9"};
  for (std::uint64_t id = 1; id <= jobs; ++id) {
    Batch batch;
    batch.inserts = {{Job(id, "caf\xE9 " + std::to_string(id)), spec}};
    batch.history = {{JobId(id), kNoon, "queued"}, {JobId(), kNoon, "GPU 1 is fenced"}};
    batch.next_id = id + 1;
    if (id % 3 == 0) batch.updates = {Ended(Job(id), kNoon)};
    if (id % 5 == 0) batch.past_runs = {Ended(Job(id), kNoon)};
    batch.settings = {{"key" + std::to_string(id % 4), "[" + std::to_string(id) + "]"}};
    MustCommit(store, {batch});
  }
}

struct Content {
  Store::Loaded loaded;
  std::vector<JobRecord> history;
  std::vector<JobRecord> runs;
  std::vector<std::string> lines;
};

Content ContentOf(Store& store) {
  Content out{Must(store.Load()), Must(store.History({})), Must(store.PastRuns(kNoTime, 1'000)), {}};
  for (const auto& line : Must(store.LatestHistory(10'000)))
    out.lines.push_back(ToString(line.job) + " " + std::to_string(line.at.time_since_epoch().count()) + line.text);
  return out;
}

void ExpectSame(const Content& a, const Content& b) {
  EXPECT_EQ(a.loaded.live, b.loaded.live);
  EXPECT_EQ(a.loaded.settings, b.loaded.settings);
  EXPECT_EQ(a.loaded.next_id, b.loaded.next_id);
  EXPECT_EQ(a.loaded.jobs_total, b.loaded.jobs_total);
  EXPECT_EQ(a.history, b.history);
  EXPECT_EQ(Ids(a.runs), Ids(b.runs));
  EXPECT_EQ(a.lines, b.lines);
}

const OnCopyProgress kSilent = [](const CopyProgress&) {};

TEST(StoreCopy, ThereAndBackKeepsEverything) {
  if (const std::string missing = TestServer::Missing(); !missing.empty()) GTEST_SKIP() << missing;
  TestServer server;
  TemporaryFolder folder;
  const std::string url = server.Url("copied");
  auto store = Must(OpenSqliteStore(folder.File("a.db")));
  Fill(*store, 100);
  const Content before = ContentOf(*store);
  const auto held = CopyStore(folder.File("a.db"), url, kSilent);
  ASSERT_FALSE(held);
  EXPECT_NE(held.error().message.find("in use by another divvy"), std::string::npos) << held.error().message;
  store.reset();

  Must(CopyStore(folder.File("a.db"), url, kSilent));
  store = Must(OpenPostgresStore({.url = url, .cluster = "a", .cluster_file = ""}));
  ExpectSame(before, ContentOf(*store));
  Fill(*Must(OpenSqliteStore(folder.File("other.db"))), 1);
  // The counters of the tables continue behind the copied rows.
  Batch batch = Insert({Job(500)});
  batch.history = {{JobId(500), kNoon, "queued"}};
  batch.past_runs = {Ended(Job(500), kNoon)};
  MustCommit(*store, {batch});
  const Content after = ContentOf(*store);
  store.reset();

  const auto refused = CopyStore(folder.File("other.db"), url, kSilent);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is not empty"), std::string::npos) << refused.error().message;
  Must(CopyStore(url, folder.File("b.db"), kSilent));
  store = Must(OpenSqliteStore(folder.File("b.db")));
  ExpectSame(after, ContentOf(*store));
  store.reset();
  EXPECT_EQ(Must(CheckStore(folder.File("b.db"))).problems, std::vector<std::string>());
  // The test's server does not sync.
  EXPECT_EQ(Must(CheckStore(url)).problems.size(), 1U);
}

TEST(StoreCopy, ADatabaseWithoutAStoreIsNoSourceAndStaysEmpty) {
  if (const std::string missing = TestServer::Missing(); !missing.empty()) GTEST_SKIP() << missing;
  TestServer server;
  TemporaryFolder folder;
  const std::string url = server.Url("empty");
  const auto checked = CheckStore(url);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kNotFound) << checked.error().message;
  EXPECT_FALSE(CopyStore(url, folder.File("a.db"), kSilent));
  EXPECT_TRUE(server.Execute("empty", "CREATE SCHEMA divvy")) << "none was made";
}

TEST(StoreCopy, AnInterruptedCopyContinuesAndIsNotOpenedBefore) {
  TemporaryFolder folder;
  Fill(*Must(OpenSqliteStore(folder.File("a.db"))), 50);
  Must(CopyStore(folder.File("a.db"), folder.File("b.db"), kSilent));
  {
    // As if the copy had ended in the middle.
    Connection connection(folder.File("b.db"));
    ASSERT_TRUE(connection.Open());
    ASSERT_TRUE(
        connection.Execute("INSERT INTO meta VALUES ('copying', 1); DELETE FROM jobs WHERE id > 20; DELETE FROM runs; "
                           "DELETE FROM settings"));
  }
  const auto store = OpenSqliteStore(folder.File("b.db"));
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("unfinished copy"), std::string::npos) << store.error().message;
  Must(CopyStore(folder.File("a.db"), folder.File("b.db"), kSilent));
  ExpectSame(ContentOf(*Must(OpenSqliteStore(folder.File("a.db")))),
             ContentOf(*Must(OpenSqliteStore(folder.File("b.db")))));
}

TEST(StoreCopy, ACopyThatDiffersIsNoticed) {
  TemporaryFolder folder;
  Fill(*Must(OpenSqliteStore(folder.File("a.db"))), 20);
  Must(CopyStore(folder.File("a.db"), folder.File("b.db"), kSilent));
  {
    Connection connection(folder.File("b.db"));
    ASSERT_TRUE(connection.Open());
    ASSERT_TRUE(
        connection.Execute("INSERT INTO meta VALUES ('copying', 1); UPDATE jobs SET reason = 'x' WHERE id = 7"));
  }
  const auto copied = CopyStore(folder.File("a.db"), folder.File("b.db"), kSilent);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, ErrorCode::kCorruptData);
  EXPECT_NE(copied.error().message.find("table jobs differs"), std::string::npos) << copied.error().message;
}

TEST(StoreCheck, NamesWhatDoesNotFitTogether) {
  TemporaryFolder folder;
  Fill(*Must(OpenSqliteStore(folder.File("a.db"))), 5);
  EXPECT_EQ(Must(CheckStore(folder.File("a.db"))).problems, std::vector<std::string>());
  {
    Connection connection(folder.File("a.db"));
    ASSERT_TRUE(connection.Open());
    ASSERT_TRUE(connection.Execute("DELETE FROM specs WHERE job = 2; UPDATE jobs SET state = 77 WHERE id = 3"));
  }
  const CheckedStore checked = Must(CheckStore(folder.File("a.db")));
  ASSERT_EQ(checked.problems.size(), 2u);
  EXPECT_NE(checked.problems[0].find("job 3: column state"), std::string::npos) << checked.problems[0];
  EXPECT_EQ(checked.problems[1], "1 jobs have no specification");
}

}  // namespace store_copy_test
}  // namespace divvy
