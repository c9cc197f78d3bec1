#include <gtest/gtest.h>

#include "control/books/borrow_requeue_policy.h"
#include "control/controller/controller_test_world.h"
#include "control/controller/start_reason.h"
#include "model/exit_codes.h"

namespace divvy {
namespace controller_fractions_test {

class GpuFractions : public World, public testing::Test {
 protected:
  explicit GpuFractions(const Policy& policy = Policy()) : World(2, policy) {
    NodeCapacity capacity;
    for (int i = 0; i < 2; ++i) {
      GpuFacts facts;
      facts.index = static_cast<GpuIndex>(i);
      facts.model = "NVIDIA H100 80GB HBM3";
      facts.memory_total = Bytes(std::int64_t{80} << 30);
      capacity.gpus.push_back(facts);
    }
    capacity.cpus = 8;
    capacity.memory = Bytes(std::int64_t{64} << 30);
    controller_.SetCapacity(capacity);
    grace_.user = {1001, 1001, "grace"};
  }
  JobId SubmitPart(int parts, int limit = 0, Preemptible preemptible = Preemptible::kNever) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "nb";
    spec.request.gpus = 1;
    spec.request.portion.request = GpuShare(parts);
    spec.request.portion.limit = GpuShare(limit);
    spec.preemptible = preemptible;
    spec.is_preemptible_set = preemptible != Preemptible::kNever;
    const auto result = controller_.Submit(std::move(spec), 0, ada_, now_, NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }
  JobId StartPart(int parts, int limit = 0, Preemptible preemptible = Preemptible::kNever) {
    const JobId job = SubmitPart(parts, limit, preemptible);
    static_cast<void>(Turn());
    controller_.OnStarted(job, 1, now_);
    static_cast<void>(Turn());
    return job;
  }
  Result<std::string> Resize(JobId job, int parts, const Caller& caller) {
    GpuPortion portion;
    portion.request = GpuShare(parts);
    return controller_.ResizePortion(job, portion, caller, now_, NoHistory());
  }
  static std::vector<PortionCommand> Ordered(const Effects& effects) {
    std::vector<PortionCommand> commands;
    for (const NodeCommand& command : effects.commands) {
      if (const auto* portion = std::get_if<PortionCommand>(&command)) commands.push_back(*portion);
    }
    return commands;
  }

  Caller grace_;
};

TEST_F(GpuFractions, TwoHalvesShareOneGpuAndAWholeGpuJobGetsTheOther) {
  const JobId a = SubmitPart(5'000, 10'000);
  const JobId b = SubmitPart(5'000, 10'000);
  const JobId whole = Submit(1);
  EXPECT_EQ(Launched(Turn()), (std::vector{a, b, whole}));
  EXPECT_EQ(controller_.Find(a)->gpus, controller_.Find(b)->gpus);
  EXPECT_EQ(controller_.Find(a)->gpu_parts, GpuShare(5'000));
  EXPECT_NE(controller_.Find(whole)->gpus, controller_.Find(a)->gpus);
}

// A MIG instance that cannot be removed: no job is planned on its GPU.
TEST_F(GpuFractions, AGpuWithAStuckMigInstanceGetsNoJobs) {
  controller_.OnStuckGpus("", {{0, "the MIG instance of job 5 cannot be destroyed: in use"}});
  const JobId a = Submit(1);
  const JobId b = Submit(1);
  const JobId both = Submit(2);
  EXPECT_EQ(Launched(Turn()), std::vector{a});
  EXPECT_EQ(controller_.Find(a)->gpus, GpuSet::Of({1}));
  const std::string why = StateReason(controller_, *controller_.Find(both));
  EXPECT_NE(why.find("GPU 0: the MIG instance of job 5 cannot be destroyed"), std::string::npos) << why;
  controller_.OnStuckGpus("", {});
  EXPECT_EQ(Launched(Turn()), std::vector{b});
}

// `divvy why` suggests such changes.
TEST_F(GpuFractions, AWaitingJobCanChangeBetweenAFractionAndAWholeGpu) {
  static_cast<void>(Submit(2));
  static_cast<void>(Turn());
  const JobId job = Submit(1);
  JobChanges part;
  part.gpus = 1;
  part.portion.emplace().request = GpuShare(4'000);
  ASSERT_TRUE(controller_.Update(job, part, ada_, now_, NoHistory()));
  EXPECT_EQ(controller_.Find(job)->request.portion.request, GpuShare(4'000));
  JobChanges whole;
  whole.gpus = 2;
  ASSERT_TRUE(controller_.Update(job, whole, ada_, now_, NoHistory()));
  EXPECT_FALSE(controller_.Find(job)->request.is_portioned());
  EXPECT_EQ(controller_.Find(job)->request.gpus, 2);
  JobChanges slice;
  slice.slice = "1g.10gb";
  slice.queues_anyway = true;
  ASSERT_TRUE(controller_.Update(job, slice, ada_, now_, NoHistory()));
  EXPECT_EQ(controller_.Find(job)->request.slice, "1g.10gb");
  EXPECT_EQ(controller_.Find(job)->request.gpus, 1);
  ASSERT_TRUE(controller_.Update(job, part, ada_, now_, NoHistory()));
  EXPECT_EQ(controller_.Find(job)->request.slice, "");
  EXPECT_EQ(controller_.Find(job)->request.portion.request, GpuShare(4'000));
}

TEST_F(GpuFractions, AResizeOfARunningJobIsDurableAndReachesItsNode) {
  const JobId a = StartPart(5'000);
  const auto done = Resize(a, 7'500, ada_);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, "has 0.75 of its GPU");
  const Effects effects = Turn();
  ASSERT_EQ(Ordered(effects).size(), 1U);
  EXPECT_EQ(Ordered(effects)[0].portion.request, GpuShare(7'500));
  ASSERT_EQ(effects.batch.updates.size(), 1U);
  EXPECT_EQ(effects.batch.updates[0].gpu_parts, GpuShare(7'500));
}

TEST_F(GpuFractions, AResizeIsRefusedWithoutRoomAndForOthersJobs) {
  const JobId a = StartPart(5'000);
  StartPart(5'000);
  const JobId whole = Submit(1);
  static_cast<void>(Turn());
  const auto refused = Resize(a, 6'000, ada_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cannot grow: GPU 0 has room for 0.5 next to"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(Resize(a, 1'000, grace_));
  EXPECT_TRUE(Ordered(Turn()).empty());
  const auto of_whole = Resize(whole, 5'000, ada_);
  ASSERT_FALSE(of_whole);
  EXPECT_NE(of_whole.error().message.find("has whole GPUs"), std::string::npos);
}

TEST_F(GpuFractions, AWaitingJobIsResizedInTheQueue) {
  StartPart(10'000 - 100);
  StartPart(10'000 - 100);
  const JobId waits = SubmitPart(5'000);
  EXPECT_TRUE(Launched(Turn()).empty());
  const auto done = Resize(waits, 100, ada_);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, "asks for 0.01 of a GPU");
  EXPECT_EQ(Launched(Turn()), std::vector{waits});
}

TEST_F(GpuFractions, AResizeKeepsWhatItDoesNotMention) {
  const JobId a = StartPart(5'000, 8'000);
  const auto resize = [&](const GpuPortion& said) {
    const auto done = controller_.ResizePortion(a, said, ada_, now_, NoHistory());
    return done ? *done : done.error().message;
  };
  GpuPortion said;
  said.compute = GpuShare(1'000);
  said.compute_limit = GpuShare(1'000);
  EXPECT_EQ(resize(said), "has 0.5 to 0.8 of its GPU, 0.1 of its time");
  said = GpuPortion();
  said.limit = GpuShare(6'000);
  EXPECT_EQ(resize(said), "has 0.5 to 0.6 of its GPU, 0.1 of its time");
  said.limit = GpuShare(2'000);
  EXPECT_EQ(resize(said).substr(0, 62), "--gpu-limit 0.2 is below what job 1 asks for (0.5); the limit ");
  said = GpuPortion();
  said.request = GpuShare(7'000);
  EXPECT_EQ(resize(said), "has 0.7 of its GPU, 0.1 of its time") << "a limit below it rises to it";
  said = GpuPortion();
  said.memory_limit = Bytes(std::int64_t{40} << 30);
  EXPECT_NE(resize(said).find("requests a fraction; write --gpu-limit FRACTION"), std::string::npos) << resize(said);
  said.memory = Bytes(std::int64_t{20} << 30);
  EXPECT_EQ(resize(said), "has 20 to 40 GiB of its GPU, 0.1 of its time");
  said = GpuPortion();
  said.memory = Bytes(std::int64_t{200} << 30);
  EXPECT_EQ(resize(said),
            "job 1 asks for 200 GiB of a GPU, but GPU 0 has 78.8 GiB for jobs; --gpu-memory 78G is the maximum");
  EXPECT_NE(resize(GpuPortion()).find("name the new size"), std::string::npos);
}

TEST_F(GpuFractions, NoFractionIsSmallerThanACudaContext) {
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  spec.request.portion.request = GpuShare(10);
  const auto refused = controller_.Submit(spec, 0, ada_, now_, NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "asks for 80.6 MiB of a GPU (0.001 of the largest of this server), but a program needs 512 MiB just to "
            "start; request at least --gpus 0.0065 or --gpu-memory 512M");
  spec.request.portion.request = GpuShare(65);
  EXPECT_TRUE(controller_.Submit(spec, 0, ada_, now_, NoHistory()));
  spec.request.portion = GpuPortion();
  spec.request.portion.memory = Bytes(std::int64_t{20} << 30);
  spec.request.portion.memory_limit = Bytes(std::int64_t{200} << 30);
  const auto above = controller_.Submit(spec, 0, ada_, now_, NoHistory());
  ASSERT_FALSE(above);
  EXPECT_NE(above.error().message.find("--gpu-memory-limit 78G is the maximum"), std::string::npos)
      << above.error().message;
  const JobId a = StartPart(5'000);
  EXPECT_FALSE(Resize(a, 10, ada_));
}

TEST_F(GpuFractions, EventsOfATenantAreInTheHistoryOfItsAttempt) {
  const JobId a = StartPart(5'000);
  static_cast<void>(Turn());
  controller_.OnShareEvent(a, 2, "another attempt", now_);
  controller_.OnShareEvent(JobId(99), 1, "nobody", now_);
  controller_.OnShareEvent(a, 1, "moved from GPU 0 to GPU 1", now_);
  const Effects effects = Turn();
  ASSERT_EQ(effects.batch.history.size(), 1U);
  EXPECT_EQ(effects.batch.history[0].text, "moved from GPU 0 to GPU 1");
}

TEST_F(GpuFractions, RepayingALoanRequeuesOnlyJobsThatAllowIt) {
  const JobId keeps = StartPart(2'500, 10'000);
  const JobId yields = StartPart(2'500, 10'000, Preemptible::kRequeue);
  controller_.OnRepay(keeps, 1, "job 9 needs it", now_);
  controller_.OnRepay(yields, 7, "another attempt", now_);
  EXPECT_EQ(StateOf(keeps), JobState::kRunning);
  EXPECT_EQ(StateOf(yields), JobState::kRunning);
  controller_.OnRepay(yields, 1, "job 9 needs it", now_);
  EXPECT_EQ(StateOf(yields), JobState::kStopping);
  Exit(yields, 143);
  EXPECT_EQ(StateOf(yields), JobState::kQueued);
}

class YieldingGpuFractions : public GpuFractions {
 protected:
  YieldingGpuFractions() : GpuFractions(Yielding()) {}
  static Policy Yielding() {
    Policy policy;
    policy.preemptible = Preemptible::kRequeue;
    return policy;
  }
};

// The administrator's setting applies to all jobs without one of their own.
TEST_F(YieldingGpuFractions, RepayingALoanRequeuesJobsWithoutASetting) {
  const JobId silent = StartPart(2'500, 10'000);
  EXPECT_TRUE(MayRequeueToRepay(*controller_.Find(silent))) << "what its machine is told";
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  spec.request.portion.request = GpuShare(2'500);
  spec.is_preemptible_set = true;
  const JobId never = controller_.Submit(spec, 0, ada_, now_, NoHistory())->id;
  static_cast<void>(Turn());
  controller_.OnStarted(never, 1, now_);
  EXPECT_FALSE(MayRequeueToRepay(*controller_.Find(never)));
  spec.is_preemptible_set = false;
  spec.is_foreground = true;
  const JobId watched = controller_.Submit(spec, 0, ada_, now_, NoHistory())->id;
  static_cast<void>(Turn());
  controller_.OnStarted(watched, 1, now_);
  EXPECT_FALSE(MayRequeueToRepay(*controller_.Find(watched)));
  for (const JobId job : {silent, never, watched}) controller_.OnRepay(job, 1, "job 9 needs it", now_);
  EXPECT_EQ(StateOf(never), JobState::kRunning);
  EXPECT_EQ(StateOf(watched), JobState::kRunning);
  EXPECT_EQ(StateOf(silent), JobState::kStopping);
  EXPECT_FALSE(controller_.Find(silent)->is_preemptible_set) << "it has reported nothing";
}

TEST_F(GpuFractions, AJobRequeuedForRepaymentWaitsLongerEachTime) {
  const JobId yields = StartPart(2'500, 10'000, Preemptible::kRequeue);
  std::uint32_t attempt = 1;
  for (const Duration away : {Duration(1min), Duration(2min), Duration(4min)}) {
    controller_.OnRepay(yields, attempt++, "job 9 needs it", now_);
    Exit(yields, 143);
    EXPECT_EQ(controller_.Find(yields)->begin, now_ + away);
    static_cast<void>(Turn());
    EXPECT_EQ(StateOf(yields), JobState::kQueued) << "it would have to go again";
    EXPECT_EQ(controller_.WaitingReason(*controller_.Find(yields)),
              "waits before the next try: queued again, because it had to return what it borrowed: job 9 needs it");
    now_ += away;
    ASSERT_EQ(Launched(Turn()), std::vector{yields});
    controller_.OnStarted(yields, attempt, now_);
  }
  // Jobs that were requeued by their own users are not delayed.
  ASSERT_TRUE(controller_.Requeue(yields, RequeueAs::kQueued, ada_, now_));
  Exit(yields, 143);
  EXPECT_EQ(controller_.Find(yields)->begin, kNoTime);
}

TEST_F(GpuFractions, SurviveAControllerRestart) {
  const JobId a = StartPart(5'000);
  Controller again(Policy(), Limits(), 2);
  NodeCapacity capacity = controller_.scheduler().capacity();
  again.SetCapacity(capacity);
  again.Load(Stored({*controller_.Find(a)}), {}, 100, 1, NoHistory());
  EXPECT_EQ(again.CheckInvariants(), "");
  EXPECT_EQ(again.scheduler().node(kOwnNode).room(0), GpuShare(5'000));
}

TEST_F(GpuFractions, TenantsArePackedTogetherSoThatAWholeGpuJobStarts) {
  const JobId first = StartPart(5'000);
  const JobId second = StartPart(5'000);
  const JobId third = StartPart(5'000);
  const JobId fourth = StartPart(5'000);
  Exit(first, 0);
  Exit(third, 0);
  static_cast<void>(second);
  const JobId whole = Submit(1);
  const Effects effects = Turn();
  EXPECT_EQ(StateOf(whole), JobState::kStarting);
  const std::vector<PortionCommand> told = Ordered(effects);
  ASSERT_EQ(told.size(), 1U) << "its machine brings them there";
  EXPECT_EQ(told[0].job, fourth);
  EXPECT_EQ(told[0].gpus, GpuSet::Of({0}));
  EXPECT_EQ(controller_.CheckInvariants(), "");
}

TEST_F(GpuFractions, ATenantThatCannotMoveIsCountedOnItsGpu) {
  const JobId a = StartPart(5'000);
  const JobId b = StartPart(5'000);
  EXPECT_TRUE(controller_.OnTenants("", {{a, 1, GpuSet::Of({0}), true}, {b, 1, GpuSet::Of({1}), false}}));
  EXPECT_FALSE(controller_.OnTenants("", {{a, 1, GpuSet::Of({0}), true}, {b, 1, GpuSet::Of({1}), false}}));
  static_cast<void>(Turn());
  EXPECT_EQ(controller_.Find(b)->gpus, GpuSet::Of({1}));
  EXPECT_EQ(controller_.Find(a)->gpus, GpuSet::Of({1})) << "beside it, for a GPU to be free";
  const JobId whole = Submit(1);
  static_cast<void>(Turn());
  EXPECT_EQ(controller_.Find(whole)->gpus, GpuSet::Of({0}));
}

TEST_F(GpuFractions, ATenantThatStaysIsCountedOnItsGpuAfterAWholeGpuJobWasRefused) {
  const JobId a = StartPart(5'000);
  const JobId whole = Submit(1);
  static_cast<void>(Turn());
  EXPECT_EQ(controller_.Find(whole)->gpus, GpuSet::Of({1}));
  EXPECT_TRUE(controller_.OnTenants("", {{a, 1, GpuSet::Of({1}), false}}));
  static_cast<void>(Turn());
  EXPECT_EQ(controller_.Find(a)->gpus, GpuSet::Of({0})) << "there is no room yet";
  divvy::Exit exit;
  exit.code = kNoRoomMade;
  exit.failure = "job 1 stays on GPU 1: uses NCCL";
  controller_.OnExited(whole, 1, exit, now_, now_);
  static_cast<void>(Turn());
  EXPECT_EQ(controller_.Find(a)->gpus, GpuSet::Of({1}));
  now_ += 10s;
  EXPECT_EQ(Launched(Turn()), std::vector{whole});
  EXPECT_EQ(controller_.Find(whole)->gpus, GpuSet::Of({0}));
}

TEST_F(GpuFractions, AGrowingTenantIsCountedOnAnotherGpuIfItsOwnHasNoRoom) {
  const JobId a = StartPart(5'000);
  StartPart(5'000);
  EXPECT_TRUE(Resize(a, 7'500, ada_));
  EXPECT_EQ(controller_.Find(a)->gpus, GpuSet::Of({1}));
  EXPECT_EQ(controller_.CheckInvariants(), "");
  const std::vector<PortionCommand> told = Ordered(Turn());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].gpus, GpuSet::Of({1}));
}

TEST_F(GpuFractions, AJobForWhichNoRoomWasMadeWaitsAgainAndItsNodeRunsOthers) {
  const JobId whole = Submit(1);
  static_cast<void>(Turn());
  divvy::Exit exit;
  exit.code = kNoRoomMade;
  exit.failure = "job 7 stays on GPU 0: uses managed memory";
  controller_.OnExited(whole, 1, exit, now_, now_);
  const JobId other = Submit(2);
  static_cast<void>(Turn());
  EXPECT_EQ(StateOf(whole), JobState::kQueued);
  EXPECT_EQ(StateOf(other), JobState::kStarting);
  EXPECT_NE(controller_.Find(whole)->reason.find("job 7 stays"), std::string::npos);
}

TEST_F(GpuFractions, ARunningJobHoldsAGpuThatDisappearedDuringARestart) {
  const JobId a = StartPart(5'000);
  const JobId whole = Submit(1);
  static_cast<void>(Turn());
  Controller again(Policy(), Limits(), 2);
  NodeCapacity capacity = controller_.scheduler().capacity();
  capacity.gpus.clear();
  again.SetCapacity(capacity);
  again.Load(Stored({*controller_.Find(a), *controller_.Find(whole)}), {}, 100, 1, NoHistory());
  EXPECT_EQ(again.CheckInvariants(), "");
  EXPECT_EQ(again.scheduler().node(kOwnNode).availability.at(0).fault, "its node no longer has it");
  EXPECT_EQ(again.scheduler().free_count(), 0);
}

TEST_F(GpuFractions, APoolMayShareEachGpuAmongSeveralJobs) {
  PoolRow small;
  small.name = "small";
  small.has_all = true;
  small.jobs_per_gpu = 4;
  ASSERT_TRUE(controller_.UsePools({small}));
  std::vector<JobId> jobs;
  for (int i = 0; i < 9; ++i) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "job";
    spec.request.gpus = 1;
    spec.pool = "small";
    const auto made = controller_.Submit(std::move(spec), 0, ada_, now_, NoHistory());
    ASSERT_TRUE(made) << made.error().message;
    jobs.push_back(made->id);
  }
  EXPECT_EQ(Launched(Turn()).size(), 8U) << "four on each of two GPUs";
  EXPECT_EQ(controller_.Find(jobs[0])->request.portion.limit, GpuShare(10'000));
  EXPECT_EQ(StateOf(jobs[8]), JobState::kQueued);
}

}  // namespace controller_fractions_test
}  // namespace divvy
