#include "sharing/repack.h"

#include <gtest/gtest.h>

#include <random>

namespace divvy::sharing {
namespace repack_test {

PackTenant Tenant(int request, int compute, std::vector<int> at, std::vector<int> planned_gpus, int used) {
  PackTenant tenant;
  tenant.request = Bytes(request);
  tenant.compute = compute;
  tenant.used.assign(planned_gpus.size(), Bytes(used));
  tenant.at = std::move(at);
  tenant.liked = planned_gpus;
  tenant.planned_gpus = std::move(planned_gpus);
  tenant.allowed = 0xff;
  return tenant;
}

/// Finds the optimum by trying all assignments.
std::optional<Duration> Cheapest(const PackProblem& problem) {
  std::vector<std::vector<std::vector<int>>> choices;
  for (std::size_t i = 0; i < problem.tenants.size(); ++i) {
    const PackTenant& tenant = problem.tenants[i];
    choices.push_back(PlacesOf(problem, i));
    if (!tenant.at.empty()) choices.back().push_back(tenant.at);
  }
  std::optional<Duration> best;
  std::vector<std::vector<int>> to(problem.tenants.size());
  const auto try_all = [&](const auto& self, std::size_t i) -> void {
    if (i == to.size()) {
      const std::optional<Duration> cost = PlanCost(problem, to);
      if (cost && (!best || *cost < *best)) best = cost;
      return;
    }
    for (const std::vector<int>& choice : choices[i]) {
      to[i] = choice;
      self(self, i + 1);
    }
  };
  try_all(try_all, 0);
  return best;
}

/// Draws tenants that fit on their planned GPUs but are on those of others, with one GPU to be emptied.
PackProblem DrawProblem(std::mt19937& draw, int gpus, int tenants) {
  const auto below = [&](int n) { return static_cast<int>(draw() % static_cast<unsigned>(n)); };
  PackProblem problem;
  for (int i = 0; i < gpus; ++i) problem.gpus.push_back({Bytes(100), GpuShare::kWhole, 1 + below(3)});
  const int leaving = below(gpus);
  std::vector<int> planned_gpus(static_cast<std::size_t>(gpus), 0);
  std::vector<int> real(static_cast<std::size_t>(gpus), 0);
  for (int i = 0; i < tenants; ++i) {
    const int request = 10 * (1 + below(6));
    const int on = below(gpus);
    const int at = below(gpus);
    const int count = gpus > 2 && below(6) == 0 ? 2 : 1;
    const int on2 = (on + 1) % gpus;
    const int at2 = (at + 1) % gpus;
    const auto fits = [&](std::vector<int>& sums, int first, int second) {
      int& one = sums[static_cast<std::size_t>(first)];
      int& two = sums[static_cast<std::size_t>(second)];
      if (one + request > 100 || (count == 2 && two + request > 100)) return false;
      return true;
    };
    if (on == leaving || (count == 2 && on2 == leaving) || !fits(planned_gpus, on, on2) || !fits(real, at, at2))
      continue;
    planned_gpus[static_cast<std::size_t>(on)] += request;
    real[static_cast<std::size_t>(at)] += request;
    if (count == 2) planned_gpus[static_cast<std::size_t>(on2)] += request;
    if (count == 2) real[static_cast<std::size_t>(at2)] += request;
    const std::vector<int> there = count == 2 ? std::vector{at, at2} : std::vector{at};
    PackTenant tenant =
        Tenant(request, request * 100, there, count == 2 ? std::vector{on, on2} : std::vector{on}, below(request + 30));
    tenant.allowed = ((std::uint64_t{1} << gpus) - 1) & ~(std::uint64_t{1} << leaving);
    tenant.must_leave = at == leaving || (count == 2 && at2 == leaving);
    tenant.can_move = below(8) != 0;
    tenant.factor = 1 + below(2);
    tenant.penalty = 1s * below(4);
    problem.tenants.push_back(std::move(tenant));
  }
  // Sometimes adds a tenant without GPUs.
  if (below(3) == 0) {
    PackTenant seeker = Tenant(10, 1000, {}, {(leaving + 1) % gpus}, 5);
    seeker.allowed = ((std::uint64_t{1} << gpus) - 1) & ~(std::uint64_t{1} << leaving);
    problem.tenants.push_back(std::move(seeker));
  }
  return problem;
}

TEST(Repack, FindsTheCheapestOfAllPlans) {
  std::mt19937 draw(7);
  int solved = 0;
  int moved = 0;
  for (int i = 0; i < 1500; ++i) {
    const int gpus = 2 + static_cast<int>(draw() % 3);
    const PackProblem problem = DrawProblem(draw, gpus, gpus == 4 ? 6 : 7);
    const std::optional<Duration> best = Cheapest(problem);
    const std::optional<PackPlan> plan = Repack(problem);
    ASSERT_EQ(plan.has_value(), best.has_value()) << i;
    if (!plan) continue;
    ++solved;
    moved += *best > Duration(0) ? 1 : 0;
    ASSERT_EQ(plan->cost, *best) << i;
    ASSERT_EQ(PlanCost(problem, plan->to), plan->cost) << i;
  }
  EXPECT_GT(solved, 500);
  EXPECT_GT(moved, 300);
}

TEST(Repack, SixteenTenantsOnEightFullGpusAreAlmostAlwaysSearchedExhaustively) {
  std::mt19937 draw(11);
  int same = 0;
  int all = 0;
  for (int i = 0; i < 40; ++i) {
    PackProblem problem = DrawProblem(draw, 8, 30);
    if (problem.tenants.size() > 16) problem.tenants.resize(16);
    const std::optional<PackPlan> plan = Repack(problem);
    const std::optional<PackPlan> longer = Repack(problem, 2'000'000);
    ASSERT_EQ(plan.has_value(), longer.has_value()) << i;
    if (!plan) continue;
    ++all;
    same += plan->cost == longer->cost ? 1 : 0;
    EXPECT_LE(plan->cost, longer->cost * 5 / 4) << i;
    ASSERT_EQ(PlanCost(problem, plan->to), plan->cost);
  }
  EXPECT_GT(all, 20);
  EXPECT_GE(same, all * 95 / 100);  // Four times the steps rarely find anything better.
}

TEST(Repack, ThePlannedGpusAreAlwaysAFallback) {
  std::mt19937 draw(13);
  for (int i = 0; i < 300; ++i) {
    PackProblem problem = DrawProblem(draw, 8, 40);
    for (PackTenant& tenant : problem.tenants) tenant.can_move = true;
    std::erase_if(problem.tenants, [](const PackTenant& tenant) { return tenant.at.empty(); });
    const std::optional<PackPlan> plan = Repack(problem, 10);  // Too few steps for a search.
    ASSERT_TRUE(plan.has_value()) << i;
    ASSERT_EQ(PlanCost(problem, plan->to), plan->cost);
  }
}

TEST(Repack, BothTenantsLeaveAGpuThatAnotherNeedsCompletely) {
  PackProblem problem;
  problem.gpus.assign(3, {Bytes(100), GpuShare::kWhole, 1});
  problem.tenants = {Tenant(50, 5000, {0}, {1}, 40), Tenant(50, 5000, {1}, {1}, 30), Tenant(50, 5000, {1}, {2}, 30)};
  for (PackTenant& tenant : problem.tenants) tenant.allowed = 7;
  problem.tenants[0].can_move = false;
  problem.tenants.push_back(Tenant(100, 10000, {}, {1}, 0));
  problem.tenants[3].allowed = 2;  // It must get GPU 1, so both others leave: one to 0, one to 2.
  const std::optional<PackPlan> plan = Repack(problem);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->to[3], std::vector{1});
  EXPECT_NE(plan->to[1], std::vector{1});
  EXPECT_NE(plan->to[2], std::vector{1});
}

TEST(Repack, IdleTenantsMoveBeforeBusyOnes) {
  PackProblem problem;
  problem.gpus.assign(2, {Bytes(100), GpuShare::kWhole, 1});
  problem.tenants = {Tenant(40, 4000, {0}, {0}, 30), Tenant(40, 4000, {0}, {0}, 40), Tenant(60, 6000, {}, {0}, 0)};
  for (PackTenant& tenant : problem.tenants) tenant.allowed = 3;
  problem.tenants[2].allowed = 1;
  problem.tenants[0].factor = 2;  // Smaller, but busy.
  const std::optional<PackPlan> plan = Repack(problem);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->to, (std::vector<std::vector<int>>{{0}, {1}, {0}}));
}

}  // namespace repack_test
}  // namespace divvy::sharing
