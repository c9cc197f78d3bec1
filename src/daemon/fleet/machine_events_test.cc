#include "daemon/fleet/machine_events.h"

#include <gtest/gtest.h>

namespace divvy {
namespace machine_events_test {

using Machines = std::map<std::string, MachineEvents::Machine>;
using Texts = std::vector<std::string>;

GpuAvailability Gpu(std::string fault, std::string unmanaged = "", bool is_restricted = false) {
  return {is_restricted, std::move(fault), std::move(unmanaged), ""};
}

TEST(MachineEvents, GpuEventsOfTheOnlyNodeOmitItsName) {
  const Machines sound = {{"vm", {"up", "", {Gpu(""), Gpu("")}}}};
  const Machines broken = {{"vm", {"up", "", {Gpu("XID 79"), Gpu("", "pid 7 of ada, for 1 min")}}}};
  const Machines later = {{"vm", {"up", "", {Gpu("XID 79"), Gpu("", "pid 7 of ada, for 2 min")}}}};
  EXPECT_EQ(MachineEvents::News(sound, sound), Texts());
  EXPECT_EQ(MachineEvents::News(sound, broken), (Texts{"GPU 0 is fenced and takes no new jobs: XID 79",
                                                       "GPU 1 is used outside divvy, by pid 7 of ada, for 1 min"}));
  EXPECT_EQ(MachineEvents::News(broken, later), Texts()) << "how long is no news";
  EXPECT_EQ(MachineEvents::News(later, sound), (Texts{"GPU 0 works again", "GPU 1 is no longer used outside divvy"}));
}

TEST(MachineEvents, ReportsNodesThatJoinChangeAndLeave) {
  const Machines one = {{"vm", {"up", "", {Gpu("")}}}};
  Machines two = one;
  two["n1"] = {"up", "", {Gpu(""), Gpu("", "", true)}};
  EXPECT_EQ(MachineEvents::News(one, two), Texts{"node n1 has joined"}) << "and of its GPUs it is no change";
  Machines drained = two;
  drained["n1"] = {"draining", "by root: new disks", {Gpu(""), Gpu("")}};
  EXPECT_EQ(MachineEvents::News(two, drained),
            (Texts{"node n1 is draining: by root: new disks", "GPU 1 of n1 is available to divvy again"}));
  EXPECT_EQ(MachineEvents::News(drained, one), Texts{"node n1 was removed"});
}

}  // namespace machine_events_test
}  // namespace divvy
