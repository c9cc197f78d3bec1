#include "model/steps/gang_environment.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace divvy {
namespace gang_environment_test {

GangFile Two() {
  GangFile gang{17, 2, 1, {}};
  gang.members.push_back({"", {"head.lab", 4001}, {}, 4});
  gang.members.push_back({"beta", {"10.0.0.2", 4002}, {}, 0});
  return gang;
}

TEST(GangEnvironment, ListsTheNodesOfEachComponent) {
  GangFile gang{17, 1, 0, {}};
  gang.members.push_back({"n1", {"n1", 1}, GpuSet(), 2, {{0, GpuSet(), 1}, {1, GpuSet(), 1}}});
  gang.members.push_back({"n2", {"n2", 1}, GpuSet(), 1, {{1, GpuSet(), 1}}});
  const std::vector<std::string> told = GangEnvironment(gang, "/s");
  EXPECT_EQ(std::ranges::count(told, "DIVVY_COMPONENTS=2"), 1);
  EXPECT_EQ(std::ranges::count(told, "DIVVY_COMPONENT_NODES=n1;n1,n2"), 1);
}

TEST(GangEnvironment, ListsNodesAndTheMasterAddress) {
  const std::vector<std::string> all = GangEnvironment(Two(), "/run/steps-1/17");
  const auto has = [&](const std::string& entry) { return std::ranges::find(all, entry) != all.end(); };
  for (const char* entry :
       {"DIVVY_NODES=head.lab,beta", "DIVVY_HOSTS=head.lab,10.0.0.2", "NNODES=2", "NODE_RANK=1", "MASTER_ADDR=head.lab",
        "MASTER_PORT=10221", "OMPI_MCA_plm_rsh_agent=/run/steps-1/17.rsh",
        "OMPI_MCA_orte_default_hostfile=/run/steps-1/17.hosts", "HYDRA_HOST_FILE=/run/steps-1/17.machines"})
    EXPECT_TRUE(has(entry)) << entry;
}

TEST(GangEnvironment, HostFilesListTheSlotsOfEachNode) {
  EXPECT_EQ(OpenMpiHosts(Two()), "head.lab slots=4\nbeta slots=1\n");
  EXPECT_EQ(HydraHosts(Two()), "head.lab:4\nbeta:1\n");
}

TEST(GangEnvironment, EachStepHasItsOwnPort) {
  EXPECT_NE(GangPort(17, 0), GangPort(17, 1));
  EXPECT_GE(GangPort(~std::uint64_t{0}, 5), 10'000);
  EXPECT_LT(GangPort(~std::uint64_t{0}, 5), 30'000);
}

}  // namespace gang_environment_test
}  // namespace divvy
