#include "daemon/node/node_shares_test_world.h"
#include "model/exit_codes.h"

namespace divvy {
namespace node_shares_test {

TEST_F(NodeSharesTest, WithoutTenantsThereIsNoKeeper) {
  Execute(Launch(1, {0, 1}));
  Execute(Launch(2, {}));
  Execute(StopCommand{JobId(1), 15, Duration(0), ""});
  EXPECT_EQ(passed_.size(), 3U);
  EXPECT_EQ(keeper_.opens, 0);
}

TEST_F(NodeSharesTest, ATenantStartsOnTheGpusThatTheKeeperChooses) {
  Execute(Launch(1, {0}));
  Execute(Launch(7, {1}, 2'500));
  EXPECT_EQ(passed_.size(), 1U) << "it waits for the keeper";
  EXPECT_EQ(keeper_.opens, 1);
  shares_.OnKeeper();
  const auto hello = keeper_.asked.front().request.hello;
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->gpus.size(), 4U);
  EXPECT_EQ(hello->gpus[3].kind, 2) << "tenants move among GPUs of one kind";
  keeper_.AnswerHello();
  const auto whole = keeper_.Next();
  ASSERT_TRUE(whole.request.take_whole) << "job 1 has GPU 0 whole, and nobody is to be spread over it";
  EXPECT_EQ(whole.request.take_whole->gpus, GpuSet::Of({0}));
  const auto add = keeper_.Next();
  ASSERT_TRUE(add.request.add);
  EXPECT_EQ(add.request.add->paper, std::vector<int>{1});
  EXPECT_EQ(add.request.add->uid, 1000);
  EXPECT_EQ(add.request.add->share.memory_request, Bytes(PortionedMemory(64_GiB).count() / 4));
  wire::KeeperAnswer answer;
  answer.added = wire::KeeperAdded{{0}, {"GPU-0"}, GpuSet::Of({0, 1}), "/x", {"DIVVY_SHARE=/x"}};
  add.answered(answer);
  ASSERT_EQ(passed_.size(), 2U);
  EXPECT_EQ(grants_[JobId(7)].gpus, std::vector<int>{0});
  EXPECT_EQ(grants_[JobId(7)].folder, "/x");
  EXPECT_EQ(grants_[JobId(7)].environment, std::vector<std::string>{"DIVVY_SHARE=/x"});
}

TEST_F(NodeSharesTest, AWholeGpuJobWaitsUntilItsGpusAreEmpty) {
  StartTenant(7, 0);
  Execute(Launch(8, {0, 1}));
  Execute(TimeLimitCommand{JobId(8), kNever, ""});
  EXPECT_EQ(passed_.size(), 1U);
  const auto take = keeper_.Next();
  ASSERT_TRUE(take.request.take_whole);
  take.answered(wire::KeeperAnswer());
  ASSERT_EQ(passed_.size(), 3U) << "the launch, and what was said to it meanwhile, in order";
  EXPECT_TRUE(std::holds_alternative<LaunchCommand>(passed_[1]));
  EXPECT_TRUE(std::holds_alternative<TimeLimitCommand>(passed_[2]));
  shares_.OnOver(JobId(8), 1);
  EXPECT_TRUE(keeper_.Next().request.give_whole);
}

TEST_F(NodeSharesTest, ATenantThatCannotBeMovedFailsTheLaunchWithItsReason) {
  StartTenant(7, 0);
  Execute(Launch(8, {0}));
  keeper_.Next().answered(FailedPrecondition("job 7 stays on GPU 0: it uses NCCL"));
  ASSERT_EQ(controller_.ended.size(), 1U);
  EXPECT_EQ(controller_.ended[0].job, JobId(8));
  EXPECT_EQ(controller_.ended[0].exit.code, kNoRoomMade) << "it is queued again";
  EXPECT_EQ(controller_.ended[0].exit.failure, "job 7 stays on GPU 0: it uses NCCL");
  EXPECT_TRUE(keeper_.Next().request.give_whole);
  EXPECT_EQ(passed_.size(), 1U);
}

TEST_F(NodeSharesTest, AJobStoppedWhileItWaitsForTheKeeperNeverStarts) {
  StartTenant(7, 0);
  Execute(Launch(8, {0}));
  auto take = keeper_.Next();
  Execute(StopCommand{JobId(8), 15, Duration(0), ""});
  ASSERT_EQ(controller_.ended.size(), 1U);
  take.answered(wire::KeeperAnswer());
  EXPECT_EQ(passed_.size(), 1U) << "the late answer finds nobody";
}

TEST_F(NodeSharesTest, ANewKeeperGetsAllTenants) {
  StartTenant(7, 0);
  Execute(Launch(8, {1}));
  auto unanswered = keeper_.Next();
  unanswered.answered(Unreachable("the keeper has gone"));
  EXPECT_TRUE(controller_.ended.empty()) << "it goes on waiting";
  shares_.OnKeeper();
  keeper_.AnswerHello();
  EXPECT_TRUE(keeper_.Next().request.add) << "the tenant that runs";
  const auto again = keeper_.Next();
  ASSERT_TRUE(again.request.take_whole) << "the launch that waits";
  again.answered(wire::KeeperAnswer());
  EXPECT_EQ(passed_.size(), 2U);
}

TEST_F(NodeSharesTest, WithoutAKeeperTheLaunchFailsWithTheKeepersError) {
  keeper_.trouble = "divvy keeper: error: making /run/divvy/share";
  Execute(Launch(7, {0}, 5'000));
  ASSERT_EQ(later_.size(), 1U);
  later_[0]();
  ASSERT_EQ(controller_.ended.size(), 1U);
  EXPECT_EQ(controller_.ended[0].exit.code, kMachineCannot);
  EXPECT_EQ(controller_.ended[0].exit.failure,
            "the keeper of the shared GPUs has not come within 10 s: divvy keeper: error: making /run/divvy/share");
}

TEST_F(NodeSharesTest, AKeeperThatStartsInTimeIsUsed) {
  StartTenant(7, 0);
  for (const auto& task : later_) task();
  EXPECT_TRUE(controller_.ended.empty());
  Execute(Launch(8, {1}));
  keeper_.Next().answered(Unreachable("the keeper has gone"));
  shares_.OnKeeper();
  for (const auto& task : std::exchange(later_, {})) task();
  EXPECT_EQ(controller_.ended.size(), 1U) << "it came, and does not answer";
}

TEST_F(NodeSharesTest, AnUnknownTenantIsRemovedFromTheKeeper) {
  StartTenant(7, 0);
  wire::KeeperState state;
  state.tenants.resize(2);
  state.tenants[0].job = JobId(7);
  state.tenants[0].attempt = 1;
  state.tenants[1].job = JobId(5);
  state.tenants[1].attempt = 2;
  shares_.OnKept(state);
  EXPECT_EQ(controller_.shown.tenants.size(), 2U);
  const auto remove = keeper_.Next();
  ASSERT_TRUE(remove.request.remove);
  EXPECT_EQ(remove.request.remove->job, JobId(5));
  EXPECT_TRUE(keeper_.asked.empty());
}

// The situation when the driver is not found: running tenants must not be ended.
TEST_F(NodeSharesTest, ARunningTenantKeepsGpusThatAreCurrentlyNotVisible) {
  JobRecord record = Launch(1, {0}, 5'000).record;
  JobRecord slice = Slice(2, 1).record;
  NodeShares blind({}, keeper_, MakePorts());
  blind.Join(controller_);
  blind.Adopt(record, record.gpus);
  blind.Adopt(slice, slice.gpus);
  EXPECT_EQ(keeper_.opens, 1);
  wire::KeeperState shown;
  for (const int job : {1, 2}) {
    wire::KeptTenant& tenant = shown.tenants.emplace_back();
    tenant.job = JobId(static_cast<std::uint64_t>(job));
    tenant.attempt = 1;
  }
  blind.OnKeeper();
  keeper_.AnswerHello(shown);
  EXPECT_TRUE(keeper_.asked.empty()) << "neither is removed, nor told anew by who does not see its GPU";
  blind.Execute(PortionCommand{JobId(1), record.request.portion, record.gpus}, nullptr);
  EXPECT_TRUE(keeper_.asked.empty());
  blind.OnOver(JobId(2), 1);
  EXPECT_TRUE(keeper_.Next().request.remove);
}

TEST_F(NodeSharesTest, AnEarlierAttemptIsRemovedBeforeTheNextIsAdded) {
  LaunchCommand again = Launch(7, {0}, 9'000);
  again.record.attempt = 2;
  Execute(again);
  shares_.OnKeeper();
  wire::KeeperState state;
  state.tenants.resize(1);
  state.tenants[0].job = JobId(7);
  state.tenants[0].attempt = 1;
  keeper_.AnswerHello(state);
  const auto remove = keeper_.Next();
  ASSERT_TRUE(remove.request.remove);
  EXPECT_EQ(remove.request.remove->attempt, 1U);
  const auto add = keeper_.Next();
  ASSERT_TRUE(add.request.add);
  EXPECT_EQ(add.request.add->attempt, 2U);
}

TEST_F(NodeSharesTest, AResizeReachesTheKeeperAndItsSuccessor) {
  StartTenant(7, 0);
  GpuPortion more;
  more.request = GpuShare(7'500);
  Execute(PortionCommand{JobId(7), more, GpuSet(), ""});
  const auto resize = keeper_.Next();
  ASSERT_TRUE(resize.request.resize);
  EXPECT_EQ(resize.request.resize->share.compute_request, GpuShare(7'500));
  shares_.OnKeeper();
  keeper_.AnswerHello();
  EXPECT_EQ(keeper_.Next().request.add->share.compute_request, GpuShare(7'500));
}

TEST_F(NodeSharesTest, AnOrderGivenWhileDisconnectedAppliesAfterTheReconnect) {
  StartTenant(7, 0);
  JobRecord record = Launch(7, {1}, 5'000).record;
  shares_.Refresh(record, GpuSet::Of({1}));
  const auto moved = keeper_.Next();
  ASSERT_TRUE(moved.request.resize);
  EXPECT_EQ(moved.request.resize->paper, std::vector<int>{1});
  shares_.Refresh(record, GpuSet::Of({1}));
  EXPECT_TRUE(keeper_.asked.empty()) << "it is so already";
  record.request.portion.request = GpuShare(7'500);
  shares_.Refresh(record, GpuSet::Of({1}));
  EXPECT_EQ(keeper_.Next().request.resize->share.compute_request, GpuShare(7'500));
}

TEST_F(NodeSharesTest, TheKeeperConfirmsAResize) {
  std::string said;
  const auto say = [&said](const Status& done) { said = done ? "done" : done.error().message; };
  Execute(Launch(7, {0}, 5'000));
  shares_.Act(JobId(7), "resize", {}, say);
  EXPECT_EQ(std::exchange(said, ""), "done") << "it is not there yet, and will be launched with it";
  shares_.OnKeeper();
  keeper_.AnswerHello();
  keeper_.Next().answered(wire::KeeperAnswer());
  shares_.Act(JobId(7), "resize", {}, say);
  const auto resize = keeper_.Next();
  ASSERT_TRUE(resize.request.resize);
  EXPECT_EQ(said, "");
  resize.answered(FailedPrecondition("job 7 was lost"));
  EXPECT_EQ(said, "job 7 was lost");
}

TEST_F(NodeSharesTest, ActionsAreRefusedForJobsThatAreNotTenants) {
  std::string said;
  const auto say = [&said](const Status& done) { said = done ? "done" : done.error().message; };
  StartTenant(7, 0);
  Execute(Launch(1, {1}));
  shares_.Act(JobId(1), "park", {}, say);
  EXPECT_EQ(said, "job 1 has no shared GPU on this node now");
  while (!keeper_.asked.empty()) keeper_.Next();
  shares_.Act(JobId(7), "move", {1}, say);
  const auto move = keeper_.Next();
  ASSERT_TRUE(move.request.move);
  EXPECT_EQ(move.request.move->to, std::vector<int>{1});
  move.answered(wire::KeeperAnswer());
  EXPECT_EQ(said, "done");
}

TEST_F(NodeSharesTest, AnActionIsRepeatedForTheNextKeeper) {
  StartTenant(7, 0);
  std::string said;
  shares_.Act(JobId(7), "park", {}, [&said](const Status& done) { said = done ? "done" : done.error().message; });
  keeper_.Next().answered(Unreachable("the keeper has gone"));
  EXPECT_EQ(said, "");
  shares_.OnKeeper();
  keeper_.AnswerHello();
  EXPECT_TRUE(keeper_.Next().request.add);
  const auto again = keeper_.Next();
  ASSERT_TRUE(again.request.park);
  again.answered(wire::KeeperAnswer());
  EXPECT_EQ(said, "done");
}

TEST_F(NodeSharesTest, ALaunchOfAnEarlierSessionIsDropped) {
  StartTenant(7, 0);
  Execute(Launch(8, {0}));
  auto take = keeper_.Next();
  shares_.DropWaiting();
  take.answered(wire::KeeperAnswer());
  EXPECT_EQ(passed_.size(), 1U);
  EXPECT_TRUE(keeper_.Next().request.give_whole);
}

TEST_F(NodeSharesTest, APausedTenantIsParkedBeforeItIsStopped) {
  StartTenant(7, 0);
  Execute(PauseCommand{JobId(7), true, ""});
  EXPECT_EQ(passed_.size(), 1U) << "a process that stands still takes no step of a park";
  const auto park = keeper_.Next();
  ASSERT_TRUE(park.request.park);
  Execute(PauseCommand{JobId(7), false, ""});
  EXPECT_EQ(passed_.size(), 1U);
  park.answered(wire::KeeperAnswer());
  ASSERT_EQ(passed_.size(), 3U) << "in their order";
  EXPECT_TRUE(std::get<PauseCommand>(passed_[1]).is_paused);
  EXPECT_FALSE(std::get<PauseCommand>(passed_[2]).is_paused);
}

TEST_F(NodeSharesTest, ATenantThatCannotBeParkedIsPausedAnyway) {
  StartTenant(7, 0);
  Execute(PauseCommand{JobId(7), true, ""});
  keeper_.Next().answered(FailedPrecondition("uses CUDA IPC"));
  EXPECT_EQ(passed_.size(), 2U);
  Execute(PauseCommand{JobId(7), true, ""});
  keeper_.Next();
  ASSERT_FALSE(later_.empty());
  later_.back()();
  EXPECT_EQ(passed_.size(), 3U) << "a keeper that does not answer holds nobody up";
  Execute(PauseCommand{JobId(7), true, ""});
  keeper_.Next();
  Execute(StopCommand{JobId(7), 15, Duration(0), ""});
  EXPECT_EQ(passed_.size(), 5U) << "what is to end does not wait for it";
}

TEST_F(NodeSharesTest, TheHistoryRecordsMovesAndRequeuesForRepayment) {
  StartTenant(7, 0);
  wire::KeeperState state;
  state.tenants.resize(1);
  state.tenants[0].job = JobId(7);
  state.tenants[0].attempt = 1;
  state.tenants[0].shares.resize(1);
  shares_.OnKept(state);
  state.tenants[0].shares[0].gpu = 1;
  shares_.OnKept(state);
  shares_.OnRequeue({JobId(7), 1, JobId(9), 8_GiB});
  EXPECT_EQ(told_, (std::vector<std::string>{"event=share job=7 what=\"moved from GPU 0 to GPU 1\"",
                                             "event=share_requeue job=7 owner=9 bytes=8589934592"}));
}

TEST_F(NodeSharesTest, ARequeueForRepaymentNamesTheOtherJobAndTheMemory) {
  StartTenant(7, 0);
  shares_.OnRequeue({JobId(7), 1, JobId(9), 8_GiB});
  EXPECT_EQ(controller_.repaid.first, JobId(7));
  EXPECT_NE(controller_.repaid.second.find("job 9 needs 8192 MiB"), std::string::npos) << controller_.repaid.second;
}

TEST_F(NodeSharesTest, WithheldGpusAreSentAtOnceWithTheReason) {
  shares_.SetWithheld({{2, "is restricted"}});
  EXPECT_TRUE(keeper_.asked.empty()) << "there is no keeper";
  StartTenant(7, 0);
  shares_.SetWithheld({{1, "is restricted"}, {3, "is used by pid 4711"}});
  auto told = keeper_.Next().request.gpus;
  ASSERT_TRUE(told);
  EXPECT_FALSE(told->gpus[0].is_withheld);
  EXPECT_TRUE(told->gpus[1].is_withheld);
  EXPECT_EQ(told->gpus[1].why, "is restricted");
  EXPECT_FALSE(told->gpus[2].is_withheld);
  EXPECT_EQ(told->gpus[3].why, "is used by pid 4711");
  shares_.SetWithheld({{1, "is restricted"}, {3, "is used by pid 4711"}});
  EXPECT_TRUE(keeper_.asked.empty()) << "nothing new";
  shares_.SetBroken({{3, "does not work: XID 79"}});
  told = keeper_.Next().request.gpus;
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->gpus[3].is_broken);
  EXPECT_EQ(told->gpus[3].why, "does not work: XID 79");
}

TEST_F(NodeSharesTest, TheTimeToMakeRoomIsLoggedWithItsBoundIfTenantsMoved) {
  StartTenant(7, 0);
  const auto launch = [&](int job, int gpu, Duration bound) {
    Execute(Launch(job, {gpu}));
    wire::KeeperAnswer answer;
    answer.room = wire::KeeperRoom{31ms, bound};
    keeper_.Next().answered(answer);
    keeper_.asked.clear();
  };
  told_.clear();
  launch(8, 1, Duration(0));
  EXPECT_TRUE(told_.empty()) << "its GPU was empty";
  launch(9, 2, 2s);
  EXPECT_EQ(told_, std::vector<std::string>{"event=made_room job=9 took_ms=31 bound_ms=2000"});
}

TEST_F(NodeSharesTest, ProcessesOfTenantsAreSentOnEveryChangeAndToEachKeeper) {
  std::vector<GpuObservation> seen(2);
  const auto add = [&](std::size_t gpu, std::int64_t pid, std::uint64_t job) {
    GpuProcess& process = seen[gpu].processes.emplace_back();
    process.identity = {pid, 100};
    process.job = job;
  };
  add(0, 50, 7);
  shares_.SetSeen(seen);
  EXPECT_TRUE(keeper_.asked.empty()) << "there is no keeper";
  StartTenant(7, 0);
  add(1, 50, 7);  // The same process on its other GPU.
  add(1, 51, 8);  // A process of a job without a GPU fraction.
  add(1, 52, 0);  // A process of no job.
  shares_.SetSeen(seen);
  const auto told = keeper_.Next().request.processes;
  ASSERT_TRUE(told);
  EXPECT_EQ(told->processes, (std::vector<wire::KeeperProcess>{{50, 100, JobId(7), 1}}));
  shares_.SetSeen(seen);
  EXPECT_TRUE(keeper_.asked.empty()) << "nothing new";
  shares_.OnKeeper();
  keeper_.AnswerHello();
  keeper_.asked.clear();
  shares_.SetSeen(seen);
  EXPECT_EQ(keeper_.Next().request.processes->processes.size(), 1u) << "another keeper";
  shares_.SetSeen({});
  const auto none = keeper_.Next().request.processes;
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->processes.empty());
}

TEST_F(NodeSharesTest, AKeeperOfAnotherReleaseKeepsItsTenantsAndIsReplacedWithoutThem) {
  keeper_.version = wire::kFirstKeeperVersion;
  Execute(Launch(7, {0}, 5'000));
  shares_.OnKeeper();
  wire::KeeperState state;
  state.tenants.emplace_back().job = JobId(7);
  state.tenants.back().attempt = 1;
  keeper_.AnswerHello(state);
  EXPECT_TRUE(keeper_.Next().request.leave) << "it ends with its last tenant";
  EXPECT_TRUE(keeper_.Next().request.add) << "parts are what they were";
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("event=keeper_version keeper=1 divvy=" + std::to_string(wire::kKeeperVersion)),
            std::string::npos)
      << notes_[0];
  Execute(Slice(8, 1));
  ASSERT_EQ(controller_.ended.size(), 1U);
  EXPECT_EQ(controller_.ended[0].job, JobId(8));
  EXPECT_EQ(controller_.ended[0].exit.code, kNoRoomMade) << "it waits for another keeper";
  EXPECT_NE(controller_.ended[0].exit.failure.find("another release"), std::string::npos);
  keeper_.asked.clear();
  // Without tenants, the keeper is about to end; the next keeper is asked.
  shares_.OnKept({});
  Execute(Slice(9, 1));
  EXPECT_EQ(controller_.ended.size(), 1U);
  EXPECT_TRUE(keeper_.asked.empty());
  keeper_.version = wire::kKeeperVersion;
  shares_.OnKeeper();
  keeper_.AnswerHello();
  bool is_asked = false;
  for (const auto& asked : keeper_.asked) is_asked |= asked.request.add && asked.request.add->slice.any();
  EXPECT_TRUE(is_asked);
}

TEST_F(NodeSharesTest, AGpuProblemAndItsEndAreLoggedOnceEach) {
  StartTenant(7, 0);
  wire::KeeperState state;
  state.tenants.emplace_back().job = JobId(7);
  state.tenants.back().attempt = 1;
  state.gpus.push_back({1, "the MIG instance of job 5 cannot be destroyed: it is in use"});
  shares_.OnKept(state);
  shares_.OnKept(state);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("gpu=1 what=\"the MIG instance of job 5"), std::string::npos) << notes_[0];
  told_.clear();
  state.gpus.clear();
  shares_.OnKept(state);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("event=keeper_trouble_over gpu=1"), std::string::npos);
}

TEST_F(NodeSharesTest, ALaunchThatTimesOutNamesWhatItWaitedFor) {
  StartTenant(7, 0);
  Execute(Launch(8, {1}));
  wire::KeeperState state;
  state.tenants.emplace_back().job = JobId(7);
  state.tenants.back().attempt = 1;
  state.waits.push_back({JobId(8), "GPU 1: the MIG instance of job 5 is being destroyed"});
  shares_.OnKept(state);
  for (const auto& task : std::exchange(later_, {})) task();
  ASSERT_EQ(controller_.ended.size(), 1U);
  EXPECT_NE(controller_.ended[0].exit.failure.find("MIG instance of job 5"), std::string::npos)
      << controller_.ended[0].exit.failure;
}

}  // namespace node_shares_test
}  // namespace divvy
