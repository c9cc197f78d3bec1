// Jobs with whole GPUs that are displaced and return, next to fractions, in random histories with failures and
// restarts.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sharing/occupied_gpus.h"
#include "sharing/planner/share_planner_test_world.h"

namespace divvy::sharing {
namespace displacements_test {

/// Gives commands like a controller: a GPU is given to a job only while no other job has it by the last report.
class History {
 public:
  explicit History(unsigned seed) : draw_(seed) {
    node_.is_silent = false;
    const int gpus = 2 + Draw(3);
    for (int gpu = 0; gpu < gpus; ++gpu) node_.SetGpu({.index = static_cast<GpuIndex>(gpu), .capacity = 80_GiB});
    node_.on_action = [this](const Action& action) { Check(action); };
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      Step();
      node_.Settle();
      CheckOwners();
      if (Draw(2) == 0) node_.RunUntil(node_.now + Duration(1s) * Draw(20));
      CheckOwners();
    }
    node_.fates.clear();
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      if (!tenant.share.is_whole) leaving_.push_back(id);
    }
    for (const TenantId id : leaving_) node_.Remove(id);
    node_.RunUntil(node_.now + 600s);
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      if (::testing::Test::HasFailure()) return;
      if (tenant.is_displaced) {
        EXPECT_EQ(tenant.state, State::kParked) << node_.log_text();
        continue;
      }
      EXPECT_EQ(tenant.state, State::kHere) << node_.NameOf(id) << ": " << node_.planner.WhyWaits(id) << "\n"
                                            << node_.log_text();
      for (const Device& device : tenant.devices) EXPECT_EQ(device.gpu, device.planned_gpu) << node_.log_text();
    }
  }

  int displaced = 0;
  int returned = 0;

 private:
  int Draw(int below) { return static_cast<int>(draw_() % static_cast<unsigned>(below)); }

  void Step() {
    switch (Draw(8)) {
      case 0:
      case 1:
        return AddWhole();
      case 2:
        return AddFraction();
      case 3:
        return DisplaceOne();
      case 4:
        return ReturnOne();
      case 5:
        if (const Tenant* one = AnyOf([](const Tenant&) { return true; }); one != nullptr && Draw(3) == 0)
          return node_.Remove(TenantId(one->id));
        return;
      case 6:
        if (Draw(4) == 0) node_.Restart([this](TenantId) { return Draw(2) == 0; });
        else if (Draw(2) == 0)
          node_.fates.push_back({Draw(2) == 0 ? Outcome::kParked : Outcome::kUnchanged, "bad luck"});
        return;
      default:
        return UseAndCall();
    }
  }
  template <typename Condition>
  const Tenant* AnyOf(Condition condition) {
    std::vector<const Tenant*> those;
    for (const auto& [id, tenant] : node_.planner.tenants()) {
      if (condition(tenant)) those.push_back(&tenant);
    }
    return those.empty() ? nullptr : those[static_cast<std::size_t>(Draw(static_cast<int>(those.size())))];
  }
  bool IsAway(const Tenant& tenant) const { return tenant.is_displaced && tenant.state == State::kParked; }
  /// The GPUs that no job has.
  std::vector<GpuIndex> FreeGpus() const {
    std::vector<GpuIndex> free;
    for (const auto& [index, gpu] : node_.planner.gpus()) {
      const bool has_owner = std::ranges::any_of(node_.planner.tenants(), [&, at = index](const auto& entry) {
        return !IsAway(entry.second) && std::ranges::count(entry.second.devices, at, &Device::planned_gpu) > 0;
      });
      if (!has_owner) free.push_back(index);
    }
    return free;
  }
  void AddWhole() {
    std::vector<GpuIndex> free = FreeGpus();
    if (free.empty()) return;
    Tenant tenant;
    tenant.id = {++jobs_, 1};
    const GpuShare whole(GpuShare::kWhole);
    tenant.share = {.memory_request = 80_GiB, .memory_limit = 82_GiB, .compute_request = whole, .compute_limit = whole};
    tenant.share.is_whole = true;
    free.resize(static_cast<std::size_t>(1 + Draw(static_cast<int>(free.size()))));
    for (const GpuIndex gpu : free) tenant.devices.push_back({.planned_gpu = gpu});
    const Status added = node_.AddTenant(tenant);
    EXPECT_TRUE(added) << added.error().message << "\n" << node_.log_text();
  }
  void AddFraction() {
    const std::vector<GpuIndex> free = FreeGpus();
    if (free.empty()) return;
    Tenant tenant;
    tenant.id = {++jobs_, 1};
    tenant.share = {.memory_request = 20_GiB,
                    .memory_limit = 80_GiB,
                    .compute_request = GpuShare(2500),
                    .compute_limit = GpuShare(GpuShare::kWhole)};
    tenant.devices.push_back({.planned_gpu = free.front()});
    EXPECT_TRUE(node_.AddTenant(tenant));
  }
  void DisplaceOne() {
    const Tenant* one = AnyOf([](const Tenant& tenant) { return tenant.share.is_whole && !tenant.is_displaced; });
    if (one != nullptr && node_.planner.Displace(one->id)) ++displaced;
  }
  void ReturnOne() {
    const Tenant* one = AnyOf([this](const Tenant& tenant) { return IsAway(tenant); });
    std::vector<GpuIndex> free = FreeGpus();
    if (one == nullptr || free.size() < one->devices.size()) return;
    std::shuffle(free.begin(), free.end(), draw_);
    free.resize(one->devices.size());
    const Status back = node_.planner.Return(one->id, free);
    EXPECT_TRUE(back) << back.error().message;
    ++returned;
  }
  void UseAndCall() {
    const Tenant* one = AnyOf([](const Tenant&) { return true; });
    if (one == nullptr) return;
    const TenantId id = one->id;
    node_.planner.SetActivity(id, Draw(2) == 0, node_.now);
    node_.planner.WantWake(id);
    if (one->state == State::kHere && !one->share.is_whole)
      node_.Allocate(id, 0, Bytes(std::int64_t{1 + Draw(40)} << 30));
  }

  void Check(const Action& action) {
    if (const auto* wake = std::get_if<Wake>(&action)) {
      EXPECT_FALSE(node_.planner.Find(wake->tenant)->is_displaced) << node_.log_text();
    }
    if (const auto* move = std::get_if<Move>(&action)) {
      EXPECT_FALSE(node_.planner.Find(move->tenant)->share.is_whole) << node_.log_text();
    }
    if (const auto* park = std::get_if<Park>(&action)) {
      const Tenant& tenant = *node_.planner.Find(park->tenant);
      EXPECT_TRUE(!tenant.share.is_whole || tenant.is_displaced) << node_.log_text();
    }
  }
  /// A GPU of a whole job has no other tenant.
  void CheckOwners() {
    for (const auto& [index, gpu] : node_.planner.gpus()) {
      int tenants = 0;
      bool is_whole = false;
      for (const auto& [id, tenant] : node_.planner.tenants()) {
        if (!Occupies(tenant, index)) continue;
        ++tenants;
        is_whole |= tenant.share.is_whole;
      }
      ASSERT_TRUE(!is_whole || tenants == 1) << "GPU " << int(index) << " has two owners\n" << node_.log_text();
    }
  }

  std::mt19937 draw_;
  ModelledNode node_;
  std::uint64_t jobs_ = 0;
  std::vector<TenantId> leaving_;
};

TEST(Displacements, AGpuHasOneOwnerAndEveryReturnEndsOnItsGpus) {
  int displaced = 0;
  int returned = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    history.Run(60);
    displaced += history.displaced;
    returned += history.returned;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(displaced, 500);
  EXPECT_GT(returned, 200);
}

}  // namespace displacements_test
}  // namespace divvy::sharing
