// Properties of every history: generated servers, arrivals, ends, faults and changes, checked after every step. A
// failure prints the seed; narrow the loop to it to run it alone.

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "engine/gpu_choice.h"
#include "engine/scheduler/test_world.h"

namespace divvy {
namespace properties_test {

constexpr Duration kMinute = std::chrono::minutes(1);

struct Kind {
  bool has_limits = true;  // All jobs have time limits; otherwise one in three has none.
  bool is_mixed = false;   // Two models of GPUs, and jobs with known speeds on each.
  bool has_host = false;   // Requests for CPUs, and jobs without GPUs.
  bool has_groups = false;
  bool has_gpu_caps = false;  // Each of two users has a limit on held GPUs.
  bool has_priorities = false;
  bool changes_gpus = false;  // Restrictions that come and go.
  bool has_topology = false;  // Two NUMA nodes, pairs joined by NVLink; elastic jobs, and every placement.
  bool ends_early = true;
  bool is_large = false;  // 33 to 64 GPUs; otherwise 1 to 8.
};

class History {
 public:
  History(std::uint64_t seed, const Kind& kind) : kind_(kind), random_(seed) {
    NodeCapacity capacity;
    const int gpus = kind.is_large ? 64 - Draw(32) : 1 + Draw(8);
    for (int i = 0; i < gpus; ++i) {
      if (kind.is_mixed && i % 2 == 1) World::AddGpu(capacity, "NVIDIA L4", 24_GiB);
      else World::AddGpu(capacity, "NVIDIA H100 80GB HBM3", 80_GiB);
    }
    if (kind.has_topology) JoinPairs(capacity);
    capacity.cpus = 16;
    capacity.memory = 64_GiB;
    world.scheduler.SetCapacity(std::move(capacity));
    if (Draw(3) == 0) world.policy.order = QueuePolicy::kFifo;
    world.policy.cpu_jobs_at_once = 3;
    if (kind.has_groups) world.scheduler.SetGroupLimit("g", 2);
    if (kind.has_gpu_caps) {
      for (const char* user : {"user ada", "user bob"}) world.scheduler.SetGroupGpuLimit(user, 1 + Draw(gpus));
    }
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
    if (kind_.has_topology) Checkpoint();
    if (what < 5) Submit();
    else if (what < 7 && kind_.ends_early) EndOne();
    else if (what == 7 && kind_.changes_gpus) ChangeGpu();
    else world.now += Draw(40) * kMinute;
    world.EndDue();
  }

  void Submit() {
    WaitingEntry entry = World::Job(next_id_++, 1 + Draw(static_cast<int>(world.scheduler.capacity().gpus.size())));
    if (kind_.has_limits || Draw(3) > 0) entry.time_limit = (1 + Draw(12)) * 15 * kMinute;
    if (kind_.is_mixed && Draw(2) == 0) entry.request.gpu_type = Draw(2) == 0 ? "h100" : "l4";
    if (kind_.is_mixed && Draw(2) == 0) entry.speeds = {{"NVIDIA L4", 550}, {"NVIDIA H100 80GB HBM3", 1000}};
    if (kind_.has_host) {
      if (Draw(4) == 0) entry.request.gpus = 0;
      entry.request.cpus = Draw(9);
    }
    if (kind_.has_groups && Draw(3) == 0) entry.groups.push_back("g");
    if (kind_.has_gpu_caps && Draw(3) > 0) entry.groups.push_back(Draw(2) == 0 ? "user ada" : "user bob");
    if (kind_.has_priorities) entry.priority = Draw(3) - 1;
    if (Draw(8) == 0) entry.count = static_cast<std::uint32_t>(1 + Draw(4));
    if (Draw(8) == 0) entry.placement = PlacementStrategy::kRandom;
    if (kind_.has_topology) WantTopology(entry);
    entry.placement_draw = random_();
    if (Draw(10) == 0) entry.begin = world.now + Draw(90) * kMinute;
    if (Draw(20) == 0) entry.is_held = true;
    // Infeasible jobs are left out: they would only wait.
    if (CheckFeasible(world.scheduler, entry.request)) world.Submit(std::move(entry));
  }

  void WantTopology(WaitingEntry& entry) {
    entry.placement = static_cast<PlacementStrategy>(Draw(5));
    entry.request.topology = static_cast<TopologyNeed>(Draw(3));
    entry.request.requires_topology = entry.request.topology != TopologyNeed::kAny && Draw(2) == 0;
    if (entry.request.requires_topology) entry.request.gpus = std::min(entry.request.gpus, 1 + Draw(4));
    if (Draw(3) == 0) entry.request.max_gpus = entry.request.gpus + Draw(6);
  }

  // Elastic jobs with an odd id accept resizing, and answer at a random later time.
  void Checkpoint() {
    std::vector<JobId> answering;
    for (const auto& [id, job] : world.scheduler.running_jobs()) {
      if (!job.request.is_elastic() || job.request.gpus == 0 || id.value() % 2 == 0 || Draw(3) > 0) continue;
      answering.push_back(id);
    }
    for (const JobId id : answering) {
      const RunningJob& job = *world.scheduler.running(id);
      if (!job.is_resizable) world.scheduler.SetResizable(id);
      if (!job.asked_back.empty()) world.scheduler.Resize(id, job.gpus - job.asked_back);
    }
    world.Check();
  }

  void EndOne() {
    const auto& running = world.scheduler.running_jobs();
    if (running.empty()) return;
    world.scheduler.Finish(std::next(running.begin(), Draw(static_cast<int>(running.size())))->first);
  }

  void ChangeGpu() {
    GpuAvailability state;
    state.is_restricted = Draw(2) == 0;
    world.scheduler.SetAvailability(
        kOwnNode, static_cast<GpuIndex>(Draw(static_cast<int>(world.scheduler.capacity().gpus.size()))), state);
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

bool IsFull(const Scheduler& scheduler, const GroupName& group, int gpus) {
  const int jobs_limit = scheduler.group_limit(group);
  const int gpus_limit = scheduler.group_gpu_limit(group);
  return (jobs_limit > 0 && scheduler.group_running(group) >= jobs_limit) ||
         (gpus_limit > 0 && scheduler.group_gpus(group) + gpus > gpus_limit);
}

// The first job in the queue that no limit blocks must not fit.
void CheckHeadIsNotIdle(const World& world) {
  // GPUs that are asked back are kept for one job, together with free GPUs, so the check does not apply.
  for (const auto& [id, job] : world.scheduler.running_jobs()) {
    if (!job.asked_back.empty()) return;
  }
  for (JobId id : QueueOrder(world.scheduler, world.now, 0)) {
    const WaitingEntry& entry = *world.scheduler.waiting(id);
    if (!IsInLine(entry, world.now)) continue;
    if (entry.request.gpus == 0) return;  // A backfill reservation may keep the CPUs.
    const bool is_capped = std::any_of(entry.groups.begin(), entry.groups.end(), [&](const GroupName& group) {
      return IsFull(world.scheduler, group, entry.request.gpus);
    });
    const GpuSet matches = MatchingGpus(world.scheduler.capacity(), entry.request);
    if (is_capped || (matches & world.scheduler.usable()).size() < entry.request.gpus) continue;
    const GpuChoice choice = {entry.placement, 0, entry.request.topology, entry.request.requires_topology,
                              &world.scheduler.topology()};
    if (!PickGpus(matches & world.scheduler.usable(), entry.request.gpus, choice)) continue;
    const bool fits = PickGpus(matches & world.scheduler.free(), entry.request.gpus, choice) &&
                      world.scheduler.cpus_claimed() + entry.request.cpus <= world.scheduler.capacity().cpus;
    EXPECT_FALSE(fits) << "job " << id.value() << " is first in line, fits and waits";
    return;
  }
}

Time SinceOf(const WaitingEntry& entry) { return std::max(entry.queued_at, entry.begin); }

bool AreEqual(const WaitingEntry& a, const WaitingEntry& b) {
  return a.request == b.request && a.time_limit == b.time_limit && a.groups == b.groups && a.placement == b.placement;
}

// Of equal jobs, the first in the queue starts first.
void CheckEqualsInOrder(const World& world, const std::vector<WaitingEntry>& started) {
  const auto place = [](const WaitingEntry& entry) { return std::tuple(-entry.priority, SinceOf(entry), entry.id); };
  for (const WaitingEntry& entry : started) {
    for (JobId id : QueueOrder(world.scheduler, world.now, 0)) {
      const WaitingEntry& other = *world.scheduler.waiting(id);
      if (id == entry.id || !IsInLine(other, world.now) || !AreEqual(entry, other)) continue;
      EXPECT_LT(place(entry), place(other)) << "job " << entry.id.value() << " passed its equal";
    }
  }
}

void CheckPass(World& world) {
  std::map<JobId, WaitingEntry> before;
  for (JobId id : QueueOrder(world.scheduler, world.now, 0)) before.emplace(id, *world.scheduler.waiting(id));
  std::vector<WaitingEntry> started;
  for (const World::Started& start : world.RunCycle()) {
    EXPECT_TRUE(IsInLine(before.at(start.entry), world.now)) << "job " << start.entry.value() << " is not in line";
    EXPECT_FALSE(start.reason.empty());
    started.push_back(before.at(start.entry));
  }
  CheckEqualsInOrder(world, started);
  CheckHeadIsNotIdle(world);
  const Plan second = world.WouldDecide();
  EXPECT_TRUE(second.starts.empty()) << "a second pass starts more";
  for (const Resizing& one : second.resizings) ADD_FAILURE() << "a second pass resizes " << one.job.value();
  EXPECT_GT(world.last_plan.next_wakeup, world.now);
  EXPECT_LE(world.scheduler.group_running("g"), 2);
  for (const char* user : {"user ada", "user bob"}) {
    const int most = world.scheduler.group_gpu_limit(user);
    EXPECT_TRUE(most == 0 || world.scheduler.group_gpus(user) <= most) << user << " holds more than " << most;
  }
  EXPECT_LE(world.scheduler.cpu_jobs_running(), world.policy.cpu_jobs_at_once);
  EXPECT_LE(world.scheduler.cpus_claimed(), world.scheduler.capacity().cpus);
}

// Every waiting job has a blocker, FirstBlockers names the first of them, and estimated starts are not in the past.
void CheckExplanations(const World& world) {
  std::uint64_t last_position = 0;
  FirstBlockers first(world.scheduler, world.now);
  for (JobId id : QueueOrder(world.scheduler, world.now, 0)) {
    const core::Explanation why = Explain(world.scheduler, id, world.now);
    ASSERT_TRUE(why.is_waiting);
    EXPECT_FALSE(why.blockers.empty()) << "job " << id.value() << " waits without a reason";
    const std::optional<core::Blocker> named = first.Find(id);
    EXPECT_EQ(named ? named->text : "", why.blockers.empty() ? "" : why.blockers.front().text);
    EXPECT_FALSE(why.start.basis.empty());
    EXPECT_GE(why.start.typical, world.now);
    const WaitingEntry& entry = *world.scheduler.waiting(id);
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
  kind.has_gpu_caps = (number & 32) != 0;
  kind.is_large = (number & 64) != 0;
  return kind;
}

void RunHistories(bool has_groups, int first, std::uint64_t seeds) {
  for (int number = first; number < first + 32; ++number) {
    if (KindOf(number).has_groups != has_groups) continue;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
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

TEST(Properties, HoldInGeneratedHistories) { RunHistories(false, 0, 8); }
TEST(Properties, HoldInGeneratedHistoriesWithGroups) { RunHistories(true, 0, 8); }
TEST(Properties, HoldInGeneratedHistoriesWithCapsOnGpus) { RunHistories(false, 32, 6); }
TEST(Properties, HoldInGeneratedHistoriesWithCapsOnGpusAndGroups) { RunHistories(true, 32, 3); }
TEST(Properties, HoldOnLargeNodes) { RunHistories(false, 64, 1); }
TEST(Properties, HoldOnLargeNodesWithCapsAndGroups) { RunHistories(true, 96, 1); }

bool IsEscalated(const Policy& policy, const WaitingEntry& entry, Time now) {
  return policy.escalate_after > Duration(0) && now - SinceOf(entry) >= policy.escalate_after;
}

// With equal priorities no job gets ahead of an escalated job in small-first. Jobs end at their limits at the latest.
TEST(Properties, AnEscalatedReservationIsNeverMovedBack) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Kind kind;
    kind.is_mixed = seed % 2 == 0;
    kind.has_topology = seed % 3 == 0;
    History history(seed, kind);
    history.world.policy.order = QueuePolicy::kSmallFirst;
    JobId escalated;
    Time start = kNever;
    for (int step = 0; step < 80; ++step) {
      history.Step();
      history.world.RunCycle();
      const std::vector<Reservation>& reservations = history.world.last_plan.reservations;
      const WaitingEntry* first =
          reservations.empty() ? nullptr : history.world.scheduler.waiting(reservations[0].entry);
      // A nomination is excluded: it is not known when its GPUs become free.
      const bool is_escalated = first != nullptr && !reservations[0].is_nomination && first->count == 1 &&
                                IsEscalated(history.world.policy, *first, history.world.now);
      if (is_escalated && reservations[0].entry == escalated) {
        ASSERT_LE(reservations[0].start, start) << "job " << escalated.value();
        ++compared;
      }
      escalated = is_escalated ? reservations[0].entry : JobId();
      start = is_escalated ? reservations[0].start : kNever;
    }
  }
  EXPECT_GT(compared, 500);
}

// No end is known, small jobs keep arriving, and every job runs at most an hour. The largest job must start within an
// hour of becoming the oldest escalated job.
TEST(Properties, TheLargestJobStartsWithinOneGenerationOfBecomingTheOldest) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    World world;
    const int gpus = 2 + static_cast<int>(random() % 7);
    world.Node(gpus);
    std::uint64_t next = 2;
    world.Submit(World::Job(next++, 1));
    world.RunCycle();
    world.Submit(World::Job(1, gpus));
    const Time submitted = world.now;
    std::map<JobId, Time> ends;
    for (int minute = 0; minute < 200 && world.scheduler.waiting(JobId(1)) != nullptr; ++minute) {
      world.now += kMinute;
      for (int i = 0; i < 2; ++i) world.Submit(World::Job(next++, 1));
      std::vector<JobId> over;
      for (const auto& [id, job] : world.scheduler.running_jobs()) {
        const auto [end, is_new] = ends.emplace(id, job.started + static_cast<int>(1 + random() % 60) * kMinute);
        if (end->second <= world.now) over.push_back(id);
      }
      for (JobId id : over) world.scheduler.Finish(id);
      world.RunCycle();
    }
    ASSERT_EQ(world.scheduler.waiting(JobId(1)), nullptr) << "the large job starves";
    EXPECT_LE(world.now - submitted, std::chrono::hours(2) + 2 * kMinute);
  }
}

}  // namespace properties_test
}  // namespace divvy
