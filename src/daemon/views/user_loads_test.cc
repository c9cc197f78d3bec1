#include "daemon/views/user_loads.h"

#include <gtest/gtest.h>

#include <vector>

namespace divvy {
namespace user_loads_test {

constexpr Time kStart = Time(std::chrono::hours(1));

TEST(UserLoads, LimitsTheRequestsOfAUserWithoutAffectingOthers) {
  UserLoads loads;
  std::vector<std::shared_ptr<void>> tickets;
  for (std::size_t i = 0; i < UserLoads::kMostInFlight; ++i) tickets.push_back(loads.Begin(1));
  EXPECT_NE(tickets.back(), nullptr);
  EXPECT_EQ(loads.Begin(1), nullptr);
  EXPECT_NE(loads.Begin(2), nullptr);
  tickets.pop_back();
  EXPECT_NE(loads.Begin(1), nullptr);
}

TEST(UserLoads, SubmissionsBeyondABurstAreDelayed) {
  UserLoads loads;
  for (std::int64_t i = 0; i <= UserLoads::kSubmissionsAtOnce; ++i)
    EXPECT_EQ(loads.NextSubmission(1, kStart), Duration(0)) << i;
  EXPECT_EQ(loads.NextSubmission(1, kStart), UserLoads::kSubmissionPause);
  EXPECT_EQ(loads.NextSubmission(1, kStart), 2 * UserLoads::kSubmissionPause);
  EXPECT_EQ(loads.NextSubmission(2, kStart), Duration(0));
  EXPECT_EQ(loads.NextSubmission(1, kStart + std::chrono::hours(1)), Duration(0));
}

}  // namespace user_loads_test
}  // namespace divvy
