#include "engine/scheduler/planned_gpus.h"

#include <gtest/gtest.h>

namespace divvy {
namespace planned_gpus_test {

constexpr GpuShare kHalf(5'000);
constexpr GpuShare kQuarter(2'500);

/// A node with two H100s and two L4s on which all tenants hold their fractions.
NodeUsage NodeWith(const std::vector<PlannedTenant>& tenants) {
  NodeUsage node;
  for (int i = 0; i < 4; ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    facts.model = i < 3 ? "H100" : "L4";
    facts.memory_total = 80_GiB;
    node.capacity.gpus.push_back(facts);
  }
  node.usable = node.present();
  for (const PlannedTenant& tenant : tenants) {
    for (const int gpu : tenant.gpus.ToVector()) {
      node.sharers[static_cast<GpuIndex>(gpu)][tenant.job] = tenant.share;
      node.owned.Insert(static_cast<GpuIndex>(gpu));
    }
  }
  return node;
}

PlannedTenant Tenant(std::uint64_t job, std::vector<int> gpus, GpuShare share, std::vector<int> stays = {}) {
  return {JobId(job), GpuSet::Of(gpus), share, GpuSet::Of(stays)};
}

/// "1:0 2:1": job 1 on GPU 0, then job 2 on GPU 1.
std::string Text(const std::vector<PlannedMove>& moves) {
  std::string text;
  for (const PlannedMove& move : moves) {
    text += (text.empty() ? "" : " ") + std::to_string(move.job.value()) + ":";
    for (const int gpu : move.gpus.ToVector()) text += std::to_string(gpu);
  }
  return text;
}

std::string Pack(const std::vector<PlannedTenant>& tenants) {
  return Text(PackPlannedGpus(NodeWith(tenants), tenants, GpuSet()));
}

TEST(PlannedGpus, TenantsArePackedToFreeAWholeGpu) {
  EXPECT_EQ(Pack({Tenant(1, {0}, kHalf), Tenant(2, {1}, kHalf)}), "2:0");
  EXPECT_EQ(Pack({Tenant(1, {0}, kQuarter), Tenant(2, {1}, kHalf), Tenant(3, {2}, kQuarter)}), "3:1 1:1");
  EXPECT_EQ(Pack({Tenant(1, {0}, kHalf), Tenant(2, {0}, kHalf), Tenant(3, {1}, kHalf)}), "");
  EXPECT_EQ(Pack({}), "");
}

TEST(PlannedGpus, ATenantUsesGpusOfOneModelOnly) {
  EXPECT_EQ(Pack({Tenant(1, {0}, kHalf), Tenant(2, {3}, kHalf)}), "");
}

TEST(PlannedGpus, ATenantIsCountedOnceOnEachGpu) {
  EXPECT_EQ(Pack({Tenant(1, {0, 1}, kHalf), Tenant(2, {2}, kHalf)}), "2:0");
  EXPECT_EQ(Pack({Tenant(1, {0, 1}, kHalf)}), "");
}

TEST(PlannedGpus, ATenantThatCannotLeaveIsCountedWhereItIs) {
  EXPECT_EQ(Pack({Tenant(1, {0}, kHalf, {0}), Tenant(2, {0}, kHalf, {1})}), "2:1");
  // Other tenants make room in the plan and are counted wherever there is room.
  EXPECT_EQ(Pack({Tenant(1, {0}, kHalf, {1}), Tenant(2, {1}, kHalf), Tenant(3, {1}, kHalf)}), "3:0 1:1");
  // Both are on the same GPU, which has no room for both in the plan.
  EXPECT_EQ(Pack({Tenant(1, {0}, GpuShare(7'000), {0}), Tenant(2, {1}, kHalf, {0})}), "");
}

TEST(PlannedGpus, NoTenantIsPackedOntoAnUnusableGpu) {
  const std::vector<PlannedTenant> tenants = {Tenant(1, {0}, kHalf), Tenant(2, {1}, kHalf)};
  NodeUsage node = NodeWith(tenants);
  node.usable.Erase(0);
  EXPECT_EQ(Text(PackPlannedGpus(node, tenants, GpuSet())), "1:1") << "but it is left";
}

TEST(PlannedGpus, NoTenantIsPackedOntoACutGpu) {
  const std::vector<PlannedTenant> tenants = {Tenant(1, {0}, kQuarter), Tenant(2, {1}, kHalf)};
  EXPECT_EQ(Text(PackPlannedGpus(NodeWith(tenants), {tenants[1]}, GpuSet::Of({0}))), "");
  const std::vector<PlannedTenant> stays = {Tenant(1, {0}, kQuarter), Tenant(2, {1}, kHalf, {0})};
  EXPECT_EQ(Text(PackPlannedGpus(NodeWith(stays), {stays[1]}, GpuSet::Of({0}))), "") << "also where it is there";
}

TEST(PlannedGpus, TenantsOutsideTheListStay) {
  const std::vector<PlannedTenant> tenants = {Tenant(1, {0}, kHalf), Tenant(2, {1}, kQuarter)};
  EXPECT_EQ(Text(PackPlannedGpus(NodeWith(tenants), {tenants[1]}, GpuSet())), "2:0");
  EXPECT_EQ(Text(PackPlannedGpus(NodeWith(tenants), {}, GpuSet())), "");
}

TEST(PlannedGpus, AGrowingTenantPrefersASharedGpu) {
  const std::vector<PlannedTenant> tenants = {Tenant(1, {0}, kHalf), Tenant(2, {0}, kHalf), Tenant(3, {2}, kQuarter)};
  EXPECT_EQ(OtherGpuFor(NodeWith(tenants), 0, GpuSet::Of({0}), GpuSet(), GpuShare(7'500)), GpuIndex{2});
  EXPECT_EQ(OtherGpuFor(NodeWith(tenants), 0, GpuSet::Of({0}), GpuSet(), GpuShare(8'000)), GpuIndex{1});
  EXPECT_EQ(OtherGpuFor(NodeWith(tenants), 3, GpuSet::Of({3}), GpuSet(), kQuarter), std::nullopt);
}

}  // namespace planned_gpus_test
}  // namespace divvy
