// Restrictions and foreign processes, which keep GPUs of the controller's machine and of other nodes from new work.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_restrict_test {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Restricted : World {
  Restricted() : World(2) {
    root_.is_admin = true;
    Come();
  }
  void Come() {
    controller_.SetOwnName("head");
    for (const char* name : {"n1", "n2"}) {
      controller_.OnNodeRow(MachineRow(name, 4));
      controller_.OnNodeReconciled(name);
    }
  }
  Result<GpuSet> Restrict(GpuSet allowed, const std::string& node) {
    return controller_.Restrict(allowed, root_, {node});
  }
  int Free(const std::string& node) const {
    return controller_.scheduler().node(controller_.IndexOf(node).value()).free().size();
  }
  /// Shows a foreign process on GPU 1 of n1; the other GPUs are idle.
  void SeeStranger(std::uint64_t start_ticks) {
    std::vector<GpuObservation> seen(4);
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i].index = static_cast<GpuIndex>(i);
    GpuProcess process;
    process.identity = {4711, start_ticks};
    process.user = "eve";
    process.command = "python";
    process.memory_used = Bytes(std::int64_t{1} << 30);
    seen[1].processes = {process};
    controller_.OnGpusObserved("n1", seen);
  }
  Settings Turned() { return Turn().batch.settings; }

  Caller root_;
};

const GpuSet kFirst = GpuSet::FirstN(1);

TEST(Restrict, AppliesToOneNodeOnly) {
  Restricted world;
  EXPECT_EQ(Restricted().Free("n1"), 4);
  ASSERT_TRUE(world.Restrict(kFirst, "n1"));
  EXPECT_EQ(world.Free("n1"), 1);
  EXPECT_EQ(world.Free("n2"), 4);
  EXPECT_EQ(world.Free(""), 2);
  ASSERT_TRUE(world.Restrict(kFirst, "head")) << "its own machine has a name as well";
  EXPECT_EQ(world.Free(""), 1);
  EXPECT_EQ(world.controller_.restriction(""), kFirst);
  EXPECT_EQ(world.controller_.Restrict(std::nullopt, world.root_, {"n1"}).value().size(), 4);
  EXPECT_EQ(world.Free("n1"), 4);
}

TEST(Restrict, OnSeveralNodesIsAllOrNothing) {
  Restricted world;
  EXPECT_EQ(world.controller_.Restrict(kFirst, world.root_, {"n1", "n3"}).error().message,
            "there is no node 'n3'; divvy nodes lists all nodes");
  EXPECT_EQ(world.controller_.Restrict(GpuSet::FirstN(3), world.root_, {"n1", "head"}).error().message,
            "there is no GPU 2; this server has 2 GPUs, 0 to 1");
  EXPECT_EQ(world.Restrict(GpuSet::FirstN(5), "n1").error().message, "there is no GPU 4; node n1 has 4 GPUs, 0 to 3");
  EXPECT_EQ(world.Free("n1"), 4);
  ASSERT_TRUE(world.controller_.Restrict(kFirst, world.root_, {"n1", "n2"}));
  EXPECT_EQ(world.Free("n1") + world.Free("n2"), 2);
  EXPECT_EQ(world.controller_.Restrict(kFirst, world.ada_, {"n1"}).error().code, ErrorCode::kPermissionDenied);
}

TEST(Restrict, SurvivesAControllerRestartButNotTheRemovalOfItsNode) {
  Restricted world;
  ASSERT_TRUE(world.Restrict(GpuSet(), "n1"));
  const Settings kept = world.Turned();
  Restricted again;
  again.controller_.Load({}, kept, 1, 0, World::NoHistory());
  EXPECT_EQ(again.Free("n1"), 0);
  EXPECT_EQ(again.Free("n2"), 4);
  again.Turn();
  again.controller_.OnNodeRemoved("n1");
  EXPECT_EQ(again.Turned(), (Settings{{"gpus.restriction.of.n1", ""}}));
  EXPECT_FALSE(again.Restrict(GpuSet(), "n1")) << "it was removed";
  again.Come();
  EXPECT_EQ(again.Free("n1"), 4) << "who comes by that name later is another machine";
}

TEST(Ignore, OnAnotherNodeNeedsAProcessThatWasSeenThere) {
  Restricted world;
  world.SeeStranger(99);
  EXPECT_EQ(world.Free("n1"), 3);
  IgnoredProcess asked{-1, {4711, 0}, "", "", "n2"};
  EXPECT_EQ(world.controller_.Ignore(asked, true, world.root_).error().message,
            "no process with pid 4711 was seen on a GPU of node n2; divvy gpus lists them");
  asked.node = "n1";
  EXPECT_EQ(world.controller_.Ignore(asked, true, world.root_).value(),
            "pid 4711 of node n1 no longer makes its GPU unavailable, until it ends");
  EXPECT_EQ(world.Free("n1"), 4);
  const Settings kept = world.Turned();
  Restricted again;
  again.controller_.Load({}, kept, 1, 0, World::NoHistory());
  again.SeeStranger(99);
  EXPECT_EQ(again.Free("n1"), 4) << "the rule was not kept";
  again.SeeStranger(100);  // The pid was reused by another process.
  EXPECT_EQ(again.Free("n1"), 3);
  EXPECT_TRUE(again.controller_.ignored().empty());
}

}  // namespace controller_restrict_test
}  // namespace divvy
