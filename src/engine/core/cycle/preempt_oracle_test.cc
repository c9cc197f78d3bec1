// Compares the chosen victims with all subsets of possible victims, and checks that preemption terminates.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "engine/core/cycle/preempt_search.h"
#include "engine/core/cycle/preempt_test_world.h"

namespace divvy::core {
namespace preempt_oracle_test {

struct Placed {
  std::uint64_t id = 0;
  NodeIndex node = 0;
  int gpus = 0;
  int parts = 0;
  int priority = 0;
  std::int64_t started = 0;
  TeamIndex team = kRootTeam;
  GpuPlace place;
};

struct Problem {
  int nodes = 0;
  int gpus = 0;       // In service.
  int first_gpu = 0;  // GPUs below this one are not in service.
  std::vector<Placed> jobs;
  int preemptor_gpus = 0;
  int preemptor_parts = placement::kGpuParts;
  int preemptor_tasks = 1;
  std::vector<std::int64_t> quotas;  // For teams 1, 2, ...; empty: no job has a team.
};

Problem Draw(Draws& draws, bool has_teams) {
  Problem problem;
  problem.nodes = 1 + draws.Below(3);
  problem.gpus = 2 + draws.Below(3);
  problem.first_gpu = draws.Below(2) == 0 ? 0 : GpuSet::kCapacity - problem.gpus;
  if (has_teams) {
    for (int i = 0; i < 3; ++i) problem.quotas.push_back(draws.Below(4));
  }
  std::vector<std::vector<int>> free(static_cast<std::size_t>(problem.nodes),
                                     std::vector<int>(static_cast<std::size_t>(problem.gpus), placement::kGpuParts));
  for (std::uint64_t id = 1; id <= 9; ++id) {
    Placed job;
    job.id = id;
    job.node = static_cast<NodeIndex>(draws.Below(problem.nodes));
    job.gpus = 1 + draws.Below(3);
    job.parts = job.gpus == 1 && draws.Below(2) == 0 ? 3000 + 1000 * draws.Below(4) : placement::kGpuParts;
    job.priority = draws.Below(4);
    job.started = draws.Below(5) * 20;
    job.team = has_teams ? static_cast<TeamIndex>(1 + draws.Below(2)) : kRootTeam;
    int left = job.gpus;
    auto& room = free[job.node];
    for (std::size_t gpu = 0; gpu < room.size() && left > 0; ++gpu) {
      if (room[gpu] < job.parts) continue;
      job.place.gpus.Insert(problem.first_gpu + static_cast<int>(gpu));
      --left;
    }
    if (left > 0) continue;
    for (const int gpu : job.place.gpus) room[static_cast<std::size_t>(gpu - problem.first_gpu)] -= job.parts;
    problem.jobs.push_back(job);
  }
  problem.preemptor_tasks = draws.Below(3) == 0 ? 2 : 1;
  problem.preemptor_gpus = 1 + draws.Below(problem.gpus);
  if (problem.preemptor_gpus == 1 && draws.Below(2) == 0) problem.preemptor_parts = 6000;
  return problem;
}

PreemptWorld MakeWorld(const Problem& problem, Rules rules) {
  PreemptWorld world(problem.nodes, problem.first_gpu + problem.gpus, rules);
  const GpuSet usable = GpuSet::FirstN(GpuSet::kCapacity) - GpuSet::FirstN(problem.first_gpu);
  for (NodeIndex node = 0; node < world.cluster.node_count(); ++node) world.cluster.SetUsable(node, usable, true);
  return world;
}

bool Fits(const Problem& problem, std::uint32_t taken) {
  int room = 0;
  for (int node = 0; node < problem.nodes; ++node) {
    std::vector<int> free(static_cast<std::size_t>(problem.gpus), placement::kGpuParts);
    for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
      const Placed& job = problem.jobs[i];
      if (((taken >> i) & 1) != 0 || job.node != static_cast<NodeIndex>(node)) continue;
      for (const int gpu : job.place.gpus) free[static_cast<std::size_t>(gpu - problem.first_gpu)] -= job.parts;
    }
    if (problem.preemptor_parts < placement::kGpuParts) {
      for (const int one : free) room += one / problem.preemptor_parts;
    } else {
      room += static_cast<int>(std::count(free.begin(), free.end(), placement::kGpuParts)) / problem.preemptor_gpus;
    }
  }
  return room >= problem.preemptor_tasks;
}

constexpr std::int64_t kNow = 1000;
constexpr std::uint64_t kPreemptor = 50;

using Cost = std::array<std::int64_t, 5>;

Cost CostOf(const Problem& problem, std::uint32_t taken) {
  Cost cost{};
  for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
    const Placed& job = problem.jobs[i];
    if (((taken >> i) & 1) == 0) continue;
    const std::int64_t parts = std::int64_t{job.gpus} * job.parts;
    cost[0] += (kNow - job.started) * parts;
    cost[1] += 1;
    cost[2] += parts;
    cost[3] += job.priority;
    cost[4] += kNow - static_cast<std::int64_t>(job.id);
  }
  return cost;
}

class PreemptionOracle : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PreemptionOracle, PreemptsTheSetThatCostsLeast) {
  Draws draws(GetParam());
  for (int round = 0; round < 40; ++round) {
    const Problem problem = Draw(draws, false);
    const int priority = 1 + draws.Below(4);
    Rules rules;
    rules.preempts = true;
    PreemptWorld world = MakeWorld(problem, rules);
    for (const Placed& job : problem.jobs) {
      ResourceRequest request = GpuRequest(job.gpus);
      request.groups.front().alternatives.front().parts = static_cast<std::int16_t>(job.parts);
      world.Run(world.Make(job.id, request, job.priority), {{job.node, job.place, 0, 0}}, job.started);
    }
    ResourceRequest request = GpuRequest(problem.preemptor_gpus, problem.preemptor_tasks);
    request.groups.front().alternatives.front().parts = static_cast<std::int16_t>(problem.preemptor_parts);
    world.Wait(world.Make(kPreemptor, request, priority), kNow);
    std::optional<Cost> best;
    for (std::uint32_t taken = 0; taken < (1u << problem.jobs.size()); ++taken) {
      bool is_allowed = true;
      for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
        if (((taken >> i) & 1) != 0 && problem.jobs[i].priority >= priority) is_allowed = false;
      }
      if (!is_allowed || !Fits(problem, taken)) continue;
      const Cost cost = CostOf(problem, taken);
      if (!best || cost < *best) best = cost;
    }
    const Plan plan = world.cluster.Decide(At(kNow));
    std::uint32_t taken = 0;
    for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
      for (const Preemption& preemption : plan.preemptions) {
        if (preemption.job.value() == problem.jobs[i].id) taken |= 1u << i;
      }
    }
    if (!best) {
      EXPECT_TRUE(plan.preemptions.empty() && plan.starts.empty());
      continue;
    }
    EXPECT_TRUE(Fits(problem, taken));
    EXPECT_EQ(CostOf(problem, taken), *best) << "seed " << GetParam() << " round " << round;
    world.Leave(plan, kNow + 1);
    world.Round(kNow + 1);
    EXPECT_NE(world.cluster.running(JobId(kPreemptor)), nullptr);
    EXPECT_EQ(world.cluster.CheckInvariants(), "");
  }
}

TEST_P(PreemptionOracle, ReclaimingBetweenTeamsComesToRest) {
  Draws draws(GetParam() + 1000);
  for (int round = 0; round < 25; ++round) {
    const Problem problem = Draw(draws, true);
    Rules rules;
    rules.order = QueuePolicy::kFair;
    rules.backfill = draws.Below(2) == 0 ? Backfill::kAnything : Backfill::kReserved;
    rules.reclaims = rules.preempts = true;
    rules.consolidates = draws.Below(2) == 0;
    PreemptWorld world = MakeWorld(problem, rules);
    world.SetTeams({{problem.quotas[0], static_cast<std::uint64_t>(draws.Below(3))},
                    {problem.quotas[1], 1},
                    {problem.quotas[2], 2}});
    const auto kind = [&] { return draws.Below(2) == 0 ? Preemptible::kRequeue : Preemptible::kPause; };
    for (const Placed& job : problem.jobs) {
      ResourceRequest request = GpuRequest(job.gpus);
      request.groups.front().alternatives.front().parts = static_cast<std::int16_t>(job.parts);
      world.Run(world.Make(job.id, request, job.priority, kind(), job.team), {{job.node, job.place, 0, 0}},
                job.started);
    }
    for (std::uint64_t id = kPreemptor; id < kPreemptor + 6; ++id) {
      const int gpus = 1 + draws.Below(problem.gpus);
      const ResourceRequest request =
          gpus == 1 && draws.Below(2) == 0 ? ShareRequest(5000) : GpuRequest(gpus, 1 + draws.Below(2));
      world.Wait(world.Make(id, request, draws.Below(4), kind(), static_cast<TeamIndex>(1 + draws.Below(3))), kNow);
    }
    int rounds = 0;
    Plan plan;
    do {
      plan = world.Round(kNow + rounds);
      ASSERT_EQ(world.cluster.CheckInvariants(), "") << "seed " << GetParam() << " round " << round;
      ASSERT_LT(++rounds, 40) << "it does not come to rest: seed " << GetParam() << " round " << round;
    } while (!plan.preemptions.empty() || !plan.moves.empty() || !plan.starts.empty());
    for (int i = 0; i < 5; ++i) {
      plan = world.Round(kNow + rounds + i);
      EXPECT_TRUE(plan.preemptions.empty() && plan.moves.empty() && plan.starts.empty());
    }
    // No nomination stays forever.
    for (const BackfillReservation& reservation : world.cluster.reservations()) EXPECT_FALSE(reservation.is_nomination);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PreemptionOracle, testing::Range<std::uint64_t>(1, 7));

}  // namespace preempt_oracle_test
}  // namespace divvy::core
