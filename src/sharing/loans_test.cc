#include "sharing/loans.h"

#include <gtest/gtest.h>

namespace divvy::sharing {
namespace loans_test {

std::vector<std::int64_t> Counts(const std::vector<Bytes>& parts) {
  std::vector<std::int64_t> counts;
  for (const Bytes part : parts) counts.push_back(part.count());
  return counts;
}

using Parts = std::vector<std::int64_t>;

TEST(Loans, AreInProportionToRequests) {
  EXPECT_EQ(Counts(DivideIdle(Bytes(90), {{Bytes(10), Bytes(100)}, {Bytes(20), Bytes(100)}})), (Parts{30, 60}));
}

TEST(Loans, MemoryThatATenantDoesNotWantGoesToOthers) {
  EXPECT_EQ(Counts(DivideIdle(Bytes(90), {{Bytes(10), Bytes(5)}, {Bytes(10), Bytes(100)}, {Bytes(10), Bytes(38)}})),
            (Parts{5, 47, 38}));
}

TEST(Loans, NoTenantGetsMoreThanItWants) {
  EXPECT_EQ(Counts(DivideIdle(Bytes(90), {{Bytes(1), Bytes(20)}, {Bytes(50), Bytes(30)}})), (Parts{20, 30}));
}

TEST(Loans, WithoutTenantsNothingIsLent) {
  EXPECT_EQ(Counts(DivideIdle(Bytes(-5), {{Bytes(1), Bytes(20)}})), (Parts{0}));
  EXPECT_TRUE(DivideIdle(Bytes(10), {}).empty());
}

TEST(Loans, DoNotOverflowOnTheLargestGpus) {
  EXPECT_EQ(Counts(DivideIdle(288_GiB, {{288_GiB, 288_GiB}, {288_GiB, 288_GiB}})),
            (Parts{(144_GiB).count(), (144_GiB).count()}));
}

}  // namespace loans_test
}  // namespace divvy::sharing
