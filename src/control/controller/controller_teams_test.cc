// Teams in the controller: who may submit, which jobs wait, which usage counts.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/controller/controller_test_world.h"
#include "engine/scheduler/explain.h"

namespace divvy {
namespace controller_teams_test {

using std::chrono::hours;

class Teams : public ::testing::Test {
 protected:
  Teams() : world_(4) { root_.is_admin = true, root_.user = {0, 0, "root"}; }

  std::string Set(TeamChange change) {
    change.is_new = world_.controller_.teams().Find(change.name) == nullptr;
    const auto done = world_.controller_.SetTeam(change, root_, world_.now_);
    return done ? "" : done.error().message;
  }
  static TeamChange Vision() {
    TeamChange change;
    change.name = "vision";
    change.add_users = {"ada"};
    return change;
  }
  std::string Submit(int gpus, std::string team = "", std::uint64_t elements = 0) {
    JobSpec spec;
    spec.request.gpus = gpus;
    spec.team = std::move(team);
    return Submit(std::move(spec), elements);
  }
  std::string Submit(JobSpec spec, std::uint64_t elements = 0) {
    spec.command = {"true"};
    const auto done =
        world_.controller_.Submit(std::move(spec), elements, world_.ada_, world_.now_, World::NoHistory());
    last_ = done ? done->id : JobId();
    return done ? "" : done.error().message;
  }
  /// The settings for a second controller, accumulated from the first one's effects.
  std::vector<std::pair<std::string, std::string>> Settings(const Effects& effects) {
    for (const auto& setting : effects.batch.settings) settings_.push_back(setting);
    return settings_;
  }

  World world_;
  Caller root_;
  JobId last_;
  std::vector<std::pair<std::string, std::string>> settings_;
};

TEST_F(Teams, AQuotaThatCannotBeMetIsAcceptedWithANote) {
  const auto set = [this](TeamChange change) { return *world_.controller_.SetTeam(change, root_, world_.now_); };
  TeamChange vision = Vision();
  vision.is_new = true;
  vision.quota = 3;
  EXPECT_EQ(set(vision), "team vision added");
  TeamChange nlp;
  nlp.name = "nlp";
  nlp.is_new = true;
  nlp.quota = 2;
  EXPECT_EQ(set(nlp),
            "team nlp added; note: the quotas of the top-level teams add up to 5 GPUs, but the cluster has 4 GPUs");
  TeamChange faces;
  faces.name = "faces";
  faces.parent = "vision";
  faces.is_new = true;
  faces.quota = 2;
  EXPECT_EQ(set(faces),
            "team faces added; note: jobs of team vision itself may hold the GPUs of this quota, and are not preempted "
            "for team faces");
  TeamChange members = Vision();
  members.remove_users = {"ada"}, members.add_users = {};
  EXPECT_EQ(set(members), "team vision changed");
  faces.name = "objects";
  EXPECT_EQ(set(faces),
            "team objects added; note: the quotas of the teams below vision add up to 4 GPUs, but the quota of vision "
            "is 3");
}

TEST_F(Teams, OnlyAdministratorsChangeThem) {
  const auto refused = world_.controller_.SetTeam(Vision(), world_.ada_, world_.now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(world_.controller_.RemoveTeam("vision", world_.ada_, world_.now_));
  EXPECT_FALSE(world_.controller_.SetTeamUser({}, world_.ada_, world_.now_));
  EXPECT_FALSE(world_.controller_.SetQuotas(true, world_.ada_, world_.now_));
}

TEST_F(Teams, AJobRunsForTheTeamOfItsUserAndBlocksItsRemoval) {
  ASSERT_EQ(Set(Vision()), "");
  ASSERT_EQ(Submit(1), "");
  EXPECT_EQ(world_.controller_.Find(last_)->team, "vision");
  const auto refused = world_.controller_.RemoveTeam("vision", root_, world_.now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "team vision has jobs that wait or run, job 1 for one; cancel them or wait for their end");
  world_.Turn();
  world_.Exit(last_, 0);
  EXPECT_TRUE(world_.controller_.RemoveTeam("vision", root_, world_.now_));
}

TEST_F(Teams, ARunningJobsCapCoversTheTeamAndAllTeamsBelowIt) {
  TeamChange vision = Vision();
  vision.caps.running = 2;
  ASSERT_EQ(Set(vision), "");
  TeamChange faces;
  faces.name = "faces";
  faces.parent = "vision";
  faces.add_users = {"ada"};
  ASSERT_EQ(Set(faces), "");
  ASSERT_EQ(Submit(1, "faces"), "");
  ASSERT_EQ(Submit(1, "vision"), "");
  ASSERT_EQ(Submit(1, "faces"), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 2u);
  EXPECT_EQ(world_.StateOf(last_), JobState::kQueued);
  TeamChange more;
  more.name = "vision";
  more.caps.running = 3;
  ASSERT_EQ(Set(more), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
}

TEST_F(Teams, ANewCapCountsJobsThatAlreadyRun) {
  ASSERT_EQ(Set(Vision()), "");
  ASSERT_EQ(Submit(1), "");
  ASSERT_EQ(World::Launched(world_.Turn()).size(), 1u);
  TeamChange cap;
  cap.name = "vision";
  cap.caps.running = 1;
  ASSERT_EQ(Set(cap), "");
  ASSERT_EQ(Submit(1), "");
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  cap.caps.running.reset();
  cap.clear = {"running"};
  ASSERT_EQ(Set(cap), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
}

TEST_F(Teams, ACapForEveryUserCountsEachUserSeparately) {
  UserChange everybody;
  everybody.user = "*";
  everybody.caps.running = 1;
  ASSERT_TRUE(world_.controller_.SetTeamUser(everybody, root_, world_.now_));
  ASSERT_EQ(Submit(1), "");
  ASSERT_EQ(Submit(1), "");
  world_.ada_.user = {1001, 1001, "bob"};
  ASSERT_EQ(Submit(1), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 2u);
}

TEST_F(Teams, AUserHoldsNoMoreGpusThanTheirCap) {
  UserChange ada;
  ada.user = "ada";
  ada.gpus = 2;
  ASSERT_TRUE(world_.controller_.SetTeamUser(ada, root_, world_.now_));
  EXPECT_EQ(Submit(3), "asks for 3 GPUs, but user ada never holds more than 2 at once; --gpus 2 is the maximum");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Submit(1), "");
  ASSERT_EQ(Submit(0), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 3u);
  EXPECT_EQ(world_.controller_.scheduler().group_gpus("user ada"), 2);
  EXPECT_EQ(world_.controller_.WaitingReason(*world_.controller_.Find(JobId(3))),
            "user ada holds 2 GPUs of at most 2 GPUs; this needs 1 GPU more");
  ada.gpus = 4;
  ASSERT_TRUE(world_.controller_.SetTeamUser(ada, root_, world_.now_));
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
  // After lowering the cap, no job is stopped and no other one starts.
  ada.gpus = 1;
  ASSERT_TRUE(world_.controller_.SetTeamUser(ada, root_, world_.now_));
  ASSERT_EQ(Submit(1), "");
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  EXPECT_EQ(world_.controller_.scheduler().group_gpus("user ada"), 3);
}

TEST_F(Teams, AGpuCapOfZeroAllowsJobsWithoutGpus) {
  ASSERT_EQ(Submit(1), "");
  const JobId waiting = last_;
  UserChange everybody;
  everybody.user = "*";
  everybody.gpus = 0;
  ASSERT_TRUE(world_.controller_.SetTeamUser(everybody, root_, world_.now_));
  EXPECT_EQ(Submit(1), "asks for 1 GPU, but user ada may hold none; leave --gpus out to run without GPUs");
  ASSERT_EQ(Submit(0), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
  EXPECT_EQ(world_.StateOf(waiting), JobState::kQueued);
  everybody.gpus = 1;
  ASSERT_TRUE(world_.controller_.SetTeamUser(everybody, root_, world_.now_));
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
}

TEST_F(Teams, SubmissionsBeyondTheCapOfTeamOrUserAreRefused) {
  TeamChange vision = Vision();
  vision.caps.queued = 5;
  ASSERT_EQ(Set(vision), "");
  ASSERT_EQ(Submit(4, "", 5), "");
  EXPECT_EQ(Submit(1), "team vision has 5 jobs in the queue, and may have 5; wait, or cancel some");
  UserChange ada;
  ada.user = "ada";
  ada.caps.queued = 5;
  ASSERT_TRUE(world_.controller_.SetTeamUser(ada, root_, world_.now_));
  EXPECT_EQ(Submit(1), "user ada has 5 jobs in the queue, and may have 5; wait, or cancel some");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
  EXPECT_EQ(Submit(1), "") << "the one that runs is no longer in the queue";
}

TEST_F(Teams, UsageSurvivesARestartAndATeamChange) {
  ASSERT_EQ(Set(Vision()), "");
  ASSERT_EQ(Submit(2), "");
  Settings(world_.Turn());
  world_.now_ += hours(1);
  const double used = world_.controller_.scheduler().TeamUsage(world_.now_).at("vision");
  EXPECT_NEAR(used, 2000.0 * 3600, 1);
  TeamChange other;
  other.name = "speech";
  ASSERT_EQ(Set(other), "");
  EXPECT_NEAR(world_.controller_.scheduler().TeamUsage(world_.now_).at("vision"), used, 1);
  Settings(world_.Turn());
  const auto kept = world_.controller_.TeamUsageSetting(world_.now_);
  ASSERT_TRUE(kept);
  settings_.push_back(*kept);

  World again(4);
  again.controller_.Load({}, settings_, 10, 1, World::NoHistory());
  EXPECT_NEAR(again.controller_.scheduler().TeamUsage(world_.now_).at("vision"), used, used / 1000);
}

TEST_F(Teams, WithQuotasOnAZeroQuotaBlocksWaitingJobsAtOnce) {
  TeamChange vision = Vision();
  vision.quota = 2;
  ASSERT_EQ(Set(vision), "");
  ASSERT_TRUE(world_.controller_.SetQuotas(true, root_, world_.now_));
  ASSERT_EQ(Submit(1), "");
  vision.add_users.clear();
  vision.quota = 0;
  ASSERT_EQ(Set(vision), "");
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  EXPECT_EQ(world_.controller_.WaitingReason(*world_.controller_.Find(last_)),
            "waits for an administrator: team vision is blocked: its quota is 0");
  EXPECT_EQ(Submit(1), "team vision is blocked: its quota is 0");
  vision.quota = 1;
  ASSERT_EQ(Set(vision), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
}

TEST_F(Teams, AJobLargerThanItsTeamsLimitIsRefused) {
  TeamChange vision = Vision();
  vision.limit = 2;
  ASSERT_EQ(Set(vision), "");
  EXPECT_EQ(Submit(3), "asks for 3 GPUs, but team vision never runs more than 2 GPUs at once; ask for at most that");
}

TEST_F(Teams, ANonPreemptibleJobBeyondItsTeamsQuotaIsRefused) {
  TeamChange vision = Vision();
  vision.quota = 2;
  ASSERT_EQ(Set(vision), "");
  EXPECT_EQ(
      Submit(3),
      "3 GPUs exceed team vision's quota of 2 and the job may not borrow, so it can never start; use --gpus 2, or "
      "submit it with --preemptible requeue to borrow idle GPUs, or ask an administrator: divvy teams set vision "
      "--quota 3");
  JobSpec borrows;
  borrows.request.gpus = 3;
  borrows.preemptible = Preemptible::kRequeue;
  borrows.is_preemptible_set = true;
  EXPECT_EQ(Submit(borrows), "");
  JobChanges changes;
  changes.preemptible = Preemptible::kNever;
  const auto changed = world_.controller_.Update(last_, changes, root_, world_.now_, World::NoHistory());
  ASSERT_FALSE(changed);
  EXPECT_TRUE(changed.error().message.starts_with("3 GPUs exceed team vision's quota of 2 and "));
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
}

TEST_F(Teams, AJobBlockedByAChangedQuotaSaysSoInEveryListing) {
  ASSERT_EQ(Set(Vision()), "");
  ASSERT_EQ(Submit(3), "");
  ASSERT_EQ(Submit(3), "");
  EXPECT_EQ(World::Launched(world_.Turn()).size(), 1u);
  TeamChange smaller = Vision();
  smaller.add_users.clear();
  smaller.quota = 2;
  ASSERT_EQ(Set(smaller), "");
  world_.Turn();
  const std::string reason = world_.controller_.WaitingReason(*world_.controller_.Find(last_));
  EXPECT_TRUE(reason.starts_with("3 GPUs exceed team vision's quota of 2 and ")) << reason;
  const core::Explanation why = Explain(world_.controller_.scheduler(), last_, world_.now_);
  ASSERT_FALSE(why.blockers.empty());
  EXPECT_EQ(why.blockers.front().text, reason);
}

TEST_F(Teams, TheListNamesTheTeamLimitAndNotMissingGpus) {
  TeamChange vision = Vision();
  vision.limit = 2;
  ASSERT_EQ(Set(vision), "");
  ASSERT_EQ(Submit(2), "");
  ASSERT_EQ(World::Launched(world_.Turn()).size(), 1u);
  ASSERT_EQ(Submit(1), "");
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  EXPECT_EQ(world_.controller_.WaitingReason(*world_.controller_.Find(last_)),
            "team vision runs 2 GPUs of at most 2 GPUs; this needs 1 GPU more");
}

TEST_F(Teams, ABudgetIsChargedWhileJobsRunAndBlocksUntilTheNextPeriod) {
  TeamChange vision = Vision();
  vision.caps.gpu_hours = 4;
  vision.caps.period = "day";
  ASSERT_EQ(Set(vision), "");
  world_.now_ = PeriodStart(BudgetPeriod::kDay, world_.now_) + hours(1);
  ASSERT_EQ(Submit(2), "");
  ASSERT_EQ(World::Launched(world_.Turn()).size(), 1u);
  const JobId running = last_;
  ASSERT_EQ(Submit(3), "");  // Waits for GPUs as well.
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  // Two GPUs use up four GPU-hours in two hours; the controller must wake up then.
  EXPECT_LE(world_.controller_.next_wakeup(), world_.now_ + hours(2) + std::chrono::seconds(1));
  world_.now_ += hours(2) + std::chrono::seconds(1);
  world_.Exit(running, 0);
  EXPECT_TRUE(World::Launched(world_.Turn()).empty());
  EXPECT_EQ(world_.controller_.WaitingReason(*world_.controller_.Find(last_)),
            "waits for the next day: team vision has used its 4 GPU-hours");
  const JobId waiting = last_;
  EXPECT_EQ(Submit(1), "team vision has used its 4 GPU-hours of this day; the next begins in 21 hours");
  EXPECT_EQ(Submit(0), "") << "without GPUs it costs nothing";
  world_.now_ = world_.controller_.next_wakeup();
  EXPECT_EQ(world_.now_, PeriodStart(BudgetPeriod::kDay, world_.now_)) << "midnight";
  const auto launched = World::Launched(world_.Turn());
  EXPECT_TRUE(std::ranges::find(launched, waiting) != launched.end());
}

TEST_F(Teams, ARestartRestoresTeamsCapsAndUsage) {
  TeamChange vision = Vision();
  vision.caps.gpu_hours = 2;
  ASSERT_EQ(Set(vision), "");
  ASSERT_EQ(Submit(2), "");
  Settings(world_.Turn());
  world_.now_ += hours(1);
  world_.Exit(last_, 0);
  const auto settings = Settings(world_.Turn());
  World other(4);
  other.now_ = world_.now_;
  other.controller_.Load({}, settings, 10, 1, World::NoHistory());
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  const auto refused = other.controller_.Submit(spec, 0, other.ada_, other.now_, World::NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("team vision has used its 2 GPU-hours of this month"))
      << refused.error().message;
  EXPECT_EQ(other.controller_.TeamLoads(other.now_).at("team:vision").used.gpu_hours_milli(), 2000);
  const auto members = other.controller_.MemberUsage(other.now_);
  ASSERT_EQ(members.size(), 1U) << "one user in one team";
  EXPECT_EQ(members.begin()->first, std::pair(std::string("vision"), other.ada_.user.name));
  EXPECT_EQ(members.begin()->second.gpu_hours_milli(), 2000);
}

TEST_F(Teams, AJobGroupCannotHaveTheNameOfATeamCap) {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "job";
  const JobId job = world_.Submit(1);
  for (const std::string name : {"team vision", "user ada", "pool small", "array 7"}) {
    spec.group = name;
    EXPECT_FALSE(world_.controller_.Submit(spec, 0, world_.ada_, world_.now_, World::NoHistory())) << name;
    JobChanges changes;
    changes.group = name;
    const auto changed = world_.controller_.Update(job, changes, world_.ada_, world_.now_, World::NoHistory());
    ASSERT_FALSE(changed) << name;
    EXPECT_TRUE(changed.error().message.starts_with("a group cannot be called '" + name + "'"))
        << changed.error().message;
  }
}

// ada's jobs run for team faces, which is below vision; lena leads vision. otto leads another team.
class TeamLeads : public Teams {
 protected:
  TeamLeads() {
    lena_.user = {2000, 2000, "lena"};
    otto_.user = {3000, 3000, "otto"};
    TeamChange vision, faces, other;
    vision.name = "vision";
    vision.add_leads = {"lena"};
    faces.name = "faces";
    faces.parent = "vision";
    faces.add_users = {"ada"};
    other.name = "other";
    other.add_leads = {"otto"};
    for (const TeamChange& change : {vision, faces, other}) EXPECT_EQ(Set(change), "");
    EXPECT_EQ(Submit(1), "");
  }
  Controller& controller() { return world_.controller_; }

  Caller lena_, otto_;
};

TEST_F(TeamLeads, CanManageTheJobsOfTheirTeamAndTeamsBelow) {
  const JobId job = last_;
  EXPECT_FALSE(controller().Hold(job, otto_, world_.now_));
  EXPECT_FALSE(controller().Cancel(job, 0, Duration(-1), "", otto_, world_.now_));
  EXPECT_FALSE(controller().Requeue(job, RequeueAs::kQueued, otto_, world_.now_));
  EXPECT_TRUE(controller().Hold(job, lena_, world_.now_));
  EXPECT_TRUE(controller().Release(job, kNoTime, lena_, world_.now_));
  world_.Turn();
  ASSERT_EQ(world_.StateOf(job), JobState::kStarting);
  EXPECT_TRUE(controller().Requeue(job, RequeueAs::kQueued, lena_, world_.now_));
  EXPECT_TRUE(controller().Cancel(job, 0, Duration(-1), "", lena_, world_.now_));
  EXPECT_EQ(controller().Find(job)->reason, "cancelled by lena");
}

TEST_F(TeamLeads, CanDoNothingElseToJobs) {
  const JobId job = last_;
  world_.Turn();
  EXPECT_FALSE(controller().Pause(job, lena_, world_.now_));
  EXPECT_FALSE(controller().Signal(job, 10, SignalReach::kTree, lena_));
  EXPECT_FALSE(controller().ReportProgress(job, 0, {}, lena_, world_.now_));
  EXPECT_FALSE(controller().SetTeam(Vision(), lena_, world_.now_));
  EXPECT_FALSE(controller().SetQuotas(true, lena_, world_.now_));
}

TEST_F(TeamLeads, CanChangeHowAJobWaitsButNotWhatItRuns) {
  EXPECT_TRUE(controller().Hold(last_, lena_, world_.now_));
  JobChanges changes;
  changes.priority = -5;
  EXPECT_TRUE(controller().Update(last_, changes, lena_, world_.now_, World::NoHistory()));
  EXPECT_FALSE(controller().Update(last_, changes, otto_, world_.now_, World::NoHistory()));
  changes.priority = 5;
  EXPECT_FALSE(controller().Update(last_, changes, lena_, world_.now_, World::NoHistory())) << "an administrator's";
  JobChanges command;
  command.spec = std::make_shared<const JobSpec>();
  command.spec_fields = {"command"};
  const auto refused = controller().Update(last_, command, lena_, world_.now_, World::NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("command: job 1 runs as ada"), std::string::npos) << refused.error().message;
}

TEST_F(TeamLeads, CanSetCapsOfTheirMembers) {
  UserChange change;
  change.user = "ada";
  change.gpus = 2;
  EXPECT_FALSE(controller().SetTeamUser(change, otto_, world_.now_));
  EXPECT_TRUE(controller().SetTeamUser(change, lena_, world_.now_));
  EXPECT_EQ(controller().teams().UserOf("ada")->gpus, 2);
  change.team = "vision";
  EXPECT_FALSE(controller().SetTeamUser(change, lena_, world_.now_));
  change = UserChange();
  change.user = "*";
  change.gpus = 1;
  EXPECT_FALSE(controller().SetTeamUser(change, lena_, world_.now_)) << "not everybody's";
  // A user who is also in a team of another lead can only be changed by administrators.
  TeamChange other;
  other.name = "other";
  other.add_users = {"ada"};
  EXPECT_EQ(Set(other), "");
  change.user = "ada";
  EXPECT_FALSE(controller().SetTeamUser(change, lena_, world_.now_));
}

TEST_F(TeamLeads, CannotRenameAJobBecauseItsOutputPathMayDependOnTheName) {
  EXPECT_TRUE(controller().Hold(last_, lena_, world_.now_));
  JobChanges changes;
  changes.name = "../../etc/x";
  const auto refused = controller().Update(last_, changes, lena_, world_.now_, World::NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "name: job 1 runs as ada; leaders of a team can change when, where and with which resources its jobs run, "
            "but not what they run");
  EXPECT_TRUE(controller().Update(last_, changes, world_.ada_, world_.now_, World::NoHistory()));
  EXPECT_TRUE(controller().Update(last_, changes, root_, world_.now_, World::NoHistory()));
}

TEST_F(TeamLeads, CannotSetTheirOwnCaps) {
  TeamChange vision;
  vision.name = "vision";
  vision.add_users = {"lena"};
  ASSERT_EQ(Set(vision), "");
  UserChange change;
  change.user = "lena";
  change.gpus = 1;
  const auto refused = controller().SetTeamUser(change, lena_, world_.now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "changing what lena may have takes an administrator; users cannot change their own limits");
}

TEST_F(TeamLeads, CanLowerACapButNotRaiseIt) {
  UserChange change;
  change.user = "ada";
  change.gpus = 2;
  change.caps.cost = 100;
  ASSERT_TRUE(controller().SetTeamUser(change, root_, world_.now_));
  const auto refusal = [&](const UserChange& wanted) {
    const auto done = controller().SetTeamUser(wanted, lena_, world_.now_);
    return done ? "" : done.error().message.substr(0, done.error().message.find(':'));
  };
  UserChange gpus;
  gpus.user = "ada";
  gpus.gpus = 3;
  EXPECT_EQ(refusal(gpus), "gpus");
  gpus.gpus = 1;
  EXPECT_EQ(refusal(gpus), "");
  gpus.gpus.reset();
  gpus.clear = {"gpus"};
  EXPECT_EQ(refusal(gpus), "gpus");
  UserChange caps;
  caps.user = "ada";
  caps.caps.period = "day";
  EXPECT_EQ(refusal(caps), "period") << "30 times as much";
  caps.caps.period.reset();
  caps.caps.running = 4;
  EXPECT_EQ(refusal(caps), "") << "there was none";
  caps.caps.running = 5;
  EXPECT_EQ(refusal(caps), "running");
  EXPECT_EQ(controller().teams().UserOf("ada")->gpus, 1);
  EXPECT_EQ(controller().teams().UserOf("ada")->caps.running, 4);
}

TEST_F(TeamLeads, CannotLiftAnEveryUserCapWithARowForOneUser) {
  UserChange everybody;
  everybody.user = "*";
  everybody.gpus = 2;
  ASSERT_TRUE(controller().SetTeamUser(everybody, root_, world_.now_));
  UserChange change;
  change.user = "ada";
  change.caps.running = 1;
  const auto refused = controller().SetTeamUser(change, lena_, world_.now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "gpus: ada has the default limit there, and raising or removing it takes an administrator; leaders of a "
            "team may lower "
            "it, or set it again for ada");
  change.gpus = 2;
  EXPECT_TRUE(controller().SetTeamUser(change, lena_, world_.now_));
}

TEST_F(TeamLeads, CannotSetCapsOfMembersThroughAGroupOrEveryUser) {
  TeamChange all;
  all.name = "all";
  all.add_users = {"*"};
  all.add_groups = {"staff"};
  all.add_leads = {"otto"};
  ASSERT_EQ(Set(all), "");
  UserChange change;
  change.gpus = 1;
  for (const std::string user : {"grace", "*", "staff"}) {
    change.user = user;
    EXPECT_FALSE(controller().SetTeamUser(change, otto_, world_.now_)) << user;
  }
  // Such a team does not matter for a lead of all teams that name the user.
  change.user = "ada";
  EXPECT_TRUE(controller().SetTeamUser(change, lena_, world_.now_));
}

TEST_F(TeamLeads, CanRequeueTheEndedJobOfAMemberThroughAGroup) {
  TeamChange faces;
  faces.name = "faces";
  faces.remove_users = {"ada"};
  faces.add_groups = {"staff"};
  const JobId job = last_;
  world_.Turn();
  world_.Exit(job, 3);
  const Effects effects = world_.Turn();
  const auto ended = std::ranges::find(effects.batch.updates, job, &JobRecord::id);
  ASSERT_NE(ended, effects.batch.updates.end());
  ASSERT_EQ(Set(faces), "");
  JobSpec spec;
  spec.command = {"true"};
  lena_.groups = {"staff"};
  EXPECT_FALSE(controller().RequeueEnded(*ended, spec, std::nullopt, {}, RequeueAs::kQueued, lena_, world_.now_));
  lena_.groups = {};
  const auto done =
      controller().RequeueEnded(*ended, spec, std::nullopt, {"staff"}, RequeueAs::kQueued, lena_, world_.now_);
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(TeamLeads, AreRestoredAfterARestart) {
  Controller again(Policy(), Limits(), 1);
  again.Load({}, Settings(controller().TakeEffects()), 2, 1, World::NoHistory());
  EXPECT_TRUE(again.teams().IsLedBy("faces", "lena"));
  EXPECT_FALSE(again.teams().IsLedBy("faces", "otto"));
}

}  // namespace controller_teams_test
}  // namespace divvy
