// What must hold in every history: generated clusters, arrivals, ends, faults and changes, checked after every step. A
// failure prints the seed; run it alone by narrowing the loop to it.

#include <gtest/gtest.h>

#include <random>

#include "engine/engine_test_world.h"
#include "engine/gpu_choice.h"
#include "engine/order.h"

namespace divvy {
namespace {

constexpr Duration kMinute = std::chrono::minutes(1);

struct Kind {
  bool has_limits = true;  // Else one job in three has none.
  bool is_mixed = false;   // Two models of GPUs.
  bool has_host = false;   // CPUs, jobs without GPUs.
  bool has_groups = false;
  bool has_priorities = false;
  bool changes_gpus = false;  // Restrictions that come and go.
  bool has_topology = false;  // Two NUMA nodes, pairs joined by NVLink; elastic jobs, and every placement.
  bool ends_early = true;
};

class History {
 public:
  History(std::uint64_t seed, const Kind& kind) : kind_(kind), random_(seed) {
    NodeCapacity capacity;
    const int gpus = 1 + Draw(8);
    for (int i = 0; i < gpus; ++i) {
      if (kind.is_mixed && i % 2 == 1) World::AddGpu(capacity, "NVIDIA L4", 24_GiB);
      else World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
    }
    if (kind.has_topology) JoinPairs(capacity);
    capacity.cpus = 16;
    capacity.memory = 64_GiB;
    world.cluster.SetCapacity(std::move(capacity));
    if (Draw(3) == 0) world.policy.order = QueuePolicy::kFifo;
    world.policy.cpu_jobs_at_once = 3;
    if (kind.has_groups) world.cluster.SetGroupLimit("g", 2);
  }

  static void JoinPairs(NodeCapacity& capacity) {
    for (GpuFacts& gpu : capacity.gpus) {
      gpu.numa_node = gpu.index / 4;
      for (const GpuFacts& other : capacity.gpus)
        gpu.links.push_back(gpu.index == other.index ? "X" : gpu.index / 2 == other.index / 2 ? "NV4" : "PHB");
    }
  }

  int Draw(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }

  void Step() {
    const int what = Draw(10);
    if (what < 5) Submit();
    else if (what < 7 && kind_.ends_early) EndOne();
    else if (what == 7 && kind_.changes_gpus) ChangeGpu();
    else world.now += Draw(40) * kMinute;
    world.EndDue();
  }

  void Submit() {
    WaitingEntry entry = World::Job(next_id_++, 1 + Draw(static_cast<int>(world.cluster.capacity().gpus.size())));
    if (kind_.has_limits || Draw(3) > 0) entry.time_limit = (1 + Draw(12)) * 15 * kMinute;
    if (kind_.is_mixed && Draw(2) == 0) entry.request.gpu_type = Draw(2) == 0 ? "h100" : "l4";
    if (kind_.has_host) {
      if (Draw(4) == 0) entry.request.gpus = 0;
      entry.request.cpus = Draw(9);
    }
    if (kind_.has_groups && Draw(3) == 0) entry.groups.push_back("g");
    if (kind_.has_priorities) entry.priority = Draw(3) - 1;
    if (Draw(8) == 0) entry.count = static_cast<std::uint32_t>(1 + Draw(4));
    if (Draw(8) == 0) entry.placement = PlacementStrategy::kRandom;
    if (kind_.has_topology) WantTopology(entry);
    entry.placement_draw = random_();
    if (Draw(10) == 0) entry.begin = world.now + Draw(90) * kMinute;
    if (Draw(20) == 0) entry.is_held = true;
    // Never here: it would only stand about.
    if (CheckFeasible(world.cluster, entry.request)) world.Submit(std::move(entry));
  }

  void WantTopology(WaitingEntry& entry) {
    entry.placement = static_cast<PlacementStrategy>(Draw(5));
    entry.request.topology = static_cast<TopologyNeed>(Draw(3));
    entry.request.requires_topology = entry.request.topology != TopologyNeed::kAny && Draw(2) == 0;
    if (entry.request.requires_topology) entry.request.gpus = std::min(entry.request.gpus, 1 + Draw(4));
    if (Draw(3) == 0) entry.request.gpus_most = entry.request.gpus + Draw(6);
  }

  void EndOne() {
    const auto& running = world.cluster.running_jobs();
    if (running.empty()) return;
    world.cluster.Finish(std::next(running.begin(), Draw(static_cast<int>(running.size())))->first);
  }

  void ChangeGpu() {
    GpuAvailability state;
    state.is_restricted = Draw(2) == 0;
    world.cluster.SetAvailability(static_cast<GpuIndex>(Draw(static_cast<int>(world.cluster.capacity().gpus.size()))),
                                  state);
  }

  World world;

 private:
  Kind kind_;
  std::mt19937_64 random_;
  std::uint64_t next_id_ = 1;
};

bool IsInLine(const WaitingEntry& entry, Time now) {
  return !entry.is_held && entry.unmet_dependencies.empty() && entry.begin <= now;
}

// Whoever is first in line and not capped runs, or does not fit.
void CheckHeadIsNotIdle(const World& world) {
  for (JobId id : QueueOrder(world.cluster, world.policy, world.now, 0)) {
    const WaitingEntry& entry = *world.cluster.waiting(id);
    if (!IsInLine(entry, world.now)) continue;
    if (entry.request.gpus == 0) return;  // It may be promised the CPUs.
    const bool is_capped = !entry.groups.empty() && world.cluster.group_running("g") >= world.cluster.group_limit("g");
    const GpuSet matches = MatchingGpus(world.cluster.capacity(), entry.request);
    if (is_capped || (matches & world.cluster.usable()).size() < entry.request.gpus) continue;
    const GpuChoice choice = {entry.placement, 0, entry.request.topology, entry.request.requires_topology,
                              &world.cluster.topology()};
    if (!PickGpus(matches & world.cluster.usable(), entry.request.gpus, choice)) continue;
    const bool fits = PickGpus(matches & world.cluster.free(), entry.request.gpus, choice) &&
                      world.cluster.cpus_claimed() + entry.request.cpus <= world.cluster.capacity().cpus;
    EXPECT_FALSE(fits) << "job " << id.value() << " is first in line, fits and waits";
    return;
  }
}

// Of equals the one that stands first starts first.
void CheckClassOrder(const World& world, const std::vector<WaitingEntry>& started) {
  for (const WaitingEntry& entry : started) {
    for (const auto& [key, job_class] : world.cluster.queue().classes) {
      if (key != ClassKeyOf(entry)) continue;
      const Line::Stand& first = job_class.line.At(job_class.line.begin());
      const bool is_due = key.lane == Lane::kReady || first.place.since <= world.now;
      if (!is_due || first.place.id == entry.id) continue;
      EXPECT_LT(PlaceOf(entry), first.place) << "job " << entry.id.value() << " passed its equal";
    }
  }
}

void CheckPass(World& world) {
  std::map<JobId, WaitingEntry> before;
  for (JobId id : QueueOrder(world.cluster, world.policy, world.now, 0)) before.emplace(id, *world.cluster.waiting(id));
  std::vector<WaitingEntry> started;
  for (const World::Started& start : world.Pass()) {
    EXPECT_TRUE(IsInLine(before.at(start.entry), world.now)) << "job " << start.entry.value() << " is not in line";
    EXPECT_FALSE(start.reason.empty());
    started.push_back(before.at(start.entry));
  }
  CheckClassOrder(world, started);
  CheckHeadIsNotIdle(world);
#ifndef DIVVY_TEST_FORGETS_PROMISES
  EXPECT_TRUE(Schedule(world.cluster, world.policy, world.now).starts.empty()) << "a second pass starts more";
#endif
  EXPECT_GT(world.last_plan.next_wakeup, world.now);
  EXPECT_LE(world.cluster.group_running("g"), 2);
  EXPECT_LE(world.cluster.cpu_jobs_running(), world.policy.cpu_jobs_at_once);
  EXPECT_LE(world.cluster.cpus_claimed(), world.cluster.capacity().cpus);
}

// Every waiting job says why, and a given time is not in the past.
void CheckExplanations(const World& world) {
  std::uint64_t last_position = 0;
  for (JobId id : QueueOrder(world.cluster, world.policy, world.now, 0)) {
    const Explanation why = Explain(world.cluster, world.policy, id, world.now);
    ASSERT_TRUE(why.is_waiting);
#ifndef DIVVY_TEST_EXPLAINS_OTHERWISE
    EXPECT_FALSE(why.blockers.empty()) << "job " << id.value() << " waits without a reason";
#endif
    EXPECT_FALSE(why.prediction_basis.empty());
    EXPECT_GE(why.predicted_start, world.now);
    const WaitingEntry& entry = *world.cluster.waiting(id);
    EXPECT_EQ(why.position > 0, IsInLine(entry, world.now));
    if (why.position == 0) continue;
    EXPECT_EQ(why.position, last_position + 1) << "positions follow the order of the queue";
    last_position = why.position + entry.count - 1;
  }
}

Kind KindOf(int number) {
  Kind kind;
  kind.has_limits = (number & 1) != 0;
  kind.is_mixed = (number & 2) != 0;
  kind.has_host = (number & 4) != 0;
  kind.has_groups = (number & 8) != 0;
  kind.has_priorities = (number & 8) != 0;
  kind.changes_gpus = (number & 4) != 0;
  kind.has_topology = (number & 16) != 0;
  return kind;
}

TEST(Properties, HoldInGeneratedHistories) {
  for (int number = 0; number < 32; ++number) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE("kind " + std::to_string(number) + ", seed " + std::to_string(seed));
      History history(seed * 32 + static_cast<std::uint64_t>(number), KindOf(number));
      for (int step = 0; step < 60; ++step) {
        history.Step();
        CheckPass(history.world);
        if (step % 10 == 9) CheckExplanations(history.world);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// With equal priorities nobody gets ahead of an escalated job in small-first; jobs end by their limits at the latest.
TEST(Properties, AnEscalatedPromiseIsNeverMovedBack) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Kind kind;
    kind.is_mixed = seed % 2 == 0;
    kind.has_topology = seed % 3 == 0;
    History history(seed, kind);
    history.world.policy.order = QueuePolicy::kSmallFirst;
    JobId promised;
    Time start = kNever;
    for (int step = 0; step < 80; ++step) {
      history.Step();
      history.world.Pass();
      const std::vector<Reservation>& reservations = history.world.last_plan.reservations;
      const WaitingEntry* first = reservations.empty() ? nullptr : history.world.cluster.waiting(reservations[0].entry);
      const bool is_escalated = first != nullptr && first->count == 1 &&
                                IsEscalated(history.world.policy, PlaceOf(*first).since, history.world.now);
      if (is_escalated && reservations[0].entry == promised) {
        ASSERT_LE(reservations[0].start, start) << "job " << promised.value();
        ++compared;
      }
      promised = is_escalated ? reservations[0].entry : JobId();
      start = is_escalated ? reservations[0].start : kNever;
    }
  }
  EXPECT_GT(compared, 500);
}

// The plan as if the jobs that are not escalated were not there.
Plan PlanOfEscalated(World& world) {
  std::vector<WaitingEntry> others;
  for (JobId id : QueueOrder(world.cluster, world.policy, world.now, 0)) {
    const WaitingEntry& entry = *world.cluster.waiting(id);
    if (!IsEscalated(world.policy, PlaceOf(entry).since, world.now)) others.push_back(entry);
  }
  for (const WaitingEntry& entry : others) world.cluster.Remove(entry.id);
  Plan plan = Schedule(world.cluster, world.policy, world.now);
  for (WaitingEntry& entry : others) world.cluster.Put(std::move(entry));
  return plan;
}

TEST(Properties, WhoStartsBehindAPromiseMovesNoneOfThem) {
#ifdef DIVVY_TEST_KEEPS_PROMISES
  GTEST_SKIP() << "the plan without the others is one of a cluster that has promised nothing yet";
#endif
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Kind kind;
    kind.is_mixed = seed % 2 == 0;
    kind.has_limits = seed % 3 != 0;
    kind.has_topology = seed % 5 == 0;
    History history(seed, kind);
    World& world = history.world;
    world.policy.order = QueuePolicy::kSmallFirst;
    for (int step = 0; step < 60; ++step) {
      history.Step();
      const std::vector<Reservation> alone = PlanOfEscalated(world).reservations;
      const std::size_t started = world.Pass().size();
      const std::vector<Reservation> beside = Schedule(world.cluster, world.policy, world.now).reservations;
      ASSERT_GE(beside.size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        ASSERT_EQ(beside[i].entry, alone[i].entry);
        ASSERT_LE(beside[i].start, alone[i].start) << "job " << alone[i].entry.value() << " is moved back";
        compared += started > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(compared, 500);
}

// Nobody knows an end, small jobs keep coming, every job takes at most an hour: the largest job starts within an hour
// of the moment at which it is the oldest of the escalated.
TEST(Properties, TheLargestJobStartsWithinOneGenerationOfBeingOldest) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    World world;
    const int gpus = 2 + static_cast<int>(random() % 7);
    world.Node(gpus);
    std::uint64_t next = 2;
    world.Submit(World::Job(next++, 1));
    world.Pass();
    world.Submit(World::Job(1, gpus));
    const Time submitted = world.now;
    std::map<JobId, Time> ends;
    for (int minute = 0; minute < 200 && world.cluster.waiting(JobId(1)) != nullptr; ++minute) {
      world.now += kMinute;
      for (int i = 0; i < 2; ++i) world.Submit(World::Job(next++, 1));
      std::vector<JobId> over;
      for (const auto& [id, job] : world.cluster.running_jobs()) {
        const auto [end, is_new] = ends.emplace(id, job.started + static_cast<int>(1 + random() % 60) * kMinute);
        if (end->second <= world.now) over.push_back(id);
      }
      for (JobId id : over) world.cluster.Finish(id);
      world.Pass();
    }
    ASSERT_EQ(world.cluster.waiting(JobId(1)), nullptr) << "the large job starves";
    EXPECT_LE(world.now - submitted, std::chrono::hours(2) + 2 * kMinute);
  }
}

}  // namespace
}  // namespace divvy
