#include "dialect/valohai/valohai_members.h"

#include <gtest/gtest.h>

namespace divvy::dialect {
namespace valohai_members_test {

TEST(ValohaiMembers, EachMemberKnowsAllMembersAndItsOwnPlace) {
  ValohaiMembers members;
  members.group = "job-17";
  members.execution = "17";
  members.announced = Time(std::chrono::seconds(1'790'000'000));
  members.members = {{"n1", "10.0.0.1"}, {"n\"2", "10.0.0.2"}};
  members.own = 1;
  const std::string first =
      R"({"announce_time": "2026-09-21T14:13:20Z", "identity": "n1", "job_id": "exec-17", "member_id": "0", )"
      R"("network": {"exposed_ports": {}, "local_ips": ["10.0.0.1"], "public_ips": ["10.0.0.1"]}})";
  const std::string second =
      R"({"announce_time": "2026-09-21T14:13:20Z", "identity": "n\"2", "job_id": "exec-17", "member_id": "1", )"
      R"("network": {"exposed_ports": {}, "local_ips": ["10.0.0.2"], "public_ips": ["10.0.0.2"]}})";
  EXPECT_EQ(DistributedJson(members), R"({"config": {"group_name": "job-17", "member_id": "1", "required_count": 2}, )"
                                      R"("members": [)" +
                                          first + ", " + second + R"(], "self": )" + second + "}\n");
  EXPECT_EQ(DistributedEnvironment(members),
            (std::vector<std::string>{"VH_DIST_MEMBER_ID=1", "VH_DIST_MEMBER_INDEX=1", "VH_DIST_MEMBER_COUNT=2",
                                      "VH_LOCAL_IP=10.0.0.2"}));
}

}  // namespace valohai_members_test
}  // namespace divvy::dialect
