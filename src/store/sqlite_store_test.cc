// Tests of the file itself: full, damaged, another program's, too new, or in use.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "store/row.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/store_test_support.h"

namespace divvy {
namespace sqlite_store_test {

using IdList = std::vector<std::uint64_t>;

std::unique_ptr<Store> MustOpen(const std::string& path) { return Must(OpenSqliteStore(path)); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// While it lives, no file of this process may exceed `bytes`. write(2) then fails as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit limit = before_;
    limit.rlim_cur = bytes;
    old_action_ = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, old_action_);
  }

 private:
  struct rlimit before_ {};
  void (*old_action_)(int) = nullptr;
};

TEST(FullDisk, KeepsNothingOfTheCommitAndWorksAgainWhenThereIsRoom) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  MustCommit(*store, {Insert({Job(1)})});
  std::uint64_t id = 1;
  {
    const FileSizeLimit limit(1 << 20);
    Status done;
    while (done && id < 10'000) {  // Each commit takes some kilobytes of the log.
      Batch batch = Insert({Job(id + 1), Job(id + 2)});
      batch.next_id = id + 3;
      batch.history = {{JobId(id + 1), kNoon, std::string(20'000, 'x')}};
      done = store->Commit({batch});
      if (done) id += 2;
    }
    ASSERT_FALSE(done) << "the limit was never reached";
    EXPECT_EQ(done.error().code, ErrorCode::kLimitExceeded);
    EXPECT_TRUE(Has(done.error().message, path)) << done.error().message;
    EXPECT_TRUE(Has(done.error().message, "full")) << done.error().message;
    EXPECT_TRUE(Has(done.error().message, "free space under")) << done.error().message;
    Batch again = Insert({Job(id + 1)});
    again.history = {{JobId(id + 1), kNoon, std::string(20'000, 'x')}};
    const Status refused = store->Commit({Insert({Job(id + 2)}), again});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
    // Reading still works.
    EXPECT_EQ(Must(store->Find(JobId(id))).id, JobId(id));
    EXPECT_EQ(store->Find(JobId(id + 1)).error().code, ErrorCode::kNotFound);
  }
  MustCommit(*store, {Insert({Job(id + 1)})});
  store.reset();
  store = MustOpen(path);
  const auto loaded = Must(store->Load());
  EXPECT_EQ(loaded.live.size(), id + 1);
  EXPECT_EQ(loaded.live.rbegin()->first, JobId(id + 1));
  EXPECT_EQ(loaded.next_id, id + 2);
}

TEST(FullDisk, CapturesOfARefusedCommitAreWrittenByTheNextOne) {
  TemporaryFolder folder;
  auto store = MustOpen(folder.File("divvy.db"));
  auto spec = Spec();
  spec->capture.environment = {"A=1"};
  Batch batch;
  batch.inserts = {{Job(1), spec}};
  Batch wrong = batch;
  wrong.updates = {Job(99)};
  EXPECT_FALSE(store->Commit({wrong}));
  MustCommit(*store, {batch});
  EXPECT_EQ(Must(store->Spec(JobId(1))), *spec);
}

TEST(Captures, AreStoredOncePerContentAndRemovedWithTheirLastJob) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  const auto with = [](const std::string& variable) {
    auto spec = Spec();
    spec->capture.environment = {variable};
    return spec;
  };
  Batch batch;
  batch.inserts = {{Ended(Job(1), kNoon), with("A=1")}, {Job(2), with("A=1")}, {Ended(Job(3), kNoon), with("A=2")}};
  MustCommit(*store, {batch});
  store.reset();
  store = MustOpen(path);  // The new store has no captures cached.
  batch.inserts = {{Job(4), with("A=1")}};
  MustCommit(*store, {batch});
  Connection look(path);
  ASSERT_TRUE(look.Open());
  EXPECT_EQ(Must(look.QueryInteger("SELECT count(*) FROM captures")), 2);
  EXPECT_TRUE(store->Prune(kNever));
  EXPECT_EQ(Must(look.QueryInteger("SELECT count(*) FROM captures")), 1);
  EXPECT_EQ(Must(look.QueryInteger("SELECT count(*) FROM specs")), 2);
  EXPECT_EQ(Must(store->Spec(JobId(4))), *with("A=1"));
}

TEST(DamagedFile, IsNamedAndLeftUnchanged) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  const std::string garbage = "this is no database at all, but it is somebody's file" + std::string(5'000, '.');
  WriteFile(path, garbage);
  const auto opened = OpenSqliteStore(path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kCorruptData);
  EXPECT_TRUE(Has(opened.error().message, path)) << opened.error().message;
  EXPECT_TRUE(Has(opened.error().message, "move it away")) << opened.error().message;
  EXPECT_EQ(ReadFile(path), garbage);
}

TEST(DamagedFile, IsDetectedWhenItsPagesAreRead) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  std::vector<JobRecord> jobs;
  for (std::uint64_t id = 1; id <= 500; ++id) jobs.push_back(Job(id));
  MustCommit(*store, {Insert(jobs)});
  store.reset();
  std::string content = ReadFile(path);
  std::fill(content.begin() + 16'384, content.end(), '\x5a');
  WriteFile(path, content);
  const auto opened = OpenSqliteStore(path);
  const ErrorCode code = opened ? (*opened)->Load().error().code : opened.error().code;
  EXPECT_EQ(code, ErrorCode::kCorruptData);
}

TEST(DamagedFile, ARowThatDivvyNeverWritesNamesJobAndColumn) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  MustCommit(*store, {Insert({Job(17)})});
  Connection vandal(path);
  ASSERT_TRUE(vandal.Open());
  ASSERT_TRUE(vandal.Execute("UPDATE jobs SET dependencies = 'before:3'"));
  const auto loaded = store->Load();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorruptData);
  EXPECT_TRUE(Has(loaded.error().message, "job 17: column dependencies")) << loaded.error().message;
}

TEST(OtherFile, DatabaseOfAnotherProgramIsRefusedUnchanged) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  WriteFile(path, "");
  {
    Connection other(path);
    ASSERT_TRUE(other.Open());
    ASSERT_TRUE(other.Execute("CREATE TABLE recipes (name TEXT)"));
  }
  const std::string before = ReadFile(path);
  const auto opened = OpenSqliteStore(path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(Has(opened.error().message, "another program")) << opened.error().message;
  EXPECT_EQ(ReadFile(path), before);
}

TEST(OtherFile, AMissingFolderIsNamed) {
  const auto opened = OpenSqliteStore("/nonexistent/divvy.db");
  ASSERT_FALSE(opened);
  EXPECT_TRUE(Has(opened.error().message, "/nonexistent/divvy.db")) << opened.error().message;
}

TEST(NewFile, IsReadableByItsOwnerOnly) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  MustCommit(*store, {Insert({Job(1)})});
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) {
    struct stat status {};
    ASSERT_EQ(::stat((path + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << suffix;
  }
}

TEST(Lock, ASecondStoreOnTheSameFileNamesTheFirst) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  const auto second = OpenSqliteStore(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(Has(second.error().message, "(pid " + std::to_string(::getpid()) + ")")) << second.error().message;
  store.reset();
  EXPECT_TRUE(OpenSqliteStore(path));
}

/// All existing migrations, followed by these.
std::vector<Migration> AndThen(std::initializer_list<const char*> more) {
  std::vector<Migration> steps(Migrations().begin(), Migrations().end());
  for (const char* sql : more) steps.push_back({steps.back().to + 1, sql});
  return steps;
}
std::vector<Migration> LaterSteps() {
  return AndThen(
      {"ALTER TABLE jobs ADD COLUMN weight INTEGER NOT NULL DEFAULT 7; UPDATE jobs SET weight = 8 WHERE id = 2;",
       "CREATE TABLE teams (name TEXT PRIMARY KEY)"});
}
const std::int64_t kNewest = Migrations().back().to;

TEST(Schema, AnOlderFileIsUpgradedStepByStepWithItsRows) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  MustCommit(*store, {Insert({Job(1), Job(2)})});
  store.reset();
  Connection connection(path);
  ASSERT_TRUE(connection.Open());
  ASSERT_TRUE(MigrateSchema(connection, LaterSteps()));
  ASSERT_TRUE(MigrateSchema(connection, LaterSteps()));  // Nothing to do.
  EXPECT_EQ(Must(connection.QueryInteger("SELECT sum(weight) FROM jobs")), 15);
  EXPECT_EQ(Must(connection.QueryInteger("SELECT count(*) FROM teams")), 0);
  EXPECT_EQ(Must(connection.QueryInteger("SELECT value FROM meta WHERE key = 'schema_version'")), kNewest + 2);
}

// A database of the first release: without teams, preemption, elastic sizes and topology.
TEST(Schema, ADatabaseOfTheFirstVersionOpensWithItsJobs) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  {
    std::ofstream(path).close();  // An empty file is an empty database.
    Connection connection(path);
    ASSERT_TRUE(connection.Open());
    ASSERT_TRUE(MigrateSchema(connection, Migrations().first(1)));
    std::string columns;
    std::string values;
    for (std::string_view column : Split(RowColumns(), ',')) {
      column = Trim(column);
      constexpr std::string_view kNew[] = {"team",          "preemptible",     "is_preemptible_set",
                                           "gpus_most",     "topology",        "requires_topology",
                                           "takes_resizes", "gpus_asked_back", "asked_back_at",
                                           "gpus_used",     "gpus_since",      "grown_at",
                                           "shape",         "gpu_model",       "node",
                                           "gang",          "was_let_go",      "pool",
                                           "nodes",         "spreads_tasks",   "node_constraint",
                                           "node_list",     "excluded_nodes",  "pool_of_run",
                                           "exit_steps",    "others",          "portion",
                                           "slice",         "gpu_parts",       "gpu_slice",
                                           "is_run_once",   "waits_since",     "end_by",
                                           "full_limit",    "stale_grace",     "short_nodes"};
      if (std::ranges::find(kNew, column) != std::end(kNew) || column.starts_with("progress_")) continue;
      columns += (columns.empty() ? "" : ", ") + std::string(column);
      const bool is_text = column == "user" || column == "gpu_type" || column == "dependencies" || column == "reason" ||
                           column == "start_reason" || column == "project" || column == "comment" ||
                           column == "job_group" || column == "array_waiting" || column == "array_indices";
      if (!values.empty()) values += ", ";
      if (column.starts_with("exit_")) values += "NULL";
      else if (column == "name") values += "'old'";
      else if (column == "id" || column == "spec_of" || column == "state" || column == "request_gpus") values += "1";
      else values += is_text ? "''" : "0";
    }
    ASSERT_TRUE(
        connection.Execute(("INSERT INTO jobs (" + columns + ", has_own_name) VALUES (" + values + ", 1)").c_str()));
  }
  const auto loaded = Must(MustOpen(path)->Load());
  ASSERT_EQ(loaded.live.size(), 1u);
  const JobRecord& old = loaded.live.begin()->second;
  EXPECT_EQ(old.name, "old");
  EXPECT_EQ(old.request, (Request{.gpus = 1, .tasks = 0}));
  EXPECT_EQ(old.team, "");
  EXPECT_FALSE(old.is_preemptible_set);
  JobRecord changed = old;
  changed.team = "vision";
  changed.request.max_gpus = 8;
  MustCommit(*MustOpen(path), {Update({changed})});
  EXPECT_EQ(Must(MustOpen(path)->Find(JobId(1))), changed);
}

TEST(Schema, AStepThatFailsLeavesTheOldVersion) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  auto store = MustOpen(path);
  MustCommit(*store, {Insert({Job(1)})});
  store.reset();
  {
    Connection connection(path);
    ASSERT_TRUE(connection.Open());
    EXPECT_FALSE(MigrateSchema(connection, AndThen({"CREATE TABLE jobs (id)"})));
    EXPECT_FALSE(connection.is_in_transaction());
  }
  EXPECT_EQ(Ids(Must(MustOpen(path)->Load()).live), (IdList{1}));
}

TEST(Schema, ANewerFileIsRefusedNamingBothVersions) {
  TemporaryFolder folder;
  const std::string path = folder.File("divvy.db");
  MustOpen(path).reset();
  {
    Connection connection(path);
    ASSERT_TRUE(connection.Open());
    ASSERT_TRUE(MigrateSchema(connection, LaterSteps()));
  }
  const std::string before = ReadFile(path);
  const auto opened = OpenSqliteStore(path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kFailedPrecondition);
  const std::string said =
      "schema version " + std::to_string(kNewest + 2) + ", this divvy supports up to " + std::to_string(kNewest);
  EXPECT_TRUE(Has(opened.error().message, said)) << opened.error().message;
  EXPECT_EQ(ReadFile(path), before);
}

TEST(Rows, ListsAreReadBackFromTheirText) {
  const std::vector<Dependency> dependencies = {
      {DependencyKind::kAfter, JobId(14), 3, 60s},
      {DependencyKind::kAfterOk, JobId(12), {}, 0s},
      {DependencyKind::kAfter, JobId(9), 2, 1s, DependencyStatus::kSatisfied},
      {DependencyKind::kAfterOk, JobId(8), {}, 0s, DependencyStatus::kImpossible},
      {DependencyKind::kSingleton, JobId(), {}, 0s}};
  EXPECT_EQ(DependenciesToText(dependencies),
            "after:14_3+60000000000,after_ok:12,after:9_2+1000000000=satisfied,after_ok:8=impossible,singleton");
  EXPECT_EQ(DependenciesFromText(DependenciesToText(dependencies)), dependencies);
  EXPECT_EQ(DependenciesToText({}), "");
  for (const char* wrong :
       {"before:3", "after:x", "after:1_", "after:1_-2", "after:1+", ",", "after:", "after:1=", "after:1=open"}) {
    EXPECT_FALSE(DependenciesFromText(wrong)) << wrong;
  }
}

TEST(Rows, RangesWithAStepStayShort) {
  const auto text = [](const char* ranges) { return RangesToText(Must(IndexRanges::Parse(ranges, "test"))); };
  EXPECT_EQ(text("0-99"), "0-99");
  EXPECT_EQ(text("0-96:4"), "0-96:4");
  EXPECT_EQ(text("1,3,5-9,20-40:10,50,99"), "1,3,5-9,20-50:10,99");
  EXPECT_EQ(text("0,2"), "0,2");
  IndexRanges odd;
  for (std::uint32_t i = 1; i < 1'000'000; i += 2) odd.Insert(i);
  EXPECT_LT(RangesToText(odd).size(), 100u);
  EXPECT_EQ(Must(IndexRanges::Parse(RangesToText(odd), "test")), odd);
}

TEST(Readers, SeeWholeCommitsWhileTheWriterContinues) {
  TemporaryFolder folder;
  auto store = MustOpen(folder.File("divvy.db"));
  constexpr std::uint64_t kJobs = 400;
  std::thread writer([&] {
    for (std::uint64_t id = 1; id < kJobs; id += 2) MustCommit(*store, {Insert({Job(id)}), Insert({Job(id + 1)})});
  });
  std::size_t seen = 0;
  bool has_failed = false;
  while (seen < kJobs && !has_failed) {
    const std::size_t now = Must(store->History({})).size();
    has_failed = now < seen || now % 2 != 0;
    seen = now;
  }
  writer.join();
  EXPECT_FALSE(has_failed) << "saw " << seen << " jobs";
}

}  // namespace sqlite_store_test
}  // namespace divvy
