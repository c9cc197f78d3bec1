// Estimated starts of one queue at one moment are consistent: the first of identical jobs is not estimated to start
// last, and no more jobs are estimated to run together than a cap allows.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/estimate/estimate_supply.h"
#include "engine/core/explain/explain.h"
#include "engine/core/place/caps.h"
#include "engine/core/state/queue_order.h"
#include "engine/core/state/state.h"
#include "engine/core/state/test_world.h"

namespace divvy::core {
namespace estimate_order_test {

using std::chrono::minutes;

struct Kind {
  QueuePolicy order = QueuePolicy::kFifo;
  bool has_limits = true;       // False: one job in four has none.
  bool has_predictions = true;  // False: no job has a prediction.
  bool has_gangs = false;
  bool has_caps = false;
  bool is_one_class_capped = false;  // All jobs under the cap have equal requests.
  bool has_spread = false;
};

/// A seeded queue: jobs of few sizes and lengths arrive, start and end, not always as expected.
Cluster MakeQueue(std::uint64_t seed, const Kind& kind, Time& now) {
  Draws draws(seed);
  Rules rules;
  rules.order = kind.order;
  rules.uses_predictions =
      false;  // Plans use limits; estimates use predictions too, as in engine/scheduler/explain.cc.
  const int nodes = 1 + draws.Below(4);
  Cluster cluster = MakeCluster(nodes, 4 + draws.Below(5), rules);
  const CapIndex cap = cluster.AddCap("group eval", kind.has_caps ? 1 + draws.Below(3) : 0);
  const int jobs = 12 + draws.Below(40);
  std::vector<JobId> running;
  std::int64_t second = 0;
  std::uint64_t members = 1000;
  const auto name = [&](JobId entry) { return cluster.state().waiting.at(entry).count > 1 ? JobId(++members) : entry; };
  for (int i = 1; i <= jobs; ++i) {
    second += draws.Below(120);
    now = At(second);
    const int gpus = draws.Below(3) == 0 ? 4 : 1 + draws.Below(2);
    const bool is_gang = kind.has_gangs && draws.Below(5) == 0;
    Job job = MakeJob(cluster, static_cast<std::uint64_t>(i), GpuRequest(gpus, is_gang ? 2 : 1), now);
    if (kind.has_limits || draws.Below(4) > 0) job.limit = (1 + draws.Below(3)) * minutes(60);
    if (kind.has_predictions && draws.Below(2) == 0) job.predicted = (1 + draws.Below(2)) * minutes(20);
    job.user = static_cast<UserIndex>(draws.Below(2));
    if (kind.has_caps && draws.Below(3) == 0) job.caps = {cap};
    if (draws.Below(10) == 0) job.count = static_cast<std::uint32_t>(1 + draws.Below(4));
    if (kind.is_one_class_capped && !job.caps.empty()) {
      const Time queued = job.queued_at;
      job = MakeJob(cluster, static_cast<std::uint64_t>(i), GpuRequest(1 + static_cast<int>(seed % 3)), queued,
                    minutes(60));
      job.caps = {cap};
    }
    cluster.Put(job, now);
    if (draws.Below(6) == 0 && !running.empty()) {
      const auto at = running.begin() + draws.Below(static_cast<int>(running.size()));
      cluster.Finish(*at, now);
      running.erase(at);
    }
    for (const Start& start : cluster.Decide(now, name).starts) running.push_back(start.job);
  }
  return cluster;
}

std::string Text(Time time) {
  return time == kNever ? "never" : std::to_string((time - At(0)) / std::chrono::seconds(1));
}

void Check(std::uint64_t seed, const Kind& kind) {
  Time now = At(0);
  Cluster cluster = MakeQueue(seed, kind, now);
  const_cast<ClusterState&>(cluster.state()).rules.uses_predictions = true;
  SpreadOf spread;
  if (kind.has_spread)
    spread = [](JobId job) -> std::optional<RunSpread> {
      if (job.value() % 3 == 0) return std::nullopt;
      return RunSpread{minutes(10), minutes(50)};
    };
  std::map<std::tuple<RequestIndex, Duration, std::vector<CapIndex>>, std::pair<JobId, Estimate>> before;
  for (const JobId id : QueueOrder(cluster, now, 0)) {
    const Waiting& waiting = cluster.state().waiting.at(id);
    if (waiting.lane != Waiting::Lane::kReady) continue;
    const Estimate start = Explain(cluster, id, now, {}, spread).start;
    const ClassKey& key = cluster.state().classes[waiting.job_class].key;
    const auto [at, is_first] = before.try_emplace({key.request, key.limit, key.caps}, id, start);
    if (!is_first) {
      const auto& [ahead, its] = at->second;
      const std::string where = "seed " + std::to_string(seed) + ": job " + ToString(ahead) + " (" + its.basis +
                                ") stands before job " + ToString(id) + " (" + start.basis + ")";
      EXPECT_LE(its.typical, start.typical) << where << ": typical " << Text(its.typical) << " " << Text(start.typical);
      EXPECT_LE(its.latest, start.latest) << where << ": latest " << Text(its.latest) << " " << Text(start.latest);
      at->second = {id, start};
    }
    EXPECT_LE(start.typical, start.latest) << "seed " << seed << " job " << ToString(id);
    if (start.earliest != kNoTime) {
      EXPECT_LE(start.earliest, start.typical) << "seed " << seed << " job " << ToString(id);
    }
  }
}

void CheckAll(const Kind& kind) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) Check(seed, kind);
}

// No more jobs than the cap allows, from their actual or estimated starts to their time limits.
void CheckCap(std::uint64_t seed, const Kind& kind) {
  Time now = At(0);
  Cluster cluster = MakeQueue(seed, kind, now);
  const CapIndex index{0};
  const ClusterState& state = cluster.state();
  std::multimap<Time, int> changes;
  for (const auto& [id, run] : state.running) {
    if (IsCountedIn(state.classes[run.job_class].key, index)) changes.emplace(run.end, -1);
  }
  for (const auto& [id, waiting] : state.waiting) {
    if (!IsCountedIn(state.classes[waiting.job_class].key, index)) continue;
    const Time start = Explain(cluster, id, now).start.typical;
    if (start == kNever) continue;
    changes.emplace(start, 1);
    changes.emplace_hint(changes.lower_bound(start + minutes(60)), start + minutes(60), -1);  // Ends sort before starts
                                                                                              // at the same time.
  }
  int together = state.caps[index].running;
  for (const auto& [at, change] : changes) {
    together += change;
    EXPECT_LE(together, state.caps[index].limit) << "seed " << seed << " at " << Text(at);
  }
}

TEST(EstimateOrder, NoMoreJobsRunTogetherThanACapAllows) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CheckCap(seed, {.has_caps = true, .is_one_class_capped = true});
    CheckCap(seed, {.has_predictions = false, .has_caps = true, .is_one_class_capped = true});
  }
}

TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotStartLastWithTimeLimits) { CheckAll({.has_predictions = false}); }
TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotStartLastWithPredictions) { CheckAll({}); }
TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotStartLastIfSomeHaveNoEnd) { CheckAll({.has_limits = false}); }
TEST(EstimateOrder, TheFirstOfEqualGangsDoesNotStartLast) { CheckAll({.has_gangs = true}); }
TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotStartLastUnderCaps) { CheckAll({.has_caps = true}); }
TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotHaveTheLastInterval) { CheckAll({.has_spread = true}); }
TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotStartLastWithSmallJobsFirst) {
  CheckAll({.order = QueuePolicy::kSmallFirst});
}

// Jobs ahead are placed one by one while they are few, and summed when they are many.
TEST(EstimateOrder, TheFirstOfEqualJobsDoesNotStartLastInALongQueue) {
  Rules rules;
  rules.order = QueuePolicy::kFifo;
  Cluster cluster = MakeCluster(3, 8, rules);
  cluster.Put(MakeJob(cluster, 1, GpuRequest(8, 3), At(0), minutes(60)), At(0));
  cluster.Decide(At(0));
  constexpr std::uint64_t kJobs = kMostStepped + 600;
  for (std::uint64_t id = 2; id < kJobs; ++id) {
    cluster.Put(MakeJob(cluster, id, GpuRequest(id % 3 == 0 ? 5 : 7), At(1), minutes(id % 2 == 0 ? 30 : 70)), At(1));
  }
  cluster.Decide(At(1));
  std::map<ClassIndex, Estimate> before;
  for (std::uint64_t id = kMostStepped - 50; id < kJobs; id += id < kMostStepped + 50 ? 1 : 25) {
    const Estimate start = Explain(cluster, JobId(id), At(1)).start;
    Estimate& ahead = before.try_emplace(cluster.state().waiting.at(JobId(id)).job_class, start).first->second;
    EXPECT_LE(ahead.typical, start.typical) << "job " << id << ": " << start.basis;
    EXPECT_LE(ahead.latest, start.latest) << "job " << id << ": " << start.basis;
    ahead = start;
  }
  // About 4 run at a time, for 50 min each.
  const auto typical = [&](std::uint64_t id) { return Explain(cluster, JobId(id), At(1)).start.typical; };
  EXPECT_GT(typical(kJobs - 1) - typical(kMostStepped), minutes(600 / 4 * 40));
}

}  // namespace estimate_order_test
}  // namespace divvy::core
