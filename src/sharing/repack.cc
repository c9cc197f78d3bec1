#include "sharing/repack.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace divvy::sharing {
namespace {

struct Load {
  Bytes request;
  Bytes used;
  std::int32_t compute = 0;
  int tenants = 0;
};

void Add(std::vector<Load>& loads, const PackTenant& tenant, const std::vector<int>& at, int sign) {
  for (std::size_t device = 0; device < at.size(); ++device) {
    Load& load = loads[static_cast<std::size_t>(at[device])];
    load.request += Bytes(sign * tenant.request.count());
    load.used += Bytes(sign * tenant.used[device].count());
    load.compute += sign * tenant.compute;
    load.tenants += sign;
  }
}

std::vector<Load> LoadsOf(const PackProblem& problem, const std::vector<std::vector<int>>& at) {
  std::vector<Load> loads(problem.gpus.size());
  for (std::size_t i = 0; i < at.size(); ++i) Add(loads, problem.tenants[i], at[i], 1);
  return loads;
}

bool IsOver(const PackGpu& gpu, const Load& load) { return load.request > gpu.memory || load.compute > gpu.compute; }

Duration WayOf(const PackGpu& gpu, Bytes bytes) {
  const double seconds = static_cast<double>(bytes.count()) / static_cast<double>(gpu.bytes_per_second);
  return Duration(static_cast<std::int64_t>(seconds * 1e9));
}

Duration OverflowCost(const PackProblem& problem, const std::vector<Load>& loads) {
  Duration cost{0};
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const Bytes over = loads[i].used - problem.gpus[i].memory;
    if (over > Bytes(0)) cost += 4 * WayOf(problem.gpus[i], over);
  }
  return cost;
}

bool IsAllowed(const PackTenant& tenant, const std::vector<int>& to) {
  if (to == tenant.at) return !tenant.must_leave;
  if (!tenant.at.empty() && !tenant.can_move) return false;
  for (std::size_t device = 0; device < to.size(); ++device) {
    if ((tenant.allowed >> to[device] & 1) == 0) return false;
    if (std::count(to.begin(), to.end(), to[device]) > 1) return false;
  }
  return to.size() == tenant.used.size();
}

/// Branch and bound over which tenants leave. A tenant without a place tries each of PlacesOf. If a GPU then has too
/// many requests, one of its tenants leaves too. Each choice of tenant is tried; tenants passed over stay fixed.
class Search {
 public:
  Search(const PackProblem& problem, std::int64_t budget) : problem_(problem), budget_(budget) {
    const std::size_t count = problem.tenants.size();
    to_.resize(count);
    is_fixed_.resize(count, false);
    places_.resize(count);
    least_.resize(count, Duration(0));
    for (std::size_t i = 0; i < count; ++i) {
      const PackTenant& tenant = problem.tenants[i];
      if (tenant.at.empty() || tenant.can_move) places_[i] = PlacesOf(problem, i);
      for (std::size_t n = 0; n < places_[i].size(); ++n) {
        const Duration cost = MoveCost(problem, i, places_[i][n]);
        least_[i] = n == 0 ? cost : std::min(least_[i], cost);
      }
      is_fixed_[i] = !tenant.at.empty() && (!tenant.can_move || places_[i].empty());
      if (tenant.at.empty() || tenant.must_leave) Unplace(i);
      else to_[i] = tenant.at;
    }
    loads_ = LoadsOf(problem, to_);
  }

  std::optional<PackPlan> Run() {
    OfferPlannedGpus();
    for (const std::size_t i : unplaced_) {
      if (places_[i].empty()) return std::nullopt;
    }
    std::stable_sort(unplaced_.begin(), unplaced_.end(), [this](std::size_t a, std::size_t b) {
      return problem_.tenants[a].request < problem_.tenants[b].request;  // The largest is taken from the end first.
    });
    Step(Duration(0));
    return best_;
  }

 private:
  void Unplace(std::size_t i) {
    to_[i].clear();
    unplaced_.push_back(i);
    owed_ += least_[i];
  }

  /// Offers the plan with every movable tenant on its planned GPUs, which the cluster's scheduler has checked.
  void OfferPlannedGpus() {
    std::vector<std::vector<int>> to;
    for (const PackTenant& tenant : problem_.tenants) {
      to.push_back(tenant.at.empty() || tenant.can_move ? tenant.planned_gpus : tenant.at);
    }
    if (const std::optional<Duration> cost = PlanCost(problem_, to)) best_ = PackPlan{to, *cost};
  }

  bool IsHopeless(Duration cost) const { return best_ && cost + owed_ >= best_->cost; }

  /// Returns a lower bound on the cost of the evictions that over-full GPUs still need: at least the cheapest tenant
  /// there, and at least in proportion to the excess. A tenant's cost is split evenly over its GPUs.
  Duration OwedByEvictions() const {
    Duration owed{0};
    for (std::size_t gpu = 0; gpu < loads_.size(); ++gpu) {
      if (!IsOver(problem_.gpus[gpu], loads_[gpu])) continue;
      const double over = static_cast<double>((loads_[gpu].request - problem_.gpus[gpu].memory).count());
      double least = -1;
      double rate = -1;
      for (std::size_t i = 0; i < to_.size(); ++i) {
        if (is_fixed_[i] || std::count(to_[i].begin(), to_[i].end(), static_cast<int>(gpu)) == 0) continue;
        const double part = static_cast<double>(least_[i].count()) / static_cast<double>(to_[i].size());
        const double each = part / static_cast<double>(problem_.tenants[i].request.count());
        least = least < 0 ? part : std::min(least, part);
        rate = rate < 0 ? each : std::min(rate, each);
      }
      if (least < 0) return Duration::max() / 4;  // No tenant there may leave.
      owed += Duration(static_cast<std::int64_t>(std::max(least, rate * over) * 0.999999));
    }
    return owed;
  }

  void Step(Duration cost) {
    if (--budget_ < 0 || IsHopeless(cost) || IsHopeless(cost + OwedByEvictions())) return;
    for (std::size_t gpu = 0; gpu < loads_.size(); ++gpu) {
      if (IsOver(problem_.gpus[gpu], loads_[gpu])) return Evict({gpu}, cost);
    }
    if (!unplaced_.empty()) return PlaceNext(cost);
    const Duration whole = cost + OverflowCost(problem_, loads_);
    if (!best_ || whole < best_->cost) best_ = PackPlan{to_, whole};
    std::vector<std::size_t> full;
    for (std::size_t gpu = 0; gpu < loads_.size(); ++gpu) {
      if (loads_[gpu].used > problem_.gpus[gpu].memory) full.push_back(gpu);
    }
    Evict(full, cost);
  }

  void PlaceNext(Duration cost) {
    const std::size_t i = unplaced_.back();
    unplaced_.pop_back();
    owed_ -= least_[i];
    is_fixed_[i] = true;
    for (const std::vector<int>& place : places_[i]) {
      const Duration next = cost + MoveCost(problem_, i, place);
      if (IsHopeless(next)) continue;
      to_[i] = place;
      Add(loads_, problem_.tenants[i], place, 1);
      Step(next);
      Add(loads_, problem_.tenants[i], place, -1);
    }
    is_fixed_[i] = false;
    Unplace(i);
  }

  /// Tries each way of removing one tenant from one of `gpus`.
  void Evict(const std::vector<std::size_t>& gpus, Duration cost) {
    std::vector<std::size_t> passed;
    for (std::size_t i = 0; i < to_.size(); ++i) {
      const bool is_there = std::any_of(gpus.begin(), gpus.end(), [&](std::size_t gpu) {
        return std::count(to_[i].begin(), to_[i].end(), static_cast<int>(gpu)) > 0;
      });
      if (is_fixed_[i] || !is_there) continue;
      Add(loads_, problem_.tenants[i], to_[i], -1);
      Unplace(i);
      Step(cost);
      unplaced_.pop_back();
      owed_ -= least_[i];
      to_[i] = problem_.tenants[i].at;
      Add(loads_, problem_.tenants[i], to_[i], 1);
      is_fixed_[i] = true;  // From here on it counts among the tenants that stay.
      passed.push_back(i);
    }
    for (const std::size_t i : passed) is_fixed_[i] = false;
  }

  const PackProblem& problem_;
  std::int64_t budget_;
  std::vector<std::vector<int>> to_;
  std::vector<bool> is_fixed_;  // It stays where it is.
  std::vector<std::vector<std::vector<int>>> places_;
  std::vector<Duration> least_;
  std::vector<std::size_t> unplaced_;
  std::vector<Load> loads_;
  Duration owed_{0};  // Lower bound on the cost of the unplaced tenants.
  std::optional<PackPlan> best_;
};

/// Devices whose GPU is in the set stay; the others take the remaining GPUs in order.
std::vector<int> Assign(const PackTenant& tenant, std::uint64_t set) {
  std::vector<int> to(tenant.used.size(), -1);
  for (std::size_t device = 0; device < tenant.at.size(); ++device) {
    if ((set >> tenant.at[device] & 1) == 0) continue;
    to[device] = tenant.at[device];
    set &= ~(std::uint64_t{1} << tenant.at[device]);
  }
  for (int& gpu : to) {
    if (gpu >= 0) continue;
    gpu = __builtin_ctzll(set);
    set &= set - 1;
  }
  return to;
}

}  // namespace

Duration MoveCost(const PackProblem& problem, std::size_t number, const std::vector<int>& to) {
  const PackTenant& tenant = problem.tenants[number];
  if (to == tenant.at) return Duration(0);
  Duration way{0};
  for (std::size_t device = 0; device < to.size(); ++device) {
    const Bytes bytes = tenant.used[device];
    if (tenant.at.empty()) way += WayOf(problem.gpus[static_cast<std::size_t>(to[device])], bytes);
    else {
      way += WayOf(problem.gpus[static_cast<std::size_t>(tenant.at[device])], bytes) +
             WayOf(problem.gpus[static_cast<std::size_t>(to[device])], bytes);
    }
  }
  return tenant.factor * way + tenant.penalty;
}

std::optional<Duration> PlanCost(const PackProblem& problem, const std::vector<std::vector<int>>& to) {
  Duration cost{0};
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (!IsAllowed(problem.tenants[i], to[i])) return std::nullopt;
    cost += MoveCost(problem, i, to[i]);
  }
  const std::vector<Load> loads = LoadsOf(problem, to);
  for (std::size_t gpu = 0; gpu < loads.size(); ++gpu) {
    if (IsOver(problem.gpus[gpu], loads[gpu])) return std::nullopt;
  }
  return cost + OverflowCost(problem, loads);
}

std::vector<std::vector<int>> PlacesOf(const PackProblem& problem, std::size_t number) {
  const PackTenant& tenant = problem.tenants[number];
  std::vector<int> others(problem.gpus.size(), 0);
  for (std::size_t i = 0; i < problem.tenants.size(); ++i) {
    if (i == number) continue;
    for (const int gpu : problem.tenants[i].at) ++others[static_cast<std::size_t>(gpu)];
  }
  std::vector<std::tuple<Duration, bool, bool, int, Duration, std::vector<int>>> ranked;
  const int wanted = static_cast<int>(tenant.used.size());
  // Enumerates all subsets of `allowed` of the required size by taking or skipping one GPU after the other.
  const auto choose = [&](const auto& self, std::uint64_t chosen, std::uint64_t left) -> void {
    const int missing = wanted - __builtin_popcountll(chosen);
    if (missing == 0) {
      std::vector<int> to = Assign(tenant, chosen);
      if (to == tenant.at) return;
      int crowd = 0;
      for (const int gpu : to) crowd += others[static_cast<std::size_t>(gpu)];
      const Duration cost = MoveCost(problem, number, to);
      const Duration first = tenant.at.empty() ? Duration(0) : cost;
      ranked.emplace_back(first, crowd > 0, to != tenant.liked, crowd, cost, std::move(to));
      return;
    }
    if (__builtin_popcountll(left) < missing) return;
    const std::uint64_t lowest = left & (~left + 1);
    self(self, chosen | lowest, left & ~lowest);
    self(self, chosen, left & ~lowest);
  };
  choose(choose, 0, tenant.allowed);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::vector<int>> places;
  for (auto& rank : ranked) places.push_back(std::move(std::get<5>(rank)));
  return places;
}

std::optional<PackPlan> Repack(const PackProblem& problem, std::int64_t budget) {
  return Search(problem, budget).Run();
}

}  // namespace divvy::sharing
