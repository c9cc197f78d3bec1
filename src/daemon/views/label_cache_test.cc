// Labels that only specifications hold, for listings and actions: cached, read again, and used as filters.
#include "daemon/views/label_cache.h"

#include <gtest/gtest.h>

#include "daemon/views/job_selector.h"
#include "platform/os/clock.h"
#include "store/store_fake.h"

namespace divvy {
namespace label_cache_test {

class CountingStore : public MemoryStore {
 public:
  Result<JobSpec> Spec(JobId id) override {
    ++reads;
    return MemoryStore::Spec(id);
  }
  int reads = 0;
};

class NoCommands : public NodeCommandPort {
 public:
  void Execute(const NodeCommand&, std::shared_ptr<const JobSpec>) override {}
};

/// A core that commits at once, over a store that outlives it.
struct World {
  explicit World(CountingStore& s) : store(s) {
    auto loaded = store.Load();
    controller.Load(std::move(loaded->live), loaded->settings, loaded->next_id, loaded->jobs_total, driver.Outcomes());
  }

  JobId Submit(const std::string& pool, const std::string& qos = "") {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "job";
    spec.is_held = true;
    spec.pool = pool;
    if (!qos.empty()) spec.labels["slurm.qos"] = qos;
    const SpecLabels given = LabelsOf(spec);
    const auto result = controller.Submit(std::move(spec), 0, caller, clock.Now(), driver.Outcomes());
    labels.Learn(result->id, given);
    static_cast<void>(store.Commit({controller.TakeEffects().batch}));
    return result->id;
  }
  std::vector<JobId> Select(const wire::JobSelector& select) { return *SelectIds(driver, labels, select, caller); }

  CountingStore& store;
  FakeClock clock{TimeFromSeconds(1'000'000)};
  Controller controller{Policy(), Limits(), 1};
  NoCommands commands;
  ControllerDriver driver{controller, store, clock, commands, {}};
  LabelCache labels{driver};
  Caller caller{{1000, 1000, "ada"}, false};
};

TEST(LabelCache, ACacheTakesOverWhatAnotherHasRead) {
  CountingStore store;
  const JobId job = World(store).Submit("a100");
  World before(store);
  EXPECT_EQ(before.labels.Of(*before.controller.Find(job)).pool, "a100");
  World after(store);
  after.labels.Inherit(before.labels);
  const int reads = store.reads;
  EXPECT_EQ(after.labels.Of(*after.controller.Find(job)).pool, "a100");
  EXPECT_EQ(store.reads, reads);
}

TEST(LabelCache, LabelsAreCachedFromTheSubmission) {
  CountingStore store;
  World world(store);
  const JobId plain = world.Submit("");
  const JobId labelled = world.Submit("gpu", "high");
  EXPECT_EQ(world.labels.Of(*world.controller.Find(labelled)), (SpecLabels{"gpu", "", "high"}));
  EXPECT_EQ(world.labels.Of(*world.controller.Find(plain)), SpecLabels());
  EXPECT_EQ(store.reads, 0);
}

TEST(LabelCache, LabelsAreReadOnceAfterARestart) {
  CountingStore store;
  const JobId before = World(store).Submit("gpu");
  World world(store);
  const JobId after = world.Submit("cpu");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.labels.Of(*world.controller.Find(before)).pool, "gpu");
  EXPECT_EQ(store.reads, 1);
  EXPECT_EQ(world.labels.Of(*world.controller.Find(after)).pool, "cpu");
  EXPECT_EQ(store.reads, 1);
}

TEST(LabelCache, LabelsCanBeReadAheadOfAListing) {
  CountingStore store;
  JobId before;
  {
    World first(store);
    before = first.Submit("gpu");
    first.Submit("cpu");
  }
  World world(store);
  const auto unknown = world.labels.UnknownAmong(world.controller.live());
  EXPECT_EQ(unknown.size(), 2U);
  world.labels.Read(unknown, store);
  EXPECT_TRUE(world.labels.UnknownAmong(world.controller.live()).empty());
  EXPECT_EQ(world.labels.Of(*world.controller.Find(before)).pool, "gpu");
  EXPECT_EQ(store.reads, 2);
}

TEST(SelectIds, ActionsSelectJobsByLabel) {
  CountingStore store;
  World world(store);
  const JobId gpu = world.Submit("gpu");
  const JobId cpu = world.Submit("cpu");
  const JobId none = world.Submit("");
  wire::JobSelector select;
  select.pools = {"gpu"};
  EXPECT_EQ(world.Select(select), std::vector<JobId>{gpu});
  select.pools = {"cpu", ""};
  EXPECT_EQ(world.Select(select), (std::vector<JobId>{cpu, none}));
}

TEST(LabelCache, AJobIsInThePoolThatItRunsInOrInAllThatItNames) {
  JobRecord record;
  record.state = JobState::kQueued;
  const SpecLabels labels{"a,b", "", ""};
  const auto is_in = [&](const std::string& pool) {
    wire::JobSelector select;
    select.pools = {pool};
    return LabelCache::Passes(record, labels, select);
  };
  EXPECT_TRUE(is_in("a") && is_in("b"));
  EXPECT_FALSE(is_in("c"));
  record.state = JobState::kRunning;
  record.started = TimeFromSeconds(1);
  record.pool_of_run = "b";
  EXPECT_FALSE(is_in("a"));
  EXPECT_TRUE(is_in("b"));
  record.request.others.resize(2);
  record.request.others[1].pool = "c";
  EXPECT_TRUE(is_in("c")) << "one of its components is";
  EXPECT_FALSE(is_in("a"));
}

TEST(SelectIds, IdsAreNarrowedByFilters) {
  CountingStore store;
  World world(store);
  const JobId held = world.Submit("gpu");
  wire::JobSelector select;
  select.ids = {ToString(held)};
  EXPECT_EQ(world.Select(select), std::vector<JobId>{held});
  select.states = {"running"};
  EXPECT_TRUE(world.Select(select).empty());
  select.states = {"held"};
  EXPECT_EQ(world.Select(select), std::vector<JobId>{held});
  select.pools = {"cpu"};
  EXPECT_TRUE(world.Select(select).empty());
}

TEST(SelectIds, AnIdSelectsAnotherUsersJobToo) {
  CountingStore store;
  World world(store);
  const JobId id = world.Submit("");
  world.caller.user = {1001, 1001, "bob"};
  wire::JobSelector select;
  select.ids = {ToString(id)};
  select.states = {"held"};
  EXPECT_EQ(world.Select(select), std::vector<JobId>{id});
}

}  // namespace label_cache_test
}  // namespace divvy
