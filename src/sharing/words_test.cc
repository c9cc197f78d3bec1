#include "sharing/words.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy::sharing {
namespace words_test {

const Time kNow = Time(1'000'000s);

Tenant Here() {
  Tenant tenant;
  tenant.id = {17, 1};
  tenant.share = {.memory_request = 20_GiB, .memory_limit = 80_GiB};
  tenant.devices = {{.planned_gpu = 1, .gpu = 1, .used = 10_GiB, .ceiling = 20_GiB}};
  tenant.state = State::kHere;
  return tenant;
}

std::string Said(const Tenant& tenant) { return Join(Remarks(tenant, kNow), "; "); }

TEST(TenantDescription, ATenantOnItsGpuWithinItsRequestHasNone) { EXPECT_EQ(Said(Here()), ""); }

TEST(TenantDescription, NamesLoansOtherGpusAndTenantsThatCannotMove) {
  Tenant tenant = Here();
  tenant.devices[0].used = 32_GiB;
  EXPECT_EQ(Said(tenant), "borrows 12 GiB");
  tenant.devices[0].gpu = 3;
  EXPECT_EQ(Said(tenant), "borrows 12 GiB; on GPU 3 for now (its guaranteed fraction is on GPU 1)");
  tenant = Here();
  tenant.why_cannot_move = "uses CUDA IPC";
  EXPECT_EQ(Said(tenant), "stays on GPU 1: uses CUDA IPC");
}

TEST(TenantDescription, NamesTheTargetOfAMove) {
  Tenant tenant = Here();
  tenant.state = State::kMoving;
  tenant.devices[0].target = 2;
  EXPECT_EQ(Said(tenant), "moves to GPU 2");
  tenant.state = State::kWaking;
  tenant.devices[0].gpu = 3;
  EXPECT_EQ(Said(tenant), "returning to GPU 2") << "where it was says nothing";
  tenant.devices.push_back({.planned_gpu = 0, .gpu = 0, .target = 5});
  EXPECT_EQ(Said(tenant), "returning to GPUs 2,5");
}

TEST(TenantDescription, NamesTheReasonForParking) {
  Tenant tenant = Here();
  tenant.state = State::kParked;
  tenant.parked_by = ParkedBy::kIdle;
  tenant.last_active = kNow - 10min;
  EXPECT_EQ(Said(tenant), "parked on the host: idle for 10 min");
  tenant.parked_by = ParkedBy::kUser;
  EXPECT_EQ(Said(tenant), "parked on the host: on request");
  tenant.wants_to_wake = true;
  EXPECT_EQ(Said(tenant), "waits for room on a GPU");
}

TEST(TenantDescription, NamesJobAndAttempt) {
  EXPECT_EQ(TenantText({17, 1}), "job 17");
  EXPECT_EQ(TenantText({17, 3}), "job 17 (attempt 3)");
}

}  // namespace words_test
}  // namespace divvy::sharing
