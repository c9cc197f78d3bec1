// The contract of every store: the same tests run on both databases and on the store in memory.
#include <gtest/gtest.h>

#include "store/postgres/postgres_test_server.h"
#include "store/store_fake.h"
#include "store/store_test_support.h"

namespace divvy {
namespace store_contract_test {

using IdList = std::vector<std::uint64_t>;

enum class Kind { kSqlite, kMemory, kPostgres };
std::string NameOf(Kind kind) {
  constexpr const char* kNames[] = {"Sqlite", "Memory", "Postgres"};
  return kNames[static_cast<int>(kind)];
}
void PrintTo(Kind kind, std::ostream* out) { *out << NameOf(kind); }

class StoreContract : public testing::TestWithParam<Kind> {
 protected:
  // Starting a server takes seconds, so all tests of one process use the same one.
  static TestServer& Server() {
    if (server_ == nullptr) server_ = std::make_unique<TestServer>();
    return *server_;
  }
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (GetParam() == Kind::kMemory) {
      store_ = MakeMemoryStore();
      return;
    }
    if (GetParam() == Kind::kPostgres) {
      if (const std::string missing = TestServer::Missing(); !missing.empty()) GTEST_SKIP() << missing;
      static int databases = 0;
      url_ = Server().Url("contract" + std::to_string(++databases));
    }
    Open();
  }
  void Open() {
    auto opened = url_.empty() ? OpenSqliteStore(folder_.File("divvy.db"))
                               : OpenPostgresStore({.url = url_, .cluster = "a", .cluster_file = ""});
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  /// Simulates a restart of the daemon.
  Store::Loaded Restart() {
    if (GetParam() != Kind::kMemory) {
      store_.reset();
      Open();
    }
    return Must(store_->Load());
  }

  inline static std::unique_ptr<TestServer> server_;
  TemporaryFolder folder_;
  std::string url_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::Values(Kind::kSqlite, Kind::kMemory, Kind::kPostgres),
                         [](const auto& one) { return NameOf(one.param); });

TEST(StoreKinds, ArePrintedByName) { EXPECT_EQ(testing::PrintToString(Kind::kPostgres), "Postgres"); }

JobRecord RecordWithEverything() {
  JobRecord record = Job(7, "naïve 'name'; --");
  record.state = JobState::kStopping;
  record.user = {0, 5, "root"};
  record.request = {.gpus = 4,
                    .gpu_type = "h100|a100",
                    .gpu_memory = 40_GiB,
                    .cpus = 3,
                    .memory = 1_GiB,
                    .tasks = 2,
                    .max_gpus = 8,
                    .topology = TopologyNeed::kNvlink,
                    .requires_topology = true};
  record.takes_resizes = true;
  record.gpus_asked_back = GpuSet::Of({1});
  record.asked_back_at = Time(77ns);
  record.gpus_used = GpuSet::Of({0, 63});
  record.gpus_since = Time(78ns);
  record.grown_at = Time(79ns);
  Component component;
  component.gpus = 2;
  component.gpu_type = "a100";
  component.nodes = component.tasks = 3;
  component.node_list = {"n1", "n2", "n3"};
  component.pool = "small";
  component.labels = {{"slurm.ntasks", "3"}};
  component.short_nodes = 2;
  record.request.others = {component, Component()};
  record.request.short_nodes = 1;
  record.request.portion = {GpuShare(2'500), GpuShare(8'000), 1_GiB, 2_GiB, GpuShare(1), GpuShare(3), 10s, true};
  record.request.slice = "1g.18gb";
  record.gpu_parts = GpuShare(2'500);
  record.gpu_slice = {"1g.18gb", 1, 1, 6};
  record.node = "n1";
  record.gang = {{"n1", GpuSet::Of({0, 2}), 2, 4711, std::nullopt, {{0, GpuSet::Of({0}), 1}, {1, GpuSet::Of({2}), 1}}}};
  record.gang.front().loss = PartLoss{Time(82us), true};
  record.was_let_go = true;
  record.stale_grace = -1ns;
  record.shape = "python train.py";
  record.gpu_model = "NVIDIA H100 80GB HBM3";
  record.progress = {Time(80ns), 350'000'000, 35, 100, Time(81ns), 1};
  record.priority = -7;
  record.waits_since = kNoon + 4ns;
  record.begin = kNoon + 1ns;
  record.end_by = kNoon + 5ns;
  record.full_limit = 6ns;
  record.started = kNoon + 2ns;
  record.ended = kNoon + 3ns;
  record.time_limit = Duration::max();
  record.gpus = GpuSet::FromBits(~std::uint64_t{0});
  record.attempt = UINT32_MAX;
  record.restarts = 2;
  record.retries_used = 1;
  record.exit = Exit{.code = 137,
                     .signal = 9,
                     .was_oom_killed = true,
                     .hit_time_limit = true,
                     .is_known = false,
                     .failure = "no such program",
                     .cpu_time = 5s,
                     .memory_peak = 3_GiB};
  record.reason = "is being stopped";
  record.start_reason = "4 GPUs were free";
  record.project = "vision";
  record.comment = "line 1\nline 2";
  record.group = "sweep";
  record.dialect = Dialect::kValohai;
  record.dependencies = {{DependencyKind::kAfter, JobId(3), 17, 60s},
                         {DependencyKind::kAfterNotOk, JobId(4), {}, 0s, DependencyStatus::kSatisfied},
                         {DependencyKind::kSingleton, JobId(), {}, 0s}};
  record.needs_any_dependency = record.keeps_waiting = record.is_held = record.is_foreground = true;
  record.wants_pty = record.requeues_after_reboot = record.is_placement_set = true;
  record.retries = 5;
  record.retry_delay = 10s;
  record.placement = PlacementStrategy::kBest;
  record.team = "vision/inference";
  record.pool = "big,small";
  record.pool_of_run = "small";
  record.preemptible = Preemptible::kRequeue;
  record.is_preemptible_set = true;
  record.array_count = 1'000'000;
  record.array_at_once = 8;
  record.stop_intent = StopIntent::kRequeue;
  record.array_succeeded = 3;
  record.array_failed = 4;
  record.array_cancelled = 5;
  record.array_exit_code = 137;
  record.array_waiting = IndexRanges(5, 999'999);
  for (std::uint32_t i = 0; i < 4'000'000; i += 4) record.array_indices.Insert(i);
  return record;
}

TEST_P(StoreContract, EmptyStoreStartsWithTheFirstId) {
  const auto loaded = Must(store_->Load());
  EXPECT_TRUE(loaded.live.empty());
  EXPECT_TRUE(loaded.settings.empty());
  EXPECT_EQ(loaded.next_id, 1u);
  EXPECT_EQ(loaded.jobs_total, 0u);
  EXPECT_TRUE(store_->Commit({}));
  EXPECT_TRUE(store_->Commit({Batch(), Batch()}));
}

TEST_P(StoreContract, EveryFieldOfARecordSurvivesARestart) {
  const JobRecord record = RecordWithEverything();
  MustCommit(*store_, {Insert({record})});
  const auto loaded = Restart();
  ASSERT_EQ(loaded.live.size(), 1u);
  EXPECT_EQ(loaded.live.begin()->second, record);
  EXPECT_EQ(Must(store_->Find(JobId(7))), record);
}

TEST_P(StoreContract, EveryNumberOfAnEnumerationSurvivesARestart) {
  std::vector<JobRecord> all;
  const auto add = [&all](auto& field, auto last) {
    for (int value = 0; value <= static_cast<int>(last); ++value) {
      all.push_back(Job(all.size() + 1));
      // Sets the field in the record that was just added.
      field(all.back()) = static_cast<decltype(last)>(value);
    }
  };
  auto topology = [](JobRecord& record) -> TopologyNeed& { return record.request.topology; };
  auto placement = [](JobRecord& record) -> PlacementStrategy& { return record.placement; };
  auto preemptible = [](JobRecord& record) -> Preemptible& { return record.preemptible; };
  auto intent = [](JobRecord& record) -> StopIntent& { return record.stop_intent; };
  add(topology, TopologyNeed::kBlock);
  add(placement, PlacementStrategy::kBest);
  add(preemptible, Preemptible::kRequeue);
  add(intent, StopIntent::kRequeue);
  MustCommit(*store_, {Insert(all)});
  EXPECT_EQ(Restart().live, Live(all));
}

TEST_P(StoreContract, ARecordOfDefaultsIsReadBack) {
  JobRecord record;
  record.id = record.spec_of = JobId(1);
  MustCommit(*store_, {Insert({record})});
  EXPECT_EQ(Must(store_->Find(JobId(1))), record);
}

TEST_P(StoreContract, UpdateReplacesTheWholeRecord) {
  MustCommit(*store_, {Insert({Job(1), Job(2)})});
  JobRecord changed = RecordWithEverything();
  changed.id = changed.spec_of = JobId(2);
  MustCommit(*store_, {Update({changed})});
  EXPECT_EQ(Must(store_->Find(JobId(1))), Job(1));
  EXPECT_EQ(Must(store_->Find(JobId(2))), changed);
  changed.exit.reset();  // Runs again.
  MustCommit(*store_, {Update({changed})});
  EXPECT_EQ(Must(store_->Find(JobId(2))), changed);
}

TEST_P(StoreContract, BatchesOfOneCommitApplyInOrder) {
  JobRecord later = Job(1);
  later.state = JobState::kRunning;
  MustCommit(*store_, {Insert({Job(1)}), Update({later}), Update({Ended(later, kNoon)}), Update({later})});
  EXPECT_EQ(Must(store_->Find(JobId(1))).state, JobState::kRunning);
}

TEST_P(StoreContract, OnlyJobsThatAreNotFinalAreLoaded) {
  MustCommit(*store_, {Insert({Job(3), Job(1), Ended(Job(2), kNoon), Ended(Job(4), kNoon, JobState::kLost)})});
  EXPECT_EQ(Ids(Restart().live), (IdList{1, 3}));
  MustCommit(*store_, {Update({Ended(Job(1), kNoon, JobState::kCancelled)})});
  EXPECT_EQ(Ids(Restart().live), (IdList{3}));
  EXPECT_EQ(Must(store_->Find(JobId(1))).state, JobState::kCancelled);
}

TEST_P(StoreContract, UnknownJobIsNotFound) {
  MustCommit(*store_, {Insert({Job(1)})});
  EXPECT_EQ(store_->Find(JobId(2)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->Spec(JobId(2)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(Must(store_->HistoryOf(JobId(2))).empty());
}

TEST_P(StoreContract, AnInvalidBatchLeavesNothingOfItsCommit) {
  MustCommit(*store_, {Insert({Job(1)})});
  EXPECT_EQ(store_->Commit({Insert({Job(2)}), Insert({Job(1)})}).error().code, ErrorCode::kInternal);
  EXPECT_EQ(store_->Commit({Insert({Job(2)}), Update({Job(9)})}).error().code, ErrorCode::kInternal);
  Batch no_spec = Insert({Job(2)});
  no_spec.inserts.front().spec = nullptr;
  EXPECT_EQ(store_->Commit({no_spec}).error().code, ErrorCode::kInternal);
  EXPECT_EQ(Ids(Restart().live), (IdList{1}));
  EXPECT_EQ(Must(store_->Load()).jobs_total, 1u);
  MustCommit(*store_, {Insert({Job(2)})});
}

TEST_P(StoreContract, IdCounterContinuesAfterARestart) {
  Batch batch = Insert({Job(1)});
  batch.next_id = 40;
  Batch later;
  later.next_id = 41;
  MustCommit(*store_, {batch, later, Insert({Job(2)})});
  EXPECT_EQ(Restart().next_id, 41u);
}

TEST_P(StoreContract, IdCounterIsNeverBelowAUsedId) {
  JobRecord array = Job(5);
  array.array_count = 10;
  MustCommit(*store_, {Insert({array})});
  EXPECT_EQ(Restart().next_id, 16u);
}

TEST_P(StoreContract, JobsTotalCountsElementsOnceAndIncludesOldJobs) {
  JobRecord array = Job(2);
  array.array_count = 10;
  MustCommit(*store_, {Insert({Ended(Job(1), kNoon), array})});
  MustCommit(*store_, {Insert({Element(2, 0), Element(2, 1)})});
  EXPECT_EQ(Restart().jobs_total, 11u);
  EXPECT_TRUE(Must(store_->PruneStep(kNever)));
  EXPECT_EQ(Restart().jobs_total, 11u);
}

TEST_P(StoreContract, SettingsAreReplacedAndRemoved) {
  Batch batch;
  batch.settings = {{"restrict", "[0,2]"}, {"ignore", "[]"}, {"restrict", "[0]"}};
  MustCommit(*store_, {batch});
  using Settings = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(Restart().settings, (Settings{{"ignore", "[]"}, {"restrict", "[0]"}}));
  batch.settings = {{"ignore", ""}, {"unknown", ""}};
  MustCommit(*store_, {batch});
  EXPECT_EQ(Restart().settings, (Settings{{"restrict", "[0]"}}));
}

TEST_P(StoreContract, SpecificationIsReadBackWithItsEnvironment) {
  auto spec = Spec("train.py");
  spec->script = "#!/bin/sh\nprintf '\\t\"%s\"\\n' \"$1\"\n";
  spec->grace = 5s;
  spec->array = ArraySpec{IndexRanges(0, 99), 8};
  spec->capture = {{"A=1", "B=\"quoted\""}, {{"nofile", -1}}, 077};
  auto other = Spec("other.py");
  other->capture = spec->capture;
  Batch batch;
  batch.inserts = {{Job(1), spec}, {Job(2), other}, {Job(3), Spec("plain.py")}};
  MustCommit(*store_, {batch});
  Restart();
  EXPECT_EQ(Must(store_->Spec(JobId(1))), *spec);
  EXPECT_EQ(Must(store_->Spec(JobId(2))), *other);
  EXPECT_EQ(Must(store_->Spec(JobId(3))), *Spec("plain.py"));
}

TEST_P(StoreContract, ElementsShareTheSpecificationOfTheirArray) {
  JobRecord array = Job(1);
  array.array_count = 100;
  MustCommit(*store_, {Insert({array, Element(1, 7)})});
  EXPECT_EQ(Must(store_->Spec(ElementId(JobId(1), 7))), *Spec());
  Batch batch;
  batch.spec_updates = {{JobId(1), Spec("changed")}};
  MustCommit(*store_, {batch});
  Restart();
  EXPECT_EQ(Must(store_->Spec(ElementId(JobId(1), 7))).command, std::vector<std::string>{"changed"});
}

TEST_P(StoreContract, HistoryOfAJobKeepsItsOrderWithinOneInstant) {
  Batch first;
  first.history = {{JobId(1), kNoon, "queued"}, {JobId(2), kNoon, "queued"}, {JobId(1), kNoon, "starting"}};
  Batch second;
  second.history = {{JobId(1), kNoon, "running"}};
  MustCommit(*store_, {first, second});
  Restart();
  std::vector<std::string> texts;
  for (const auto& line : Must(store_->HistoryOf(JobId(1)))) {
    EXPECT_EQ(line.job, JobId(1));
    EXPECT_EQ(line.at, kNoon);
    texts.push_back(line.text);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"queued", "starting", "running"}));
}

TEST_P(StoreContract, PastRunsShowTheJobAsItWasInEachRun) {
  JobRecord job = Job(7, "train");
  ASSERT_TRUE(store_->Commit({Insert({job})}));
  JobRecord first = job;
  first.attempt = 1;
  first.state = JobState::kFailed;
  first.waits_since = kNoon;
  first.started = kNoon + 1s;
  first.ended = kNoon + 10s;
  first.node = "n1";
  first.gang = {{"n1", GpuSet::Of({0, 2}), 2, 4711, std::nullopt, {}}, {"n2", GpuSet::Of({1}), 1, 0, std::nullopt, {}}};
  first.gpus = GpuSet::Of({0, 2});
  first.gpu_model = "NVIDIA H100 80GB HBM3";
  first.gpu_parts = GpuShare(2'500);
  first.gpu_slice = {"1g.18gb", 1, 1, 6};
  first.pool_of_run = "small";
  first.begin = kNoon + 500ms;
  JobRecord second = job;
  second.attempt = 2;
  second.state = JobState::kCancelled;
  second.started = kNoon + 20s;
  second.ended = kNoon + 30s;
  Batch batch;
  batch.past_runs = {first, second};
  job.name = "called otherwise since";
  batch.updates = {job};
  ASSERT_TRUE(store_->Commit({batch}));
  Restart();
  first.name = second.name = job.name;
  EXPECT_EQ(Must(store_->PastRuns(kNoTime, 10)), (std::vector<JobRecord>{second, first}));
  EXPECT_EQ(Must(store_->PastRuns(kNoTime, 1)), std::vector<JobRecord>{second});
  EXPECT_EQ(Must(store_->PastRuns(kNoon + 11s, 10)), std::vector<JobRecord>{second});
  job.state = JobState::kSucceeded;
  job.ended = kNoon + 40s;
  batch = Batch();
  batch.updates = {job};
  ASSERT_TRUE(store_->Commit({batch}));
  ASSERT_TRUE(store_->Prune(kNoon + 1h));
  EXPECT_TRUE(Must(store_->PastRuns(kNoTime, 10)).empty()) << "they go with their job";
}

TEST_P(StoreContract, LatestHistoryCoversAllJobsAndNodes) {
  ASSERT_TRUE(store_->Commit({Insert({Job(7, "a"), Job(8, "b")})}));
  Batch batch;
  batch.history = {{JobId(7), kNoon, "one"}, {JobId(), kNoon + 1s, "GPU 3 is fenced"}, {JobId(8), kNoon, "three"}};
  ASSERT_TRUE(store_->Commit({batch}));
  Restart();
  const auto texts = [&](std::uint64_t limit) {
    std::vector<std::string> all;
    for (const Batch::HistoryLine& line : Must(store_->LatestHistory(limit)))
      all.push_back((line.job.is_set() ? ToString(line.job) : "-") + " " + line.text);
    return all;
  };
  EXPECT_EQ(texts(10), (std::vector<std::string>{"8 three", "- GPU 3 is fenced", "7 one"}));
  EXPECT_EQ(texts(1), std::vector<std::string>{"8 three"});
  ASSERT_TRUE(store_->Prune(kNoon + 1s));
  EXPECT_EQ(texts(10).size(), 3U);
  ASSERT_TRUE(store_->Prune(kNoon + 2s));
  EXPECT_EQ(texts(10), (std::vector<std::string>{"8 three", "7 one"}));
}

TEST_P(StoreContract, HistoryIsNewestFirstAndFiltered) {
  JobRecord eva = Ended(Job(2, "eval"), kNoon + 10s, JobState::kFailed);
  eva.user = {1001, 1001, "eva"};
  eva.project = "vision";
  eva.group = "sweep";
  JobRecord array = Job(4, "array");
  array.array_count = 2;
  MustCommit(*store_, {Insert({Ended(Job(1), kNoon + 5s), eva, Job(3), array, Element(4, 0, "array")})});
  const auto found = [&](const HistoryFilter& filter) { return Ids(Must(store_->History(filter))); };
  EXPECT_EQ(found({}), (IdList{5, 4, 3, 2, 1}));
  EXPECT_EQ(found({.limit = 2}), (IdList{5, 4}));
  EXPECT_EQ(found({.user = "eva"}), (IdList{2}));
  EXPECT_EQ(found({.user = "' OR 1 --"}), (IdList{}));
  EXPECT_EQ(found({.name = "train"}), (IdList{3, 1}));
  EXPECT_EQ(found({.project = "vision"}), (IdList{2}));
  EXPECT_EQ(found({.group = "sweep"}), (IdList{2}));
  EXPECT_EQ(found({.user = "ada", .project = "vision"}), (IdList{}));
  EXPECT_EQ(found({.states = {JobState::kQueued}}), (IdList{5, 4, 3}));
  EXPECT_EQ(found({.states = {JobState::kSucceeded, JobState::kFailed}}), (IdList{2, 1}));
  EXPECT_EQ(found({.array = JobId(4)}), (IdList{5}));
  EXPECT_EQ(found({.ids = std::pair(JobId(2), JobId(5))}), (IdList{4, 3, 2})) << "an array is one";
  EXPECT_EQ(found({.user = "eva", .ids = std::pair(JobId(1), JobId(9))}), (IdList{2}));
}

TEST_P(StoreContract, HistorySinceUsesTheEndOrElseTheSubmission) {
  MustCommit(*store_, {Insert({Ended(Job(1), kNoon + 5s), Ended(Job(2), kNoon + 10s), Job(3)})});
  const auto since = [&](Time time) { return Ids(Must(store_->History({.since = time}))); };
  EXPECT_EQ(since(kNoon), (IdList{3, 2, 1}));
  EXPECT_EQ(since(kNoon + 3ns), (IdList{3, 2, 1}));
  EXPECT_EQ(since(kNoon + 4ns), (IdList{2, 1}));
  EXPECT_EQ(since(kNoon + 10s), (IdList{2}));
  EXPECT_EQ(since(kNoon + 11s), (IdList{}));
}

TEST_P(StoreContract, LastOfCountsBackThroughTheUsersOwnJobsWithoutElements) {
  JobRecord eva = Job(2);
  eva.user.uid = 1001;
  JobRecord array = Job(3);
  array.array_count = 2;
  MustCommit(*store_, {Insert({Job(1), eva, array, Element(3, 0), Element(3, 1)})});
  EXPECT_EQ(Must(store_->LastOf(1000, 0)), JobId(3));
  EXPECT_EQ(Must(store_->LastOf(1000, 1)), JobId(1));
  EXPECT_EQ(Must(store_->LastOf(1000, 2)), std::nullopt);
  EXPECT_EQ(Must(store_->LastOf(1001, 0)), JobId(2));
  EXPECT_EQ(Must(store_->LastOf(1002, 0)), std::nullopt);
}

TEST_P(StoreContract, NamedReturnsTheNewestHundredOfThatName) {
  std::vector<JobRecord> jobs;
  for (std::uint64_t id = 1; id <= 150; ++id) jobs.push_back(Job(id, id % 50 == 0 ? "eval" : "train"));
  jobs[49].user.name = "eva";
  MustCommit(*store_, {Insert(jobs)});
  EXPECT_EQ(Must(store_->Named("eval", "")), (std::vector{JobId(150), JobId(100), JobId(50)}));
  EXPECT_EQ(Must(store_->Named("eval", "eva")), (std::vector{JobId(50)}));
  EXPECT_TRUE(Must(store_->Named("Eval", "")).empty());
  const auto trains = Must(store_->Named("train", "ada"));
  ASSERT_EQ(trains.size(), 100u);
  EXPECT_EQ(trains.front(), JobId(149));
}

TEST_P(StoreContract, AnArraysNameFindsTheArrayAndRenamedElementsAreFoundThemselves) {
  JobRecord array = Job(1, "sweep");
  array.array_count = 3;
  MustCommit(*store_, {Insert({array, Element(1, 0, "sweep"), Element(1, 1, "sweep-1e-3")})});
  EXPECT_EQ(Must(store_->Named("sweep", "")), (std::vector{JobId(1)}));
  EXPECT_EQ(Must(store_->Named("sweep-1e-3", "")), (std::vector{JobId(3)}));
  MustCommit(*store_, {Update({Element(1, 0, "mine")})});
  EXPECT_EQ(Must(store_->Named("mine", "")), (std::vector{JobId(2)}));
}

TEST_P(StoreContract, PruneRemovesOldFinalJobsOnly) {
  Batch batch = Insert({Ended(Job(1), kNoon), Ended(Job(2), kNoon + 60s), Job(3)});
  batch.history = {{JobId(1), kNoon, "queued"}, {JobId(2), kNoon, "queued"}};
  MustCommit(*store_, {batch});
  EXPECT_TRUE(store_->Prune(kNoon + 30s));
  EXPECT_EQ(Ids(Must(store_->History({}))), (IdList{3, 2}));
  EXPECT_EQ(store_->Spec(JobId(1)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(Must(store_->HistoryOf(JobId(1))).empty());
  EXPECT_EQ(Must(store_->HistoryOf(JobId(2))).size(), 1u);
  EXPECT_EQ(Must(store_->Spec(JobId(2))), *Spec());
}

TEST_P(StoreContract, PruneKeepsAnArrayUntilItsLastElementIsOld) {
  JobRecord array = Job(1);
  array.array_count = 2;
  array = Ended(array, kNoon);
  MustCommit(*store_, {Insert({array, Ended(Element(1, 0), kNoon), Ended(Element(1, 1), kNoon + 60s)})});
  EXPECT_TRUE(store_->Prune(kNoon + 30s));
  EXPECT_EQ(Ids(Must(store_->History({}))), (IdList{3, 1}));
  EXPECT_EQ(Must(store_->Spec(JobId(3))), *Spec());
  EXPECT_TRUE(store_->Prune(kNoon + 61s));
  EXPECT_TRUE(Must(store_->History({})).empty());
}

TEST_P(StoreContract, PruneContinuesInStepsUntilNothingIsLeft) {
  std::vector<JobRecord> jobs;
  for (std::uint64_t id = 1; id <= 2'500; ++id) jobs.push_back(Ended(Job(id), kNoon + Duration(id)));
  MustCommit(*store_, {Insert(jobs)});
  EXPECT_TRUE(Must(store_->PruneStep(kNever)));
  EXPECT_EQ(Must(store_->History({})).size(), 1'500u);
  EXPECT_TRUE(Must(store_->PruneStep(kNever)));
  EXPECT_TRUE(Must(store_->PruneStep(kNever)));
  EXPECT_FALSE(Must(store_->PruneStep(kNever)));
  EXPECT_TRUE(Must(store_->History({})).empty());
}

TEST(MemoryStore, AFullDiskKeepsNothingAndTheNextCommitWorks) {
  const auto store = MakeMemoryStore();
  store->FailNextCommit();
  EXPECT_EQ(store->Commit({Insert({Job(1)})}).error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(Must(store->Load()).live.empty());
  MustCommit(*store, {Insert({Job(1)})});
  EXPECT_EQ(store->commits(), 1u);
}

}  // namespace store_contract_test
}  // namespace divvy
