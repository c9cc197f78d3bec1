// Where the tenants of one node are to be so that everybody's requests fit, at the least cost of moves. A pure search:
// exact within its budget of steps, which suffices for 8 GPUs with 16 tenants but for a few full ones; beyond, the best
// plan found, and never worse than bringing all who can move to their paper GPUs, which fits by the plan.
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
  Bytes request;  // Of memory, on each of its GPUs.
  std::int32_t compute = 0;
  std::vector<int> at;        // GPU of each device; empty: it has none, and must get some.
  std::vector<int> paper;     // As many as it has devices.
  std::vector<int> liked;     // Where it is brought if all else is the same.
  std::vector<Bytes> used;    // Of each device.
  std::uint64_t allowed = 0;  // Bits of the GPUs that it may be brought to. It may stay wherever it is.
  bool must_leave = false;    // It is on a GPU that it may not stay on: one outside of `allowed`.
  bool can_move = true;
  Duration penalty{0};      // Added to the cost of moving it.
  std::int64_t factor = 1;  // And the time of the way counts so often.
};

struct PackProblem {
  std::vector<PackGpu> gpus;
  std::vector<PackTenant> tenants;
};

struct PackPlan {
  std::vector<std::vector<int>> to;  // Of each tenant, for each device. Where it is: it stays.
  Duration cost{0};
};

/// What it costs to bring tenant `number` to `to`: its bytes to the host and back by the speed of both GPUs' ways,
/// those of devices that stay as well (a process is saved whole), times its factor, and its penalty. Staying costs
/// nothing.
Duration MoveCost(const PackProblem& problem, std::size_t number, const std::vector<int>& to);
/// Of a whole plan: all moves; and what is used beyond a GPU's memory after them, which has to take turns there, four
/// times its way. Nothing if the plan is not allowed: requests exceed a GPU, or somebody moved or stayed who may not.
std::optional<Duration> PlanCost(const PackProblem& problem, const std::vector<std::vector<int>>& to);

/// The sets of GPUs that tenant `number` may be brought to; devices that can stay in place do. Cheapest first (for one
/// that has no GPUs yet, last); then those with nobody else, the liked ones, those with fewer others, the lowest.
std::vector<std::vector<int>> PlacesOf(const PackProblem& problem, std::size_t number);

/// The cheapest plan; nothing if there is none. Order: as PlacesOf; the same problem gives the same plan.
/// Cost: at most `budget` steps of the search.
std::optional<PackPlan> Repack(const PackProblem& problem, std::int64_t budget = 500'000);

}  // namespace divvy::sharing
