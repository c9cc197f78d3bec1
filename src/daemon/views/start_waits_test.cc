#include "daemon/views/start_waits.h"

#include <gtest/gtest.h>

namespace divvy {
namespace start_waits_test {

/// Job 6 is element 0 of array 5; job 20 needs GPU 1 as a whole.
class StartWaits : public testing::Test {
 protected:
  StartWaits() {
    starting_.id = JobId(20);
    starting_.state = JobState::kStarting;
    starting_.request.gpus = 1;
    starting_.gpus.Insert(GpuIndex(1));
  }

  static wire::KeptTenant Tenant(std::uint64_t job, int gpu) {
    wire::KeptTenant tenant;
    tenant.job = JobId(job);
    tenant.state = wire::ShareState::kRunning;
    tenant.shares.emplace_back().gpu = gpu;
    return tenant;
  }

  std::string Text() {
    SharingSnapshot board;
    board.Set("", state_, TimeFromSeconds(1'000'000));
    return StartWaitsText(starting_, board, [](JobId id) -> std::optional<JobRecord> {
      if (id != JobId(6)) return std::nullopt;
      JobRecord element;
      element.id = id;
      element.array = JobId(5);
      return element;
    });
  }

  JobRecord starting_;
  wire::KeeperState state_;
};

TEST_F(StartWaits, ALeavingTenantIsNamedOnceByItsDisplayId) {
  state_.tenants = {Tenant(6, 1), Tenant(7, 0)};
  state_.waits.push_back(
      {JobId(20), "job 6 is leaving GPU 1, which takes at most 3 s", Time(), std::chrono::seconds(3)});
  EXPECT_EQ(Text(), " It waits there: job 5_0 is leaving GPU 1, which takes at most 3 s.");
}

TEST_F(StartWaits, ATenantNotYetAskedToLeaveIsNamedToo) {
  state_.tenants = {Tenant(6, 1), Tenant(7, 1), Tenant(8, 1)};
  EXPECT_EQ(Text(), " It waits until its GPUs are empty: jobs 5_0, 7 and 8 are moved away first.");
  state_.waits.push_back({JobId(20), "job 7 is leaving GPU 1, job 8 is leaving GPU 1", Time(), Duration(0)});
  EXPECT_EQ(Text(),
            " It waits there: job 7 is leaving GPU 1, job 8 is leaving GPU 1."
            " It waits until its GPUs are empty: job 5_0 is moved away first.");
}

TEST_F(StartWaits, FractionsAndParkedTenantsAreNotInTheWay) {
  state_.tenants = {Tenant(7, 1)};
  starting_.request.portion.memory = 10_GiB;
  EXPECT_EQ(Text(), "");
  starting_.request.portion = GpuPortion();
  state_.tenants.front().state = wire::ShareState::kParked;
  EXPECT_EQ(Text(), "");
}

}  // namespace start_waits_test
}  // namespace divvy
