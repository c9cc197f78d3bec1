// Pools: who may use them, limits per job and in total, and which of several pools a job gets.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_pools_test {

using namespace std::chrono_literals;

PoolRow Pool(const std::string& name, std::vector<std::string> nodes) {
  PoolRow row;
  row.name = name;
  row.nodes = std::move(nodes);
  return row;
}

/// Nodes n1 and n2 with 4 GPUs and 8 CPUs each, n3 with 2 GPUs and 4 CPUs; the controller's own machine has none.
struct Pools : ::testing::Test {
  void Make(std::vector<PoolRow> rows) {
    const Status made = world_.controller_.UsePools(std::move(rows));
    ASSERT_TRUE(made) << made.error().message;
    world_.controller_.SetOwnName("head");
    for (const auto& [name, gpus, cpus] : {std::tuple("n1", 4, 8), std::tuple("n2", 4, 8), std::tuple("n3", 2, 4)}) {
      world_.controller_.OnNodeRow(MachineRow(name, gpus, cpus));
      world_.controller_.OnNodeReconciled(name);
    }
  }
  JobSpec Spec(const std::string& pool, int gpus) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "job";
    spec.pool = pool;
    spec.request.gpus = gpus;
    return spec;
  }
  /// The error; "" if the job is queued.
  std::string Submit(JobSpec spec, std::uint64_t elements = 0) {
    const auto done =
        world_.controller_.Submit(std::move(spec), elements, world_.ada_, world_.now_, World::NoHistory());
    last_ = done ? done->id : JobId();
    return done ? "" : done.error().message;
  }
  std::string Submit(const std::string& pool, int gpus) { return Submit(Spec(pool, gpus)); }
  const JobRecord& Of(JobId id) { return world_.controller_.live().at(id); }
  /// "n1 in big" for the job submitted last; "" while it waits.
  std::string Place() {
    world_.Turn();
    const JobRecord& record = Of(last_);
    return IsActive(record.state) ? record.node + " in " + record.pool_of_run : "";
  }
  std::string Why(JobId id) { return world_.controller_.WaitingReason(Of(id)); }
  void End(JobId id) { world_.controller_.OnExited(id, Of(id).attempt, Exit(), world_.now_, world_.now_, Of(id).node); }

  World world_{0};
  JobId last_;
};

TEST_F(Pools, UnusablePoolsOfAListAreNamedWithTheReason) {
  PoolRow capped = Pool("capped", {"n1"});
  capped.running = 1;
  PoolRow down = Pool("down", {"n2"});
  down.state = PoolState::kDown;
  Make({capped, down, Pool("open", {"n3"})});
  EXPECT_EQ(Submit("capped", 1), "");
  EXPECT_EQ(Place(), "n1 in capped");
  EXPECT_EQ(Submit("open", 2), "");
  EXPECT_EQ(Place(), "n3 in open");
  EXPECT_EQ(Submit("capped,down,open", 1), "");
  EXPECT_EQ(Place(), "");
  EXPECT_EQ(
      world_.controller_.ClosedPools(Of(last_)),
      (std::vector<std::string>{"pool capped runs 1 of at most 1 job", "pool down starts no jobs: its state is down"}));
  EXPECT_EQ(Submit("open", 1), "");
  EXPECT_TRUE(world_.controller_.ClosedPools(Of(last_)).empty()) << "it names no other";
}

TEST_F(Pools, EachComponentMayNameItsOwnPool) {
  PoolRow small = Pool("small", {"n3"});
  small.max_gpus = 1;
  small.gpus = 3;
  PoolRow whole = Pool("whole", {"n2"});
  whole.is_exclusive = true;
  Make({Pool("big", {"n1", "n2"}), small, whole});
  JobSpec spec = Spec("big", 2);
  spec.request.others.resize(2);
  spec.request.others[0].gpus = 1;
  spec.request.others[0].pool = "small";
  ASSERT_EQ(Submit(spec), "");
  EXPECT_EQ(Place(), "n1 in big");
  std::map<std::string, int> parts;
  for (const NodeAllocation& allocation : Of(last_).gang)
    parts[allocation.node] = static_cast<int>(allocation.parts.size());
  EXPECT_EQ(parts, (std::map<std::string, int>{{"n1", 2}, {"n3", 1}})) << "without a word: the job's own pool";
  // The whole job counts in the pools of its components.
  EXPECT_EQ(world_.controller_.scheduler().group_gpus("pool small"), 3);
  ASSERT_EQ(Submit(spec), "");
  EXPECT_EQ(Place(), "") << "the pool gives three in all";
  // A pool's limit per job applies to the components in that pool.
  spec.request.others[0].gpus = 2;
  EXPECT_NE(Submit(spec).find("pool small gives a job 1 at most"), std::string::npos) << Submit(spec);
  spec.request.others[0].pool = "none";
  EXPECT_NE(Submit(spec).find("there is no pool 'none'"), std::string::npos);
  spec.request.others[0].pool = "whole";
  EXPECT_NE(Submit(spec).find("allocates whole nodes"), std::string::npos);
}

/// Adds a component in each of these pools.
JobSpec WithComponents(JobSpec spec, const std::vector<std::pair<std::string, int>>& others) {
  for (const auto& [pool, gpus] : others) {
    spec.request.others.emplace_back().pool = pool;
    spec.request.others.back().gpus = gpus;
  }
  return spec;
}

TEST_F(Pools, EachComponentIsLimitedByItsOwnPoolFromSubmission) {
  PoolRow cpu = Pool("cpu", {"n1"});
  cpu.max_gpus = 0;
  PoolRow gpu = Pool("gpu", {"n2"});
  gpu.min_gpus = 2;
  Make({cpu, gpu, Pool("small", {"n3"})});
  ASSERT_EQ(Submit(WithComponents(Spec("cpu", 0), {{"gpu", 4}})), "");
  EXPECT_EQ(Place(), "n1 in cpu") << Why(last_);
  End(last_);
  // The pool is changed while the job waits.
  JobSpec held = WithComponents(Spec("small", 0), {{"gpu", 4}});
  held.is_held = true;
  ASSERT_EQ(Submit(held), "");
  JobChanges changes;
  changes.pool = "cpu";
  const auto changed = world_.controller_.Update(last_, changes, world_.ada_, world_.now_, World::NoHistory());
  EXPECT_TRUE(changed) << changed.error().message;
}

TEST_F(Pools, RequestsOfSeveralComponentsInOnePoolAddUp) {
  PoolRow small = Pool("small", {"n3"});
  small.max_gpus = 1;
  Make({Pool("big", {"n1", "n2"}), small});
  const std::string refused = Submit(WithComponents(Spec("big", 0), {{"small", 1}, {"small", 1}}));
  EXPECT_NE(refused.find("asks for 2 GPUs, but pool small gives a job 1 at most"), std::string::npos) << refused;
  EXPECT_NE(Submit(WithComponents(Spec("small", 1), {{"small", 1}})).find("asks for 2 GPUs"), std::string::npos);
  EXPECT_EQ(Submit(WithComponents(Spec("big", 2), {{"small", 1}})), "");
}

TEST_F(Pools, ANodeLimitAppliesToEachComponentAlone) {
  PoolRow small = Pool("small", {"n3"});
  small.max_nodes = 1;
  Make({Pool("big", {"n1", "n2"}), small});
  EXPECT_EQ(Submit(WithComponents(Spec("small", 1), {{"small", 1}})), "") << "both may lie on n3";
  JobSpec wide = WithComponents(Spec("small", 1), {{"small", 1}});
  wide.request.others[0].nodes = wide.request.others[0].tasks = 2;
  EXPECT_EQ(Submit(wide),
            "one of its components asks for 2 nodes, but pool small gives a job 1 at most; give --nodes 1 or fewer");
  EXPECT_EQ(Submit(WithComponents(Spec("small", 1), {{"big", 1}})), "") << "as it says";
}

TEST_F(Pools, APoolThatIsDownHoldsBackAJobWithOneComponentInIt) {
  PoolRow down = Pool("down", {"n2"});
  down.state = PoolState::kDown;
  Make({Pool("up", {"n1"}), down, Pool("next", {"n3"})});
  ASSERT_EQ(Submit(WithComponents(Spec("up", 1), {{"down", 1}})), "");
  EXPECT_EQ(Place(), "");
  EXPECT_NE(Why(last_).find("pool down starts no jobs: its state is down"), std::string::npos) << Why(last_);
  // Among several names, the pool that is up is used.
  ASSERT_EQ(Submit(WithComponents(Spec("up", 1), {{"down,next", 1}})), "");
  EXPECT_EQ(Place(), "n1 in up") << Why(last_);
  ASSERT_EQ(Of(last_).gang.size(), 2U);
  EXPECT_EQ(Of(last_).gang.back().node, "n3");
}

TEST_F(Pools, AComponentCountsInThePoolThatItRunsIn) {
  PoolRow a = Pool("a", {"n2"});
  a.running = 1;
  PoolRow b = Pool("b", {"n3"});
  b.running = 1;
  Make({Pool("head", {"n1"}), a, b});
  const auto machine = [&](JobId job) { return Of(job).gang.empty() ? "" : Of(job).gang.back().node; };
  ASSERT_EQ(Submit(WithComponents(Spec("head", 1), {{"a,b", 1}})), "");
  const JobId first = last_;
  EXPECT_NE(Place(), "");
  EXPECT_EQ(
      world_.controller_.scheduler().group_running("pool a") + world_.controller_.scheduler().group_running("pool b"),
      1)
      << "one has room left";
  ASSERT_EQ(Submit(WithComponents(Spec("head", 1), {{"a,b", 1}})), "");
  EXPECT_NE(Place(), "") << "the other one has room: " << Why(last_);
  EXPECT_NE(machine(first), machine(last_));
  ASSERT_EQ(Submit(WithComponents(Spec("head", 1), {{"a,b", 1}})), "");
  EXPECT_EQ(Place(), "") << "both are full";
}

TEST_F(Pools, PoolsAreDefinedByNodeListsConstraintsAndLabels) {
  PoolRow such = Pool("such", {});
  such.condition = FeatureCondition("fast");
  PoolRow all = Pool("all", {});
  all.has_all = true;
  Make({Pool("listed", {"n2", "n9"}), such, all, Pool("labelled", {})});
  NodeRow row = MachineRow("n1", 4);
  row.labels["pool"] = "labelled,other";
  row.labels["fast"] = "yes";
  world_.controller_.OnNodeRow(row);
  using Names = std::vector<std::string>;
  const Scheduler& server = world_.controller_.scheduler();
  EXPECT_EQ(server.PoolsOf(1), (Names{"all", "labelled", "other", "such"}));
  EXPECT_EQ(server.PoolsOf(2), (Names{"all", "listed"}));
  world_.controller_.OnNodeRow(MachineRow("n1", 4));
  EXPECT_EQ(server.PoolsOf(1), Names{"all"}) << "as it is labelled now";
  world_.controller_.OnNodeRow(row);
  EXPECT_EQ(server.PoolsOf(1), (Names{"all", "labelled", "other", "such"}));
  for (const auto& [pool, place] :
       {std::pair("listed", "n2 in listed"), std::pair("such", "n1 in such"), std::pair("other", "n1 in other")}) {
    EXPECT_EQ(Submit(pool, 1), "");
    EXPECT_EQ(Place(), place);
  }
  EXPECT_NE(Submit("lsited", 1), "");
  EXPECT_NE(Submit("listed", 5), "") << "n2 has 4";
}

TEST_F(Pools, AmongSeveralPoolsTheFirstWithRoomIsUsed) {
  Make({Pool("a", {"n3"}), Pool("b", {"n1"})});
  EXPECT_EQ(Submit("b,a", 2), "");
  EXPECT_EQ(Place(), "n1 in b");
  EXPECT_EQ(Submit("a,b", 2), "");
  EXPECT_EQ(Place(), "n3 in a");
  EXPECT_EQ(Submit("a,b", 2), "");
  EXPECT_EQ(Place(), "n1 in b") << "a is full";
  EXPECT_EQ(Submit("a,b", 2), "");
  const JobId waits = last_;
  EXPECT_EQ(Place(), "");
  End(JobId(1));
  EXPECT_EQ(Place(), "n1 in b") << "whichever has room first";
  EXPECT_EQ(Of(waits).pool, "a,b");
}

TEST_F(Pools, AGangRunsInOnePool) {
  Make({Pool("a", {"n1", "n3"}), Pool("b", {"n1", "n2"})});
  JobSpec spec = Spec("a,b", 3);
  spec.request.nodes = spec.request.tasks = 2;
  EXPECT_EQ(Submit(spec), "");
  EXPECT_EQ(Place(), "n1 in b") << "n3 has too few GPUs";
  spec.pool = "a,c";
  EXPECT_NE(Submit(spec), "");
}

TEST_F(Pools, PoolLimitsApplyToEachJob) {
  PoolRow row = Pool("small", {"n1", "n2"});
  row.max_gpus = 2;
  row.min_gpus = 1;
  row.max_nodes = 1;
  row.max_time = 1h;
  row.default_time = 10min;
  Make({row, Pool("big", {"n1", "n2"})});
  EXPECT_EQ(Submit("small", 3),
            "asks for 3 GPUs, but pool small gives a job 2 at most; ask for fewer, or name another pool with --pool");
  EXPECT_NE(Submit("small", 0).find("pool small is for jobs of 1 at least"), std::string::npos);
  JobSpec spec = Spec("small", 1);
  spec.request.nodes = spec.request.tasks = 2;
  EXPECT_EQ(Submit(spec), "asks for 2 nodes, but pool small gives a job 1 at most; give --nodes 1 or fewer");
  spec = Spec("small", 1);
  spec.time_limit = 2h;
  EXPECT_EQ(Submit(spec), "pool small runs a job for 1 h at most; give --time 1h or less");
  EXPECT_EQ(Submit("small", 1), "");
  EXPECT_EQ(Of(last_).time_limit, 10min);
  spec.pool = "small,big";
  EXPECT_EQ(Submit(spec), "");
  EXPECT_EQ(Place(), "n1 in big") << "the other does not run it for so long";
}

TEST_F(Pools, AJobWithoutATimeLimitGetsThatOfItsPool) {
  PoolRow row = Pool("a", {"n1"});
  row.max_time = 3h;
  Make({row});
  EXPECT_EQ(Submit("a", 1), "");
  EXPECT_EQ(Of(last_).time_limit, 3h);
}

TEST_F(Pools, PoolsAreRestrictedToTheirUsersAndTeams) {
  TeamsFile teams;
  TeamRow vision, detection;
  vision.name = "vision";
  detection.name = "detection";
  detection.parent = "vision";
  detection.users = {"ada"};
  teams.teams = {vision, detection};
  ASSERT_TRUE(world_.controller_.UseTeamsFile(teams));
  PoolRow of_grace = Pool("grace", {"n1"}), of_team = Pool("team", {"n2"});
  of_grace.users = {"grace"};
  of_team.teams = {"vision"};
  Make({of_grace, of_team});
  EXPECT_EQ(Submit("grace", 1),
            "pool grace is for grace, but this job of ada is not theirs; name another pool with --pool");
  EXPECT_EQ(Submit("team", 1), "");
  EXPECT_EQ(Submit("grace,team", 1), "");
  EXPECT_EQ(Of(last_).pool, "team") << "the other is not theirs";
  world_.ada_.is_admin = true;
  EXPECT_EQ(Submit("grace", 1), "");
}

TEST_F(Pools, JobsWithoutAPoolGetTheDefaultPool) {
  PoolRow row = Pool("usual", {"n2"});
  row.is_default = true;
  Make({Pool("other", {"n1"}), row});
  EXPECT_EQ(Submit("", 1), "");
  EXPECT_EQ(Place(), "n2 in usual");
  PoolRow second = Pool("second", {});
  second.is_default = true;
  EXPECT_FALSE(world_.controller_.UsePools({row, second}));
}

TEST_F(Pools, APoolThatIsDownStartsNothingAndOneThatDrainsAcceptsNothing) {
  PoolRow down = Pool("down", {"n1"}), drain = Pool("drain", {"n2"});
  down.state = PoolState::kDown;
  drain.state = PoolState::kDrain;
  Make({down, drain});
  EXPECT_EQ(Submit("drain", 1), "pool drain takes no jobs: its state is drain; name another pool with --pool");
  EXPECT_EQ(Submit("drain,down", 1), "") << "one of them takes it";
  EXPECT_EQ(Place(), "");
  EXPECT_EQ(Submit("down", 1), "");
  EXPECT_EQ(Place(), "");
  EXPECT_EQ(Why(last_), "waits for an administrator: pool down starts no jobs: its state is down");
}

TEST_F(Pools, APoolLimitCoversAllOfItsJobs) {
  PoolRow row = Pool("a", {"n1", "n2"});
  row.running = 2;
  PoolRow gpus = Pool("g", {"n1", "n2"});
  gpus.gpus = 3;
  Make({row, gpus, Pool("b", {"n3"})});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Submit("a", 1), "");
  EXPECT_EQ(Place(), "");
  EXPECT_EQ(Why(last_), "pool a runs 2 of at most 2");
  EXPECT_EQ(Submit("g", 2), "");
  EXPECT_NE(Place(), "");
  EXPECT_EQ(Submit("g", 2), "");
  EXPECT_EQ(Place(), "");
  EXPECT_EQ(Why(last_), "pool g holds 2 GPUs of at most 3 GPUs; this needs 2 GPUs more");
}

// In one decision and over several. Jobs in the other pool do not count in the limited one.
TEST_F(Pools, AJobThatNamesSeveralPoolsWaitsForTheOneWithRoom) {
  PoolRow row = Pool("a", {"n1", "n2"});
  row.running = 1;
  Make({row, Pool("b", {"n3"})});
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Submit("a,b", 1), "");
    jobs.push_back(last_);
  }
  world_.Turn();
  EXPECT_EQ(Of(jobs[0]).pool_of_run, "a");
  EXPECT_EQ(Of(jobs[1]).pool_of_run, "b");
  EXPECT_EQ(Of(jobs[2]).pool_of_run, "b");
  EXPECT_FALSE(IsActive(Of(jobs[3]).state));
  EXPECT_EQ(world_.controller_.scheduler().group_running("pool a"), 1);
  End(jobs[0]);
  world_.Turn();
  EXPECT_EQ(Of(jobs[3]).pool_of_run, "a");
  EXPECT_EQ(world_.controller_.scheduler().group_running("pool a"), 1);
}

TEST_F(Pools, AFullPoolDoesNotBlockJobsThatCanUseTheNextOne) {
  PoolRow row = Pool("a", {"n3"});
  row.running = 1;
  Make({row, Pool("b", {"n1", "n2"}), Pool("c", {"n3"})});
  EXPECT_EQ(Submit("c", 2), "");
  world_.Turn();
  std::vector<JobId> jobs;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(Submit("a,b", 1), "");
    jobs.push_back(last_);
  }
  world_.Turn();
  for (const JobId job : jobs) EXPECT_EQ(Of(job).pool_of_run, "b") << ToString(job);
}

TEST_F(Pools, WithoutPoolsAPoolNameIsOnlyALabel) {
  Make({});
  EXPECT_EQ(Submit("gpu,other", 4), "");
  EXPECT_EQ(Place(), "n1 in ");
  JobSpec two = Spec("gpu", 1);
  two.request.others.resize(1);
  two.request.others.front().pool = "cpu";
  EXPECT_EQ(Submit(two), "");
  EXPECT_NE(Place(), "");
}

TEST_F(Pools, ALabelOfANodeMakesAPoolOfTheNamesOfWaitingJobs) {
  Make({});
  for (const int gpus : {4, 4, 2}) {
    EXPECT_EQ(Submit("big", gpus), "");
    EXPECT_NE(Place(), "");
  }
  EXPECT_EQ(Submit("big", 2), "");  // Every node is full.
  EXPECT_EQ(Place(), "");
  NodeRow n1 = MachineRow("n1", 4, 8);
  n1.labels["pool"] = "big";
  world_.controller_.OnNodeRow(n1);
  const JobId waiting = last_;
  EXPECT_EQ(Submit("other", 1), "there is no pool 'other'; there are big (divvy pools lists them)");
  last_ = waiting;
  for (const auto& [id, record] : std::map(world_.controller_.live())) {
    if (record.node == "n3") End(id);
  }
  EXPECT_EQ(Place(), "") << "n3 is not in the pool";
  for (const auto& [id, record] : std::map(world_.controller_.live())) {
    if (record.node == "n1") End(id);
  }
  EXPECT_EQ(Place(), "n1 in big");
}

TEST_F(Pools, AnUnknownValohaiEnvironmentIsANote) {
  PoolRow row = Pool("usual", {"n2"});
  row.is_default = true;
  Make({row});
  JobSpec spec = Spec("aws-p4", 1);
  EXPECT_NE(Submit(spec), "");
  spec.dialect = Dialect::kValohai;
  EXPECT_EQ(Submit(spec), "");
  EXPECT_EQ(world_.controller_.PendingSpec(last_)->notes,
            std::vector<std::string>{"environment aws-p4: there is no such pool here"});
  EXPECT_EQ(Place(), "n2 in usual");
}

// Array elements leave the queue one by one.
TEST_F(Pools, ArrayElementsUseAnyPoolWithRoom) {
  PoolRow row = Pool("a", {"n3"});
  row.running = 1;
  Make({row, Pool("b", {"n1"})});
  EXPECT_EQ(Submit(Spec("a,b", 1), 9), "");
  world_.Turn();
  const auto loads = world_.controller_.PoolLoads();
  EXPECT_EQ(loads.at("a").running, 1);
  EXPECT_EQ(loads.at("b").running, 4);
  EXPECT_EQ(loads.at("b").queued, 4);
}

TEST_F(Pools, APoolOfHigherPriorityGoesFirstOnSharedNodes) {
  PoolRow low = Pool("low", {"n1"}), high = Pool("high", {"n1"});
  high.priority = 10;
  Make({low, high});
  EXPECT_EQ(Submit("low", 4), "");
  const JobId first = last_;
  world_.Turn();
  EXPECT_EQ(Submit("low", 4), "");
  EXPECT_EQ(Submit("high,low", 4), "") << "goes with the lower of its pools";
  const JobId both = last_;
  EXPECT_EQ(Submit("high", 4), "");
  End(first);
  EXPECT_EQ(Place(), "n1 in high");
  EXPECT_FALSE(IsActive(Of(both).state));
}

TEST_F(Pools, EachPoolHasItsOwnQueuePolicy) {
  PoolRow fifo = Pool("fifo", {"n1"}), small = Pool("small", {"n2"});
  fifo.policy = QueuePolicy::kFifo;
  Make({fifo, small});
  std::map<std::string, std::vector<JobId>> jobs;
  for (const char* pool : {"fifo", "small"}) {
    for (const int gpus : {4, 3, 1}) {
      world_.now_ += 1s;
      EXPECT_EQ(Submit(pool, gpus), "");
      jobs[pool].push_back(last_);
      if (gpus == 4) world_.Turn();
    }
    End(jobs[pool][0]);
    EXPECT_EQ(Submit(pool, 4), "");
    jobs[pool].push_back(last_);
  }
  world_.Turn();
  for (const char* pool : {"fifo", "small"}) {
    EXPECT_TRUE(IsActive(Of(jobs[pool][1]).state)) << pool;
    EXPECT_TRUE(IsActive(Of(jobs[pool][2]).state)) << pool;
  }
  EXPECT_EQ(Of(jobs["fifo"][2]).start_reason, "first in line");
}

TEST_F(Pools, AnExclusivePoolAllocatesWholeNodes) {
  PoolRow row = Pool("alone", {"n1", "n3"});
  row.is_exclusive = true;
  Make({row, Pool("shared", {"n1"})});
  JobSpec cpus = Spec("shared", 0);
  EXPECT_EQ(Submit(cpus), "");
  EXPECT_EQ(Place(), "n1 in shared") << "asks for nothing, and is there";
  const JobId small = last_;
  EXPECT_EQ(Submit("alone", 1), "");
  const JobId alone = last_;
  EXPECT_EQ(Place(), "n3 in alone");
  EXPECT_EQ(Submit("alone", 1), "");
  EXPECT_EQ(Place(), "") << "nobody has n1 to itself while another runs there";
  const JobId waits = last_;
  EXPECT_EQ(Submit("shared", 1), "");
  End(small);
  world_.Turn();
  End(JobId(4));
  EXPECT_TRUE(world_.Turn().commands.size() > 0);
  EXPECT_EQ(Of(waits).node, "n1");
  EXPECT_EQ(Submit("shared", 1), "");
  EXPECT_EQ(Place(), "");
  EXPECT_EQ(Submit(cpus), "");
  EXPECT_EQ(Place(), "") << "not even what asks for nothing";
  EXPECT_EQ(Of(alone).gpus.size(), 1) << "machines differ, so each job has what it asks for";
  JobSpec spread = Spec("alone", 2);
  spread.request.spreads_tasks = true;
  spread.request.tasks = 2;
  EXPECT_EQ(Submit(spread), "pool alone allocates whole nodes, so its jobs must set their number: give --nodes");
}

TEST_F(Pools, AnExclusivePoolAllocatesAllGpusOfEqualNodes) {
  PoolRow row = Pool("alone", {"n1", "n2"});
  row.is_exclusive = true;
  Make({row});
  EXPECT_EQ(Submit("alone", 1), "");
  EXPECT_EQ(Place(), "n1 in alone");
  EXPECT_EQ(Of(last_).gpus.size(), 4);
}

TEST_F(Pools, AnExclusivePoolWithAGpuLimitBelowANodeRefusesWithAReason) {
  PoolRow row = Pool("alone", {"n1", "n2"});
  row.is_exclusive = true;
  row.max_gpus = 2;
  Make({row});
  EXPECT_EQ(
      Submit("alone", 1),
      "pool alone allocates whole nodes, so it would have 4 GPUs, and max_gpus there is 2; an administrator raises "
      "max_gpus, or name another pool with --pool");
  EXPECT_EQ(Submit("alone", 0), "");
}

TEST_F(Pools, AListedPoolThatCannotRunTheJobDoesNotLimitIt) {
  PoolRow small = Pool("small", {"n3"}), alone = Pool("alone", {"n1", "n2"});
  small.max_time = 30min;
  alone.is_exclusive = true;
  Make({small, Pool("big", {"n1", "n2"}), alone});
  EXPECT_EQ(Submit("small,big", 4), "");
  EXPECT_EQ(Place(), "n1 in big");
  EXPECT_EQ(Of(last_).time_limit, Duration(0)) << "n3 has 2 GPUs";
  EXPECT_EQ(Submit("small,big", 1), "");
  EXPECT_EQ(Of(last_).time_limit, 30min) << "where small may take it";
  EXPECT_EQ(Submit("small,alone", 3), "");
  EXPECT_EQ(Of(last_).request.gpus, 4) << "it can run in the exclusive one alone";
}

TEST_F(Pools, AJobInARemovedPoolSaysHowToChooseAnother) {
  Make({Pool("old", {"n3"})});
  EXPECT_EQ(Submit("old", 2), "");
  EXPECT_EQ(Place(), "n3 in old");
  EXPECT_EQ(Submit("old", 2), "");
  EXPECT_EQ(Place(), "");
  ASSERT_TRUE(world_.controller_.UsePools({Pool("new", {"n3"})}));
  EXPECT_EQ(Why(last_), "there is no pool 'old'; divvy update 2 --pool NAME chooses another");
}

TEST_F(Pools, APoolCanBeChangedWhileAJobWaits) {
  PoolRow small = Pool("small", {"n3"}), of_grace = Pool("grace", {"n1"});
  small.max_gpus = 1;
  of_grace.users = {"grace"};
  Make({small, of_grace, Pool("big", {"n1"})});
  EXPECT_EQ(Submit("big", 4), "");
  EXPECT_EQ(Place(), "n1 in big");
  EXPECT_EQ(Submit("big", 2), "");
  const auto change = [&](const std::string& pool) {
    JobChanges changes;
    changes.pool = pool;
    const auto done = world_.controller_.Update(last_, changes, world_.ada_, world_.now_, World::NoHistory());
    return done ? "" : done.error().message;
  };
  EXPECT_EQ(change("nowhere"), "there is no pool 'nowhere'; there are big, grace, small (divvy pools lists them)");
  EXPECT_NE(change("small").find("pool small gives a job 1 at most"), std::string::npos);
  EXPECT_NE(change("grace").find("pool grace is for grace"), std::string::npos);
  EXPECT_EQ(Of(last_).pool, "big");
}

TEST_F(Pools, PoolsAreRestoredAfterARestart) {
  PoolRow row = Pool("a", {"n1", "n2"});
  row.running = 1;
  Make({row, Pool("b", {"n3"})});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Submit("a,b", 1), "");
  world_.Turn();
  Controller again(Policy(), Limits(), 1);
  ASSERT_TRUE(again.UsePools({row, Pool("b", {"n3"})}));
  again.SetOwnName("head");
  for (const auto& [name, gpus] : {std::pair("n1", 4), std::pair("n2", 4), std::pair("n3", 2)})
    again.OnNodeRow(MachineRow(name, gpus, 8));
  again.Load(world_.controller_.live(), {}, 4, 3, World::NoHistory());
  EXPECT_EQ(again.CheckInvariants(), "");
  EXPECT_EQ(again.scheduler().group_running("pool a"), 1);
  EXPECT_EQ(again.PoolLoads().at("b").running, 2);
}

}  // namespace controller_pools_test
}  // namespace divvy
