// Estimated starts of jobs that wait for a cap or a team bound: a planned job uses their room until its planned end.
// The oracle is the cluster itself, which runs on without new jobs until all have ended.

#include "engine/core/estimate/estimate_limits.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/explain/explain.h"
#include "engine/core/state/state.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace estimate_limits_test {

using std::chrono::hours;
using std::chrono::minutes;

Estimate When(Cluster& cluster, std::uint64_t id, std::int64_t seconds) {
  return Explain(cluster, JobId(id), At(seconds)).start;
}

/// The estimated starts, in hours from At(0); -1: unknown.
std::vector<double> Told(Cluster& cluster, std::uint64_t first, std::uint64_t last) {
  std::vector<double> told;
  for (std::uint64_t id = first; id <= last; ++id) {
    const Time at = When(cluster, id, 0).typical;
    told.push_back(at == kNever ? -1 : ToSeconds(at - At(0)) / 3600);
  }
  return told;
}

Rules Fifo() {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  return rules;
}

struct Asked {
  int gpus = 1;
  Duration limit = hours(1);
  std::vector<CapIndex> caps;
  TeamIndex team = kRootTeam;
  Preemptible preemptible = Preemptible::kNever;
};

void Put(Cluster& cluster, std::uint64_t first, std::uint64_t last, const Asked& asked) {
  for (std::uint64_t id = first; id <= last; ++id) {
    Job job = MakeJob(cluster, id, GpuRequest(asked.gpus), At(0), asked.limit);
    job.caps = asked.caps;
    job.team = asked.team;
    job.preemptible = asked.preemptible;
    cluster.Put(job, At(0));
  }
}

TEST(EstimateLimits, JobsUnderAGpuCapStartOneAfterTheOther) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  const CapIndex cap = cluster.AddCap("user ada", 0, 2 * placement::kGpuParts);
  Put(cluster, 1, 8, {.caps = {cap}});
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 3, 8), (std::vector<double>{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(When(cluster, 3, 0).basis, "when enough jobs of user ada end");
  EXPECT_EQ(
      When(cluster, 6, 0).basis,
      "after the 3 jobs ahead of it under the same limits (user ada), estimated from predictions and time limits");
  EXPECT_EQ(When(cluster, 8, 0).latest, At(3 * 3600));
}

TEST(EstimateLimits, JobsUnderAJobCapStartOneAfterTheOther) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  const CapIndex cap = cluster.AddCap("group eval", 2);
  Put(cluster, 1, 7, {.gpus = 2, .caps = {cap}});
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 3, 7), (std::vector<double>{1, 1, 2, 2, 3}));
}

TEST(EstimateLimits, AnArraysCapCountsWithinItsUsersCap) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  const CapIndex user = cluster.AddCap("user ada", 0, 4 * placement::kGpuParts);
  const CapIndex array = cluster.AddCap("array 1", 1);
  Put(cluster, 1, 3, {.caps = {user, array}});
  Put(cluster, 4, 10, {.caps = {user}});
  cluster.Decide(At(0));
  // Jobs 1 and 4 to 6 are running.
  EXPECT_EQ(Told(cluster, 2, 3), (std::vector<double>{1, 2}));
  EXPECT_EQ(Told(cluster, 7, 10), (std::vector<double>{1, 1, 1, 2}));
}

TEST(EstimateLimits, AnotherUsersJobsAreNotDelayed) {
  Cluster cluster = MakeCluster(1, 4, Fifo());
  const CapIndex cap = cluster.AddCap("user ada", 0, 2 * placement::kGpuParts);
  Put(cluster, 1, 2, {.limit = hours(2), .caps = {cap}});
  Put(cluster, 3, 4, {});
  Put(cluster, 5, 8, {.caps = {cap}});
  Put(cluster, 9, 12, {});
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 5, 8), (std::vector<double>{2, 2, 3, 3}));
  EXPECT_EQ(Told(cluster, 9, 12), (std::vector<double>{1, 1, 2, 2}));
}

TEST(EstimateLimits, ATeamsLimitCountsTeamsBelowIt) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  cluster.teams().Reset({{.name = "lab", .limit_parts = 3 * placement::kGpuParts}, {.name = "vision", .parent = 1}});
  Put(cluster, 1, 3, {.team = 1});
  Put(cluster, 4, 10, {.team = 2});
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 4, 10), (std::vector<double>{1, 1, 1, 2, 2, 2, 3}));
}

// Only firm usage counts against a quota; preemptible jobs may use idle GPUs.
TEST(EstimateLimits, AQuotaCountsNonPreemptibleJobsOnly) {
  Cluster cluster = MakeCluster(1, 4, Fifo());
  cluster.teams().Reset({{.name = "lab", .quota_parts = 2 * placement::kGpuParts}});
  Put(cluster, 1, 2, {.team = 1});
  Put(cluster, 3, 4, {.limit = hours(2), .team = 1, .preemptible = Preemptible::kRequeue});
  Put(cluster, 5, 8, {.team = 1});
  Put(cluster, 9, 9, {.team = 1, .preemptible = Preemptible::kRequeue});
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 5, 8), (std::vector<double>{1, 1, 2, 2}));
  EXPECT_EQ(Told(cluster, 9, 9), (std::vector<double>{2}));
}

TEST(EstimateLimits, JobsWithoutAnEndReturnNoRoom) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  const CapIndex cap = cluster.AddCap("user ada", 0, 2 * placement::kGpuParts);
  Put(cluster, 1, 1, {.limit = Duration(0), .caps = {cap}});
  Put(cluster, 2, 3, {.caps = {cap}});
  Put(cluster, 4, 4, {.limit = Duration(0), .caps = {cap}});
  Put(cluster, 5, 5, {.caps = {cap}});
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 3, 5), (std::vector<double>{1, 2, -1}));
  EXPECT_EQ(When(cluster, 5, 0).basis, "no estimate: the jobs of user ada that run have no known end");
}

TEST(EstimateLimits, APredictedEndReturnsRoom) {
  Rules rules = Fifo();
  rules.uses_predictions = false;  // Plans do not use predictions, but estimates do, as in engine/scheduler/explain.cc.
  Cluster cluster = MakeCluster(1, 8, rules);
  const CapIndex cap = cluster.AddCap("group eval", 1);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Job job = MakeJob(cluster, id, GpuRequest(1), At(0));
    job.predicted = minutes(30);
    job.caps = {cap};
    cluster.Put(job, At(0));
  }
  cluster.Decide(At(0));
  cluster.state().rules.uses_predictions = true;
  EXPECT_EQ(Told(cluster, 2, 3), (std::vector<double>{0.5, 1}));
}

TEST(EstimateLimits, JobsAboveALoweredCapHaveToEndFirst) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  const CapIndex cap = cluster.AddCap("group eval", 4);
  for (std::uint64_t id = 1; id <= 4; ++id) Put(cluster, id, id, {.limit = hours(id), .caps = {cap}});
  Put(cluster, 5, 7, {.limit = hours(4), .caps = {cap}});
  cluster.Decide(At(0));
  cluster.SetCap(cap, 2, 0);
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 5, 7), (std::vector<double>{3, 4, 7}));
}

TEST(EstimateLimits, JobsOnOtherGpusCountTowardTheCap) {
  Cluster cluster(Fifo());
  for (int node_class = 0; node_class < 2; ++node_class) {
    NodeFacts facts = PlainNode(node_class, 4);
    facts.node_class = facts.gpu_model = node_class;
    cluster.AddNode(facts);
  }
  const CapIndex cap = cluster.AddCap("group eval", 1);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ResourceRequest request = GpuRequest(1);
    request.groups.front().alternatives.front().models = std::uint64_t{1} << (id % 2);
    Job job = MakeJob(cluster, id, request, At(0), hours(1));
    job.caps = {cap};
    cluster.Put(job, At(0));
  }
  cluster.Decide(At(0));
  EXPECT_EQ(Told(cluster, 2, 4), (std::vector<double>{1, 2, 3}));
}

// Jobs before it that a cap blocks start first once the cap allows it, so its reservation is no upper bound.
TEST(EstimateLimits, AReservationIsNoBoundIfACapBlocksEarlierJobs) {
  Cluster cluster = MakeCluster(1, 2, Fifo());
  const CapIndex cap = cluster.AddCap("user ada", 0, 2 * placement::kGpuParts);
  Put(cluster, 1, 4, {.caps = {cap}});
  Put(cluster, 5, 6, {});
  cluster.Decide(At(0));
  const Estimate start = When(cluster, 5, 0);
  EXPECT_EQ(start.typical, At(2 * 3600));
  EXPECT_FALSE(start.is_guaranteed);
  EXPECT_EQ(start.latest, At(2 * 3600));
  EXPECT_EQ(start.basis, "after the 2 jobs ahead of it, estimated from predictions and time limits");
  EXPECT_EQ(When(cluster, 6, 0).typical, At(2 * 3600));
}

// The queue is too long to place one by one: the jobs after the first ones are worked off at the limit's rate.
TEST(EstimateLimits, ALongQueueUnderACap) {
  Cluster cluster = MakeCluster(1, 8, Fifo());
  const CapIndex cap = cluster.AddCap("array 1", 2);
  Put(cluster, 1, 2, {.caps = {cap}});
  Job array = MakeJob(cluster, 3, GpuRequest(1), At(1), hours(1));
  array.count = 6000;
  array.caps = {cap};
  cluster.Put(array, At(1));
  Put(cluster, 4, 9, {.limit = hours(2)});
  cluster.Decide(At(1));
  Job behind = MakeJob(cluster, 10, GpuRequest(1), At(2), hours(1));
  behind.caps = {cap};
  cluster.Put(behind, At(2));
  cluster.Put(MakeJob(cluster, 11, GpuRequest(1), At(2), hours(1)), At(2));
  cluster.Decide(At(2));
  EXPECT_NEAR(ToSeconds(When(cluster, 10, 2).typical - At(0)), 3001 * 3600.0, 2 * 3600.0);
  EXPECT_NEAR(ToSeconds(When(cluster, 11, 2).typical - At(0)), 2 * 3600, 120.0);  // Its cap allows it two GPUs at a
                                                                                  // time.
}

// --- Elements of arrays ----------------------------------------------------------------------------------------------

// An element comes after the earlier elements of its array, and the array's cap counts all of them.
TEST(EstimateLimits, AnElementComesAfterEarlierElementsOfItsArray) {
  for (const bool is_capped : {false, true}) {
    Cluster cluster = MakeCluster(1, 4, Fifo());
    Job array = MakeJob(cluster, 1, GpuRequest(1), At(0), hours(1));
    array.count = 9;
    if (is_capped) array.caps = {cluster.AddCap("array 1", 2)};
    cluster.Put(array, At(0));
    cluster.Decide(At(0));
    Put(cluster, 20, 21, {.limit = hours(3)});
    cluster.Decide(At(0));
    // With the cap, 2 of 9 run, and the two jobs behind use what it leaves; otherwise 4 run.
    const std::vector<double> want =
        is_capped ? std::vector<double>{1, 1, 2, 2, 3, 3, 4} : std::vector<double>{1, 1, 1, 1, 2};
    for (std::uint64_t before = 0; before < want.size(); ++before) {
      const Explanation told = Explain(cluster, JobId(1), At(0), {}, {}, true, before);
      EXPECT_EQ(ToSeconds(told.start.typical - At(0)) / 3600, want[before]) << before << " before it";
      EXPECT_EQ(told.position, before + 1);
      EXPECT_EQ(told.ahead_parts, static_cast<std::int64_t>(before) * placement::kGpuParts);
      EXPECT_LE(told.start.typical, told.start.latest);
    }
    const Time last = Explain(cluster, JobId(1), At(0), {}, {}, true, want.size() - 1).start.typical;
    EXPECT_EQ(Explain(cluster, JobId(1), At(0), {}, {}, true, 1000).start.typical, last) << "there is none behind it";
  }
}

TEST(EstimateLimits, AnElementOfAnArrayWithABeginTime) {
  Cluster cluster = MakeCluster(1, 4, Fifo());
  Job array = MakeJob(cluster, 1, GpuRequest(1), At(0), hours(1));
  array.count = 9;
  array.begin = At(7200);
  cluster.Put(array, At(0));
  cluster.Decide(At(0));
  const Estimate start = Explain(cluster, JobId(1), At(0), {}, {}, true, 7).start;
  EXPECT_EQ(start.typical, At(7200));
  EXPECT_EQ(start.basis, "the begin time of its array; other elements go first");
}

// --- The cluster as oracle ------------------------------------------------------------------------------------------

enum class Bounds { kCaps, kNestedCaps, kTeams };

/// Jobs of one GPU and equal length arrive minute by minute, for several users, arrays or teams.
Cluster MakeBounded(std::uint64_t seed, Bounds bounds, Time& now) {
  Draws draws(seed);
  Cluster cluster = MakeCluster(1, 3 + draws.Below(6), Fifo());
  const auto some = [&] { return 1 + draws.Below(4); };
  std::vector<CapIndex> caps;
  for (int i = 0; i < 3; ++i) {
    const bool is_on_jobs = draws.Below(2) == 0;
    const int limit = some();
    caps.push_back(cluster.AddCap("cap", is_on_jobs ? limit : 0, is_on_jobs ? 0 : limit * placement::kGpuParts));
  }
  if (bounds == Bounds::kTeams) {
    cluster.teams().Reset({{.name = "lab", .limit_parts = (1 + some()) * placement::kGpuParts},
                           {.name = "vision", .parent = 1, .limit_parts = some() * placement::kGpuParts},
                           {.name = "text", .quota_parts = some() * placement::kGpuParts}});
  }
  const auto jobs = static_cast<std::uint64_t>(10 + draws.Below(30));
  for (std::uint64_t id = 1; id <= jobs; ++id) {
    now += minutes(draws.Below(3));
    Job job = MakeJob(cluster, id, GpuRequest(1), now, hours(1));
    const int of = draws.Below(4);
    if (bounds == Bounds::kTeams) job.team = static_cast<TeamIndex>(of);
    else if (of < 3) job.caps = {caps[static_cast<std::size_t>(of)]};
    if (bounds == Bounds::kNestedCaps && of == 0) job.caps = {caps[0], caps[2]};
    cluster.Put(job, now);
    cluster.Decide(now);
  }
  return cluster;
}

/// The actual starts if no job arrives and all run to their limits.
std::map<JobId, Time> LiveOn(Cluster& cluster) {
  std::map<JobId, Time> starts;
  std::set<std::pair<Time, JobId>> ends;
  for (const auto& [id, run] : cluster.state().running) ends.emplace(run.end, id);
  while (!ends.empty()) {
    const Time now = ends.begin()->first;
    for (; !ends.empty() && ends.begin()->first == now; ends.erase(ends.begin())) {
      cluster.Finish(ends.begin()->second, now);
    }
    for (const Start& start : cluster.Decide(now).starts) {
      starts[start.entry] = now;
      ends.emplace(cluster.state().running.at(start.job).end, start.job);
    }
  }
  return starts;
}

void CheckAgainstLife(Bounds bounds) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Time now = At(0);
    Cluster cluster = MakeBounded(seed, bounds, now);
    std::map<JobId, Estimate> told;
    for (const auto& [id, waiting] : cluster.state().waiting) told[id] = Explain(cluster, id, now).start;
    const std::map<JobId, Time> starts = LiveOn(cluster);
    for (const auto& [id, start] : told) {
      const auto at = starts.find(id);
      ASSERT_NE(at, starts.end()) << "seed " << seed << ": job " << ToString(id) << " never starts";
      EXPECT_EQ(start.typical, at->second)
          << "seed " << seed << ": job " << ToString(id) << " is told " << ToSeconds(start.typical - At(0)) << " ("
          << start.basis << ") and starts at " << ToSeconds(at->second - At(0));
      EXPECT_GE(start.latest, at->second) << "seed " << seed << ": job " << ToString(id);
    }
  }
}

TEST(EstimateLimits, EstimatesMatchTheSimulationUnderCaps) { CheckAgainstLife(Bounds::kCaps); }
TEST(EstimateLimits, EstimatesMatchTheSimulationUnderNestedCaps) { CheckAgainstLife(Bounds::kNestedCaps); }
TEST(EstimateLimits, EstimatesMatchTheSimulationUnderTeamLimits) { CheckAgainstLife(Bounds::kTeams); }

}  // namespace estimate_limits_test
}  // namespace divvy::core
