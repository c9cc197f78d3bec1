// Searches an assignment of a node's tenants to GPUs in which all requests fit, at the lowest cost of moves. Pure. The
// result is optimal within a budget of steps, which suffices for 8 GPUs with 16 tenants except for a few full ones.
// Beyond the budget it is the best plan found. It is never worse than moving all movable tenants to their planned GPUs,
// which the scheduler guarantees to fit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "base/units.h"

namespace divvy::sharing {

struct PackGpu {
  Bytes memory;
  std::int32_t compute = GpuShare::kWhole;
  std::int64_t bytes_per_second = 1;
};

struct PackTenant {
  Bytes request;  // Memory request on each of its GPUs.
  std::int32_t compute = 0;
  std::vector<int> at;            // Current GPU of each device. Empty: it has none and needs some.
  std::vector<int> planned_gpus;  // Planned GPU of each device.
  std::vector<int> liked;         // Preferred GPUs if all else is equal.
  std::vector<Bytes> used;        // Memory in use on each device.
  std::uint64_t allowed = 0;      // Bit mask of GPUs that it may move to. It may stay on its present ones in any case.
  bool must_leave = false;        // It must leave a GPU that is not in `allowed`.
  bool can_move = true;
  Duration penalty{0};      // Added to the cost of a move.
  std::int64_t factor = 1;  // Multiplies the copy time in the cost of a move.
};

struct PackProblem {
  std::vector<PackGpu> gpus;
  std::vector<PackTenant> tenants;
};

struct PackPlan {
  std::vector<std::vector<int>> to;  // GPU of each tenant's devices. Its current GPUs: it stays.
  Duration cost{0};
};

/// Returns the cost of moving tenant `number` to `to`. The cost is the time to copy its bytes to the host and back, at
/// the speeds of both GPUs, times its factor, plus its penalty. Devices that stay count too, because a process is saved
/// as a whole. Staying costs nothing.
Duration MoveCost(const PackProblem& problem, std::size_t number, const std::vector<int>& to);
/// Returns the cost of a whole plan: all moves, plus four times the copy time of memory that exceeds a GPU after them
/// and must be swapped in turns. Returns nullopt if the plan is not allowed: requests exceed a GPU, or a tenant moves
/// or stays against its constraints.
std::optional<Duration> PlanCost(const PackProblem& problem, const std::vector<std::vector<int>>& to);

/// Returns the sets of GPUs to which tenant `number` may move; devices keep their GPU where possible. The sets are
/// sorted by cost (for a tenant without GPUs, cost comes almost last). Then come sets without other tenants, preferred
/// sets, those with fewer other tenants, those with lower cost, and those with lower GPU indices.
std::vector<std::vector<int>> PlacesOf(const PackProblem& problem, std::size_t number);

/// Returns the cheapest plan, or nullopt if there is none. Ties follow the order of PlacesOf; the same problem gives
/// the same plan. Cost: at most `budget` search steps.
std::optional<PackPlan> Repack(const PackProblem& problem, std::int64_t budget = 500'000);

}  // namespace divvy::sharing
