#include <cmath>

#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_sweeps_test {

class SweepsTest : public ::testing::Test {
 protected:
  static sweep::SweepRule Asha() {
    sweep::SweepRule rule;
    rule.metric = "loss";
    rule.halving = {sweep::EarlyStop::kAsha, 1, 9, 3};
    return rule;
  }
  Result<SubmitResult> TrySubmit(const sweep::SweepRule& rule, std::uint32_t trials) {
    JobSpec spec;
    spec.command = {"train"};
    spec.name = "search";
    spec.request.gpus = 1;
    spec.is_held = rule.is_told;
    for (const char* name : {"lr", "layers"})
      spec.parameters.push_back({name, std::vector<std::string>(trials, rule.is_told ? "" : "1"), 0});
    spec.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(rule);
    spec_ = std::make_shared<const JobSpec>(spec);
    return world_.controller_.Submit(std::move(spec), trials, world_.ada_, world_.now_, World::NoHistory());
  }
  JobId Submit(const sweep::SweepRule& rule, std::uint32_t trials) {
    const auto made = TrySubmit(rule, trials);
    EXPECT_TRUE(made) << made.error().message;
    for (const JobId job : World::Launched(world_.Turn())) Started(job);
    return made->id;
  }
  void Started(JobId job) { world_.controller_.OnStarted(job, world_.controller_.Find(job)->attempt, world_.now_); }
  void Report(JobId job, double epoch, double loss) {
    world_.controller_.OnMetrics(job, {{"epoch", epoch}, {"loss", loss}}, world_.now_);
  }
  const SweepTrial& Trial(JobId sweep, std::uint32_t ordinal) {
    return world_.controller_.sweeps().all().at(sweep).trials.at(ordinal);
  }
  /// Ends what was asked to stop, and starts what may start.
  Effects Settle() {
    Effects effects = world_.Turn();
    for (const NodeCommand& command : effects.commands) {
      if (std::holds_alternative<StopCommand>(command)) world_.Exit(JobOf(command), 143);
    }
    Effects then = world_.Turn();
    for (const JobId job : World::Launched(then)) Started(job);
    return then;
  }
  static bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

  World world_{3};
  std::shared_ptr<const JobSpec> spec_;
};

TEST_F(SweepsTest, ALoserIsStoppedAtItsRungWithTheReason) {
  const JobId sweep = Submit(Asha(), 5);
  Report(ElementId(sweep, 0), 1, 0.2);
  Report(ElementId(sweep, 1), 1, 0.5);
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 0)), JobState::kRunning);
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 1)), JobState::kStopping);
  const Effects effects = Settle();
  EXPECT_EQ(World::EndOf(effects, ElementId(sweep, 1)), JobState::kCancelled);
  EXPECT_EQ(effects.finished.front().reason,
            "stopped by its sweep: loss 0.5 is not among the best 1/3 of 2 trials at rung 1 of 3 (epoch 1)");
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 3)), JobState::kRunning) << "the next trial has its GPU";
}

TEST_F(SweepsTest, AStoppedTrialCountsAsSucceededForTheArray) {
  const JobId sweep = Submit(Asha(), 2);
  Report(ElementId(sweep, 0), 1, 0.2);
  Report(ElementId(sweep, 1), 1, 0.5);
  Settle();
  world_.Exit(ElementId(sweep, 0), 0);
  EXPECT_EQ(World::EndOf(world_.Turn(), sweep), JobState::kSucceeded);
  EXPECT_EQ(Trial(sweep, 0).end, "succeeded");
}

TEST_F(SweepsTest, OneReportMayPassSeveralRungs) {
  const JobId sweep = Submit(Asha(), 3);
  Report(ElementId(sweep, 0), 4, 0.2);
  EXPECT_EQ(Trial(sweep, 0).rungs, (std::vector<double>{0.2, 0.2}));
}

TEST_F(SweepsTest, ReportsAfterTheEndStillCount) {
  const JobId sweep = Submit(Asha(), 3);
  world_.Exit(ElementId(sweep, 0), 0);
  world_.Turn();
  EXPECT_TRUE(Has(Trial(sweep, 0).note, "it ended without reporting 'loss'; print it as a JSON line"));
  Report(ElementId(sweep, 0), 1, 0.1);
  EXPECT_EQ(Trial(sweep, 0).best, 0.1);
  Report(ElementId(sweep, 1), 1, 0.3);
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 1)), JobState::kStopping) << "it is worse than the ended one";
}

TEST_F(SweepsTest, NaNAndMissingNumbersAreNoted) {
  const JobId sweep = Submit(Asha(), 3);
  Report(ElementId(sweep, 0), 1, std::nan(""));
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 0)), JobState::kRunning) << "it is the first";
  EXPECT_EQ(Trial(sweep, 0).note, "'loss' was NaN at epoch 1; it counts as the worst value");
  world_.controller_.OnMetrics(ElementId(sweep, 1), {{"loss", 0.3}}, world_.now_);
  EXPECT_TRUE(Has(Trial(sweep, 1).note, "it reports 'loss' but not 'epoch', so it reaches no rung"));
  world_.controller_.OnMetrics(ElementId(sweep, 2), {{"epoch", 1}, {"val", 2}}, world_.now_);
  world_.Exit(ElementId(sweep, 2), 0);
  EXPECT_EQ(Trial(sweep, 2).note, "it ended without reporting 'loss'; it reported epoch, val");
  EXPECT_EQ(world_.controller_.sweeps().all().at(sweep).BestTrial(), 1U);
}

TEST_F(SweepsTest, APausedTrialGivesItsGpuBackAndContinuesWhenItIsPromoted) {
  sweep::SweepRule rule = Asha();
  rule.halving.stop = sweep::EarlyStop::kAshaPromotion;
  const JobId sweep = Submit(rule, 10);
  Report(ElementId(sweep, 0), 1, 0.1);
  Report(ElementId(sweep, 1), 1, 0.5);
  Settle();
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 0)), JobState::kHeld);
  EXPECT_TRUE(Has(world_.controller_.Find(ElementId(sweep, 0))->reason,
                  "its sweep has paused at epoch 1 until it is promoted to rung 2 of 3"));
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 4)), JobState::kRunning);
  Report(ElementId(sweep, 2), 1, 0.9);
  Settle();
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 0)), JobState::kRunning) << "the best of three is before new trials";
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 5)), std::nullopt);
}

TEST_F(SweepsTest, PausedTrialsThatNothingCanPromoteEnd) {
  sweep::SweepRule rule = Asha();
  rule.halving.stop = sweep::EarlyStop::kAshaPromotion;
  const JobId sweep = Submit(rule, 2);
  Report(ElementId(sweep, 0), 1, 0.1);
  Report(ElementId(sweep, 1), 1, 0.5);
  Settle();
  EXPECT_FALSE(world_.controller_.live().contains(sweep));
  EXPECT_EQ(Trial(sweep, 1).note, "loss 0.5 was never promoted beyond rung 1");
}

TEST_F(SweepsTest, TheSweepEndsAtItsTarget) {
  sweep::SweepRule rule = Asha();
  rule.target = 0.1;
  const JobId sweep = Submit(rule, 9);
  Report(ElementId(sweep, 1), 1, 0.2);
  EXPECT_EQ(world_.controller_.sweeps().all().at(sweep).note, "");
  Report(ElementId(sweep, 0), 1, 0.05);
  Settle();
  EXPECT_FALSE(world_.controller_.live().contains(sweep));
  EXPECT_EQ(world_.controller_.sweeps().all().at(sweep).note, "trial 0 reached the target: loss 0.05");
}

TEST_F(SweepsTest, ParallelLimitsTheTrialsAtOnce) {
  sweep::SweepRule rule = Asha();
  rule.parallel = 2;
  const JobId sweep = Submit(rule, 9);
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 1)), JobState::kRunning);
  EXPECT_EQ(world_.StateOf(ElementId(sweep, 2)), std::nullopt);
}

TEST_F(SweepsTest, ToldTrialsStartOneByOne) {
  sweep::SweepRule rule;
  rule.metric = "loss";
  rule.is_told = true;
  const JobId sweep = Submit(rule, 2);
  auto& controller = world_.controller_;
  EXPECT_EQ(world_.StateOf(sweep), JobState::kHeld);
  EXPECT_TRUE(Has(controller.Release(sweep, kNoTime, world_.ada_, world_.now_).error().message,
                  "waits for parameters; divvy sweep tell starts its next trial"));
  EXPECT_TRUE(Has(controller.TellSweep(sweep, {{"lr", "2"}}, spec_, world_.ada_, world_.now_).error().message,
                  "trial 0 needs a value of 'layers' too"));
  EXPECT_TRUE(Has(controller.TellSweep(sweep, {{"beta", "2"}}, spec_, world_.ada_, world_.now_).error().message,
                  "has no parameter 'beta'; it has lr, layers"));
  const auto told = controller.TellSweep(sweep, {{"lr", "2"}, {"layers", "3"}}, spec_, world_.ada_, world_.now_);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(*told, ElementId(sweep, 0));
  EXPECT_EQ(controller.PendingSpec(sweep)->parameters[1].values, (std::vector<std::string>{"3", ""}));
  EXPECT_EQ(World::Launched(world_.Turn()), (std::vector<JobId>{*told}));
  EXPECT_EQ(world_.StateOf(sweep), JobState::kHeld);
  Caller bob{{1001, 1001, "bob"}, false, {}};
  EXPECT_EQ(controller.TellSweep(sweep, {{"lr", "2"}, {"layers", "3"}}, spec_, bob, world_.now_).error().code,
            ErrorCode::kPermissionDenied);
  ASSERT_TRUE(controller.TellSweep(sweep, {{"lr", "4"}, {"layers", "3"}}, spec_, world_.ada_, world_.now_));
  EXPECT_TRUE(
      Has(controller.TellSweep(sweep, {{"lr", "4"}, {"layers", "3"}}, spec_, world_.ada_, world_.now_).error().message,
          "has all of its 2 trials"));
}

TEST_F(SweepsTest, OnlyTheOwnerSetsParametersAndValuesAreBounded) {
  TeamChange vision;
  vision.name = "vision";
  vision.is_new = true;
  vision.add_leads = {"lena"};
  vision.add_users = {"ada"};
  Controller& controller = world_.controller_;
  const Caller root{{0, 0, "root"}, true, {}};
  ASSERT_TRUE(controller.SetTeam(vision, root, world_.now_));
  sweep::SweepRule rule = Asha();
  rule.is_told = true;
  const JobId sweep = Submit(rule, 2);
  const Caller lena{{2000, 2000, "lena"}, false, {}};
  EXPECT_EQ(controller.TellSweep(sweep, {{"lr", "$(id)"}, {"layers", "3"}}, spec_, lena, world_.now_).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(
      controller.TellSweep(sweep, {{"lr", std::string(4097, '1')}, {"layers", "3"}}, spec_, world_.ada_, world_.now_)
          .error()
          .message,
      "the value of 'lr' must have at most 4096 bytes, and no zero byte");
}

TEST_F(SweepsTest, ALateReportOfAPausedTrialThatWasCancelledCountsAtEachRungOnce) {
  sweep::SweepRule rule = Asha();
  rule.halving.stop = sweep::EarlyStop::kAshaPromotion;
  const JobId sweep = Submit(rule, 3);
  const JobId job = ElementId(sweep, 0);
  Report(job, 1, 0.5);
  Settle();
  ASSERT_EQ(Trial(sweep, 0).phase, sweep::Halving::Phase::kPaused);
  ASSERT_TRUE(world_.controller_.Cancel(job, 0, Duration(-1), "", world_.ada_, world_.now_));
  Report(job, 9, 0.4);
  EXPECT_EQ(Trial(sweep, 0).rungs, (std::vector<double>{0.5, 0.4, 0.4}));
  EXPECT_EQ(Trial(sweep, 0).phase, sweep::Halving::Phase::kEnded);
}

TEST_F(SweepsTest, ASweepThatEndsBeforeATrialBeganIsDropped) {
  sweep::SweepRule rule = Asha();
  rule.is_told = true;
  const JobId sweep = Submit(rule, 2);
  ASSERT_TRUE(world_.controller_.Cancel(sweep, 0, Duration(-1), "", world_.ada_, world_.now_));
  world_.Turn();
  EXPECT_TRUE(world_.controller_.sweeps().all().empty());
}

TEST_F(SweepsTest, ARuleThatIsNoneIsRefused) {
  sweep::SweepRule rule = Asha();
  rule.metric.clear();
  const auto made = TrySubmit(rule, 3);
  ASSERT_FALSE(made);
  EXPECT_TRUE(Has(made.error().message, "needs the metric that trials report")) << made.error().message;
  EXPECT_TRUE(world_.controller_.live().empty());
  EXPECT_FALSE(TrySubmit(Asha(), 0));
  JobSpec large;
  large.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(Asha());
  EXPECT_TRUE(Sweeps::RuleOf(large, 100'000));
  EXPECT_TRUE(Has(Sweeps::RuleOf(large, 100'001).error().message, "the sweep has 100001 trials, and at most 100000"));
}

TEST_F(SweepsTest, AWithdrawnSubmissionLeavesNoSweep) {
  const JobId sweep = Submit(Asha(), 3);
  world_.controller_.Withdraw({sweep}, world_.now_);
  EXPECT_TRUE(world_.controller_.sweeps().all().empty());
}

TEST_F(SweepsTest, RowsReadBack) {
  const JobId sweep = Submit(Asha(), 3);
  Report(ElementId(sweep, 0), 1, 0.25);
  Report(ElementId(sweep, 0), 2, std::nan(""));
  const Sweep& known = world_.controller_.sweeps().all().at(sweep);
  const auto [key, text] = TrialRow(sweep, 0, known.trials.at(0));
  const auto of = SweepKeyOf(key);
  ASSERT_TRUE(of);
  EXPECT_EQ(of->sweep, sweep);
  EXPECT_EQ(of->trial, 0U);
  const auto trial = TrialOfRow(text);
  ASSERT_TRUE(trial) << text;
  EXPECT_EQ(trial->rungs, (std::vector<double>{0.25}));
  EXPECT_TRUE(std::isnan(*trial->last));
  EXPECT_EQ(trial->best, 0.25);
  EXPECT_EQ(trial->last_at, 2);
  const auto back = SweepOfRow(sweep, SweepRow(known).second);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rule, known.rule);
  EXPECT_EQ(back->name, "search");
  for (const char* bad : {"", "active", "active last 1\n", "asleep\n", "active rungs x\n", "active best 1@1 last\n"})
    EXPECT_FALSE(TrialOfRow(bad)) << bad;
  for (const char* bad : {"sweep.", "sweep.x", "sweep.1.x", "sweep.1.2.3", "sweep.0", "other.1"})
    EXPECT_FALSE(SweepKeyOf(bad)) << bad;
}

}  // namespace controller_sweeps_test
}  // namespace divvy
