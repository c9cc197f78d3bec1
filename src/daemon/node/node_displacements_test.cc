// Jobs with whole GPUs that a node parks and lets return.
#include "daemon/node/node_shares_test_world.h"
#include "model/exit_codes.h"

namespace divvy {
namespace node_displacements_test {

using wire::ShareState;

class NodeDisplacementsTest : public node_shares_test::NodeSharesTest {
 protected:
  static LaunchCommand Parkable(int job, std::vector<int> gpus) {
    LaunchCommand command = Launch(job, std::move(gpus));
    command.is_parkable = true;
    return command;
  }
  static wire::KeptTenant Tenant(int job, std::vector<int> gpus, ShareState state, bool is_displaced = false) {
    wire::KeptTenant tenant;
    tenant.job = JobId(static_cast<std::uint64_t>(job));
    tenant.attempt = 1;
    tenant.is_whole = true;
    tenant.is_displaced = is_displaced;
    tenant.state = state;
    for (const int gpu : gpus) {
      tenant.shares.emplace_back().gpu = gpu;
      tenant.shares.back().paper = gpu;
    }
    return tenant;
  }
  static DisplaceCommand Displace(int job) { return {JobId(static_cast<std::uint64_t>(job)), 1, true, GpuSet(), ""}; }
  static DisplaceCommand Return(int job, std::vector<int> gpus) {
    return {JobId(static_cast<std::uint64_t>(job)), 1, false, GpuSet::Of(gpus), ""};
  }
  /// The keeper has this tenant only.
  void Show(wire::KeptTenant tenant) {
    wire::KeeperState state;
    state.tenants.push_back(std::move(tenant));
    shares_.OnKept(state);
  }
  /// Job 7 runs on GPUs 0 and 1, and can be parked.
  void Start() {
    Execute(Parkable(7, {0, 1}));
    shares_.OnKeeper();
    keeper_.AnswerHello();
    wire::KeeperAnswer answer;
    answer.added = wire::KeeperAdded{{0, 1}, {}, GpuSet::Of({0, 1}), "", {"DIVVY_SHARE=/x"}};
    keeper_.Next().answered(answer);
    Show(Tenant(7, {0, 1}, ShareState::kRunning));
    passed_.clear();
  }
  /// Returns the last command to stop or continue the job's processes, if it was the only command.
  std::optional<bool> IsStopped() {
    const std::vector<NodeCommand> passed = std::exchange(passed_, {});
    const auto* last = passed.size() == 1 ? std::get_if<DisplaceCommand>(&passed.front()) : nullptr;
    return last == nullptr ? std::nullopt : std::optional(last->is_displaced);
  }
  PresenceReport Reported() {
    EXPECT_FALSE(controller_.presences.empty());
    return controller_.presences.empty() ? PresenceReport() : controller_.presences.back();
  }
};

TEST_F(NodeDisplacementsTest, AJobThatCanBeParkedIsATenantWithItsGpusWhole) {
  Execute(Parkable(7, {0, 1}));
  shares_.OnKeeper();
  keeper_.AnswerHello();
  const auto add = keeper_.Next();
  ASSERT_TRUE(add.request.add);
  EXPECT_TRUE(add.request.add->is_whole);
  EXPECT_EQ(add.request.add->paper, (std::vector<int>{0, 1}));
  EXPECT_EQ(add.request.add->share.memory_request, PortionedMemory(64_GiB));
  EXPECT_EQ(add.request.add->share.memory_limit, 64_GiB);
  EXPECT_EQ(add.request.add->share.compute_request, GpuShare(GpuShare::kWhole));
  EXPECT_TRUE(passed_.empty());
  wire::KeeperAnswer answer;
  answer.added = wire::KeeperAdded{{0, 1}, {}, GpuSet::Of({0, 1}), "", {"DIVVY_SHARE=/x"}};
  add.answered(answer);
  EXPECT_EQ(passed_.size(), 1U);
  EXPECT_TRUE(grants_[JobId(7)].is_whole);
  Show(Tenant(7, {0, 1}, ShareState::kRunning));
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kHere, GpuSet::Of({0, 1}), true, ""}));
  EXPECT_TRUE(controller_.shown.tenants.empty()) << "users see no fraction";
}

TEST_F(NodeDisplacementsTest, AJobThatTheKeeperRefusesStartsAsAnOrdinaryOne) {
  Execute(Parkable(7, {0}));
  shares_.OnKeeper();
  keeper_.AnswerHello();
  keeper_.Next().answered(FailedPrecondition("libdivvy_cuda.so is missing"));
  const auto take = keeper_.Next();
  ASSERT_TRUE(take.request.take_whole);
  take.answered(wire::KeeperAnswer());
  EXPECT_EQ(passed_.size(), 1U);
  EXPECT_TRUE(controller_.ended.empty());
  Execute(Displace(7));
  EXPECT_EQ(Reported(),
            (PresenceReport{JobId(7), 1, Presence::kHere, GpuSet::Of({0}), false, "libdivvy_cuda.so is missing"}));
  EXPECT_TRUE(keeper_.asked.empty());
}

TEST_F(NodeDisplacementsTest, ANodeThatParksNoJobsSaysWhy) {
  shares_.SetNeverParks("the node has strict isolation");
  Execute(Parkable(7, {0}));
  EXPECT_EQ(passed_.size(), 1U);
  EXPECT_EQ(keeper_.opens, 0);
  Execute(Displace(7));
  EXPECT_EQ(Reported(),
            (PresenceReport{JobId(7), 1, Presence::kHere, GpuSet::Of({0}), false, "the node has strict isolation"}));
}

TEST_F(NodeDisplacementsTest, WithoutAKeeperAJobStartsAsAnOrdinaryOne) {
  Execute(Parkable(7, {0}));
  ASSERT_EQ(later_.size(), 1U);
  later_[0]();
  EXPECT_EQ(passed_.size(), 1U);
  EXPECT_TRUE(controller_.ended.empty());
}

TEST_F(NodeDisplacementsTest, ADisplacedJobIsStoppedOnceItIsParkedAndContinuedBeforeItReturns) {
  Start();
  Execute(Displace(7));
  const auto displace = keeper_.Next();
  ASSERT_TRUE(displace.request.displace);
  Show(Tenant(7, {0, 1}, ShareState::kParking, true));
  EXPECT_EQ(Reported().presence, Presence::kLeaving);
  EXPECT_EQ(Reported().gpus, GpuSet::Of({0, 1}));
  EXPECT_FALSE(IsStopped()) << "its processes take part";
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  EXPECT_EQ(IsStopped(), true);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kAway, GpuSet(), false, ""}));
  displace.answered(wire::KeeperAnswer());
  EXPECT_TRUE(keeper_.Next().request.state);

  Execute(Return(7, {1}));
  EXPECT_EQ(IsStopped(), false);
  const auto back = keeper_.Next();
  ASSERT_TRUE(back.request.back);
  EXPECT_EQ(back.request.back->to, std::vector<int>{1});
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  EXPECT_FALSE(IsStopped()) << "the keeper has not begun";
  wire::KeptTenant waiting = Tenant(7, {0}, ShareState::kParked);
  waiting.shares[0].paper = 1;
  Show(waiting);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kReturning, GpuSet::Of({1}), false, ""}));
  Show(Tenant(7, {1}, ShareState::kRunning));
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kHere, GpuSet::Of({1}), true, ""}));
  back.answered(wire::KeeperAnswer());
  EXPECT_TRUE(passed_.empty());
}

TEST_F(NodeDisplacementsTest, AJobThatCannotBeParkedKeepsItsGpusAndSaysWhy) {
  Start();
  Execute(Displace(7));
  keeper_.Next().answered(FailedPrecondition("job 7 cannot be parked: uses NCCL"));
  const auto state = keeper_.Next();
  ASSERT_TRUE(state.request.state);
  wire::KeeperAnswer answer;
  wire::KeptTenant tenant = Tenant(7, {0, 1}, ShareState::kRunning);
  tenant.unparkable = "uses NCCL";
  answer.state.emplace().tenants.push_back(tenant);
  state.answered(answer);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kHere, GpuSet::Of({0, 1}), false,
                                        "job 7 cannot be parked: uses NCCL"}));
  EXPECT_TRUE(passed_.empty());
}

TEST_F(NodeDisplacementsTest, AKeeperOfAnEarlierReleaseParksNoJob) {
  Start();
  Execute(Displace(7));
  keeper_.Next().answered(FailedPrecondition("this keeper does not know the request"));
  wire::KeeperAnswer answer;
  answer.state.emplace().tenants.push_back(Tenant(7, {0, 1}, ShareState::kRunning));
  answer.state->tenants[0].is_whole = false;
  keeper_.Next().answered(answer);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kHere, GpuSet::Of({0, 1}), false,
                                        "this keeper does not know the request"}));
}

TEST_F(NodeDisplacementsTest, AFailedReturnStopsTheJobAgain) {
  Start();
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  Execute(Return(7, {0, 1}));
  passed_.clear();
  keeper_.Next().answered(FailedPrecondition("the driver gave up"));
  keeper_.Next();  // The state is asked for.
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  EXPECT_EQ(IsStopped(), true);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kAway, GpuSet(), false, "the driver gave up"}));
}

TEST_F(NodeDisplacementsTest, AJobThatTheKeeperDoesNotKnowIsNotSaidToBeBack) {
  Start();
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  Execute(Return(7, {0, 1}));
  keeper_.Next().answered(NotFound("job 7 is not on this node"));
  wire::KeeperAnswer answer;
  answer.state.emplace();
  keeper_.Next().answered(answer);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kAway, GpuSet(), false, "job 7 is not on this node"}));
}

TEST_F(NodeDisplacementsTest, AKeeperOfAnEarlierReleaseGetsNoTenantWithWholeGpus) {
  keeper_.version = wire::kKeeperVersion - 1;
  Execute(Parkable(7, {0}));
  shares_.OnKeeper();
  keeper_.AnswerHello();
  bool takes_whole = false;
  while (!keeper_.asked.empty()) {
    const auto asked = keeper_.Next();
    EXPECT_FALSE(asked.request.add);
    takes_whole |= asked.request.take_whole.has_value();
  }
  EXPECT_TRUE(takes_whole) << "it starts as an ordinary job";
}

TEST_F(NodeDisplacementsTest, AJobThatIsToEndIsNotStoppedAgain) {
  Start();
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  EXPECT_EQ(IsStopped(), true);
  Execute(StopCommand{JobId(7), 15, Duration(0), ""});
  passed_.clear();
  wire::KeptTenant tenant = Tenant(7, {0, 1}, ShareState::kParked, true);
  tenant.processes = 1;
  Show(tenant);
  EXPECT_TRUE(passed_.empty());
}

TEST_F(NodeDisplacementsTest, ACommandIsRepeatedToTheNextKeeper) {
  Start();
  Execute(Displace(7));
  keeper_.Next().answered(Unreachable("the keeper has gone"));
  shares_.OnKeeper();
  wire::KeeperState state;
  state.tenants.push_back(Tenant(7, {0, 1}, ShareState::kRunning));
  keeper_.AnswerHello(state);
  EXPECT_TRUE(keeper_.Next().request.add);
  EXPECT_TRUE(keeper_.Next().request.displace);
  EXPECT_EQ(controller_.presences.size(), 1U) << "nothing has changed";
}

// The controller's record of a displaced job names no GPUs.
TEST_F(NodeDisplacementsTest, ARestartedNodeLearnsFromTheKeeperWhichJobsAreDisplaced) {
  JobRecord record = Launch(7, {0}).record;
  record.gpus = GpuSet();
  shares_.Adopt(record, GpuSet());
  shares_.FindKeeper();
  shares_.OnKeeper();
  wire::KeeperState state;
  state.tenants.push_back(Tenant(7, {0}, ShareState::kParked, true));
  keeper_.AnswerHello(state);
  EXPECT_TRUE(keeper_.asked.empty()) << "it is not removed, and has no GPU to take";
  EXPECT_EQ(IsStopped(), true);
  EXPECT_EQ(Reported(), (PresenceReport{JobId(7), 1, Presence::kAway, GpuSet(), false, ""}));
  Execute(Return(7, {1}));
  EXPECT_EQ(IsStopped(), false);
  EXPECT_TRUE(keeper_.Next().request.back);
}

TEST_F(NodeDisplacementsTest, ARestartedNodeContinuesAJobThatAnEarlierOneHadStopped) {
  shares_.Adopt(Launch(7, {0}).record, GpuSet::Of({0}));
  shares_.FindKeeper();
  shares_.OnKeeper();
  wire::KeeperState state;
  state.tenants.push_back(Tenant(7, {0}, ShareState::kWaking));
  keeper_.AnswerHello(state);
  EXPECT_EQ(IsStopped(), false);
  EXPECT_EQ(Reported().presence, Presence::kReturning);
  EXPECT_TRUE(keeper_.Next().request.add) << "as a tenant";
}

TEST_F(NodeDisplacementsTest, AControllerThatMissedReportsGetsThemAgain) {
  Start();
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  controller_.presences.clear();
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  EXPECT_TRUE(controller_.presences.empty());
  shares_.RepeatPresence();
  ASSERT_EQ(controller_.presences.size(), 1U);
  EXPECT_EQ(Reported().presence, Presence::kAway);
}

TEST_F(NodeDisplacementsTest, ACommandForAnotherAttemptIsIgnored) {
  Start();
  DisplaceCommand other = Displace(7);
  other.attempt = 2;
  Execute(other);
  EXPECT_TRUE(keeper_.asked.empty());
}

TEST_F(NodeDisplacementsTest, ADisplacedJobIsStoppedByCancelAndRemovedAtItsEnd) {
  Start();
  Show(Tenant(7, {0, 1}, ShareState::kParked, true));
  passed_.clear();
  Execute(StopCommand{JobId(7), 15, Duration(0), ""});
  ASSERT_EQ(passed_.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<StopCommand>(passed_[0]));
  shares_.OnOver(JobId(7), 1);
  EXPECT_TRUE(keeper_.Next().request.remove);
}

// As for any job with whole GPUs: its memory stays where it is.
TEST_F(NodeDisplacementsTest, APausedJobKeepsItsGpus) {
  Start();
  Execute(PauseCommand{JobId(7), true, ""});
  EXPECT_TRUE(keeper_.asked.empty());
  EXPECT_EQ(passed_.size(), 1U);
}

}  // namespace node_displacements_test
}  // namespace divvy
