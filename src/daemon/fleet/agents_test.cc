// A real controller and a real agent, connected by streams that the test cuts.
#include <random>

#include "daemon/fleet/agents_test_pair.h"

namespace divvy {
namespace agents_test {

using Words = std::vector<std::string>;

TEST_F(AgentsWorld, AnAgentJoinsWithATokenAndRunsAJob) {
  StartAgent();
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "accounted n1"}));
  EXPECT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kConnected);
  Launch(5);
  Settle();
  EXPECT_EQ(fleet_.Take(), Words{"started n1 5.1"});
  fleet_.active["n1"][Job(5)].time_limit = 90s;
  fleet_.ports["n1"]->Execute(TimeLimitCommand{Job(5), kNever}, nullptr);
  agents_->Of("n1").Look(GpuSet::Of({0, 1}));
  Settle();
  EXPECT_EQ(machine_.commands, (Words{"launch 5", "limit 5 90"}));
  EXPECT_EQ(fleet_.Take(), Words{"gpus n1 2"});
  agent_->End(Job(5), 3);
  Settle();
  EXPECT_EQ(fleet_.Take(), Words{"exited n1 5.1 code=3"});
  EXPECT_TRUE(machine_.runs.empty());  // The run was forgotten, because its end is durable.
}

TEST_F(AgentsWorld, GpusWithheldFromSharingAreSentToAConnectedAgent) {
  StartAgent();
  Settle();
  const std::vector<wire::WithheldGpu> withheld = {{1, "is restricted"}};
  EXPECT_TRUE(agents_->Of("n1").Withhold(withheld));
  Settle();
  EXPECT_EQ(agent_->withheld, withheld);
}

TEST_F(AgentsWorld, ATokenAdmitsAsManyNodesAsItHasUses) {
  StartAgent();
  Settle();
  fleet_.Take();
  KillAgent();
  machine_.fingerprint = "bb";
  machine_.gpus = {"GPU-9"};
  StartAgent("n2");
  Settle();
  EXPECT_EQ(agent_->refused, "no good token");
  EXPECT_EQ(registry_->Find("n2"), nullptr);
  // With its own certificate the agent needs no token.
  KillAgent();
  machine_.fingerprint = "aa";
  machine_.gpus = {"GPU-1"};
  StartAgent("n1", "");
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=1", "accounted n1"}));
}

TEST_F(AgentsWorld, ASingleUseTokenAdmitsOnlyOneOfTwoNodesThatJoinAtOnce) {
  StartAgent();
  agent_->Tick();  // The agent has connected, and its Hello is on its way.
  uses_ = 0;       // Another agent has used the token first.
  Settle();
  EXPECT_EQ(agent_->refused, "used up");
  EXPECT_EQ(registry_->Find("n1"), nullptr);
  EXPECT_TRUE(fleet_.Take().empty());
}

TEST_F(AgentsWorld, ANodeThatClaimsAnothersGpuIsRefusedWithAReason) {
  uses_ = 2;
  StartAgent();
  Settle();
  fleet_.Take();
  KillAgent();
  machine_.fingerprint = "bb";
  StartAgent("n2");
  Settle();
  EXPECT_EQ(agent_->refused,
            "n2 reports the GPU GPU-1, which node n1 has; if it was moved here, divvy node remove n1 first");
  EXPECT_TRUE(fleet_.Take().empty());
}

TEST_F(AgentsWorld, ADisconnectLosesAndDuplicatesNothing) {
  StartAgent();
  Settle();
  fleet_.Take();
  for (int round = 0; round < 20; ++round) {
    Launch(10 + round);
    if (round % 3 != 0) wire_.Carry();
    wire_.CutAll();
    Launch(100 + round);
    Pass(2s);
    agent_->End(Job(10 + round), 0);
    wire_.CutAll();
    Pass(2s);
    agent_->End(Job(100 + round), 0);
    Settle();
  }
  const Words said = fleet_.Take();
  for (int round = 0; round < 20; ++round) {
    for (const int job : {10 + round, 100 + round}) {
      EXPECT_EQ(std::ranges::count(said, "started n1 " + std::to_string(job) + ".1"), 1);
      EXPECT_EQ(std::ranges::count(said, "exited n1 " + std::to_string(job) + ".1 code=0"), 1);
    }
  }
  EXPECT_TRUE(machine_.runs.empty());
}

TEST_F(AgentsWorld, AKilledAgentFindsItsRunsAndReportsTheirEnds) {
  StartAgent();
  Settle();
  Launch(5);
  Launch(6);
  Settle();
  KillAgent();
  fleet_.Take();
  machine_.runs[Job(6)].exit = Exit{.code = 9};  // It ended meanwhile, under its supervisor.
  StartAgent("n1", "");
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "started n1 5.1", "exited n1 6.1 code=9", "accounted n1"}));
  EXPECT_TRUE(machine_.runs.contains(Job(5)));
  EXPECT_FALSE(machine_.runs.contains(Job(6)));
}

TEST_F(AgentsWorld, ALaunchLostInTransitIsReportedAsNeverStarted) {
  StartAgent();
  Settle();
  Launch(5);
  KillAgent();
  StartAgent("n1", "");
  fleet_.Take();
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "vanished n1 5.1 never started", "accounted n1"}));
}

// A launch that is decided and not yet durable has not been sent. The agent cannot know it, and must not report that it
// never started, because it will start.
TEST_F(AgentsWorld, ALaunchThatIsNotDurableYetIsNotPartOfTheWelcome) {
  StartAgent();
  Settle();
  KillAgent();
  JobRecord record;
  record.id = Job(5);
  record.attempt = 1;
  record.state = JobState::kStarting;
  fleet_.active["n1"][record.id] = record;
  StartAgent("n1", "");
  fleet_.Take();
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "accounted n1"}));
  Launch(5);
  Settle();
  EXPECT_EQ(fleet_.Take(), Words{"started n1 5.1"});
}

TEST_F(AgentsWorld, AnAgentRepeatsReportsThatAKilledControllerMayNotHaveStored) {
  StartAgent();
  Settle();
  Launch(5);
  Launch(6);
  Settle();
  fleet_.Take();
  fleet_.forgets = false;
  agent_->End(Job(5), 7);
  Settle();
  EXPECT_EQ(fleet_.Take(), Words{"exited n1 5.1 code=7"});
  KillController();
  // The controller died before that was durable.
  JobRecord record;
  record.id = Job(5);
  record.attempt = 1;
  record.state = JobState::kRunning;
  fleet_.active["n1"][record.id] = record;
  fleet_.forgets = true;
  Pass(5min);
  StartController();
  Pass(20s);
  const Words said = fleet_.Take();
  EXPECT_EQ(std::ranges::count(said, "exited n1 5.1 code=7"), 1);
  EXPECT_EQ(std::ranges::count(said, "started n1 6.1"), 1);
  EXPECT_EQ(said.back(), "accounted n1");
  EXPECT_FALSE(machine_.runs.contains(Job(5)));
  EXPECT_TRUE(machine_.runs.contains(Job(6)));
  EXPECT_EQ(machine_.commands, (Words{"launch 5", "launch 6"}));
}

TEST_F(AgentsWorld, ADurableEndIsForgottenThoughTheForgetOrderWasLost) {
  StartAgent();
  Settle();
  Launch(5);
  Settle();
  fleet_.forgets = false;
  agent_->End(Job(5), 0);
  Settle();
  KillController();
  fleet_.forgets = true;
  StartController();  // In the store the job has ended, so the run is unknown now.
  Pass(20s);
  EXPECT_TRUE(machine_.runs.empty());
}

TEST_F(AgentsWorld, AWelcomeOfAnOlderControllerIsNotFollowed) {
  StartAgent();
  Settle();
  KillController();
  StartController();
  Pass(20s);
  ASSERT_EQ(machine_.epoch, 2u);
  KillController();
  epoch_ = 0;  // The controller starts from an older copy of its store.
  StartController();
  fleet_.Take();
  Launch(5);
  Pass(20s);
  EXPECT_FALSE(agent_->session->is_welcome());
  EXPECT_TRUE(machine_.runs.empty());
}

TEST_F(AgentsWorld, AControllerWithoutItsLeaseSendsNothing) {
  StartAgent();
  Settle();
  may_act_ = false;
  Launch(5);
  Pass(10s);
  EXPECT_TRUE(machine_.runs.empty());
  may_act_ = true;
  Pass(20s);
  EXPECT_EQ(machine_.runs.size(), 1u) << "the command waited";
}

TEST_F(AgentsWorld, AnAgentLearnsAllControllersAndLooksForTheNextLeader) {
  StartAgent();
  Settle();
  EXPECT_TRUE(machine_.controllers.empty());
  controllers_ = {"a.lab:7433", "b.lab:7433"};
  Pass(2s);
  EXPECT_EQ(machine_.controllers, controllers_);
  may_act_ = false;
  agent_->log.clear();
  Pass(10s);
  EXPECT_TRUE(std::ranges::any_of(
      agent_->log, [](const std::string& line) { return line.find("another one may lead") != std::string::npos; }));
  may_act_ = true;
  Pass(25s);
  EXPECT_TRUE(agent_->session->is_welcome());
}

// Otherwise a leader that needs some seconds for its welcomes would never have an agent.
TEST_F(AgentsWorld, AnAgentWaitsLongerEachTimeForALeaderThatIsSlow) {
  StartAgent();
  controllers_ = {"a.lab:7433", "b.lab:7433"};
  Pass(10s);
  const auto times_late = [this] {
    return std::ranges::count_if(
        agent_->log, [](const std::string& line) { return line.find("did not send a welcome") != std::string::npos; });
  };
  may_act_ = false;
  Pass(15s);  // It leaves the present leader.
  agent_->log.clear();
  Pass(2min);
  EXPECT_GE(times_late(), 4);
  EXPECT_LE(times_late(), 8);
  may_act_ = true;
  Pass(40s);
  EXPECT_TRUE(agent_->session->is_welcome());
  // A leader has answered, so the next one that hangs is left as soon as before.
  may_act_ = false;
  Pass(12s);
  EXPECT_FALSE(agent_->session->is_welcome());
}

TEST_F(AgentsWorld, ASilentNodeIsLostAndKeepsItsJobs) {
  StartAgent();
  Settle();
  Launch(5);
  Settle();
  fleet_.Take();
  is_partitioned_ = true;
  wire_.CutAll();
  Pass(10min);
  EXPECT_EQ(fleet_.Take(), Words{"lost n1"});
  EXPECT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kLost);
  EXPECT_FALSE(machine_.runs[Job(5)].exit);
  is_partitioned_ = false;
  Pass(1min);
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "back n1"}));  // The same session: nothing is repeated.
  EXPECT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kConnected);
}

TEST_F(AgentsWorld, ANodeThatStopsItsJobsHasDoneSoBeforeTheyMayRunElsewhere) {
  KillController();
  terms_.requeue_lost_after = 2min;
  StartController();
  StartAgent();
  Pass(10s);
  Launch(5);
  Settle();
  fleet_.Take();
  is_partitioned_ = true;
  wire_.CutAll();
  bool has_stopped_before = false;
  for (int i = 0; i < 3000 && std::ranges::count(fleet_.said, "fenced n1") == 0; ++i) {
    has_stopped_before = machine_.runs[Job(5)].exit.has_value();
    Pass(100ms);
  }
  EXPECT_TRUE(has_stopped_before);
  EXPECT_EQ(fleet_.Take(), (Words{"lost n1", "fenced n1"}));
  // The controller has given the job to another node meanwhile; an earlier launch must no longer arrive.
  fleet_.active["n1"].clear();
  is_partitioned_ = false;
  Pass(1min);
  EXPECT_EQ(machine_.commands, Words{"launch 5"});
  EXPECT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kConnected);
}

TEST_F(AgentsWorld, ANodeLostAndFencedAtTheSameTimeKeepsNoJobs) {
  KillController();
  terms_.requeue_lost_after = 1min;
  terms_.lost_after = 10min;
  StartController();
  StartAgent();
  Pass(10s);
  fleet_.Take();
  is_partitioned_ = true;
  wire_.CutAll();
  Pass(11min);
  EXPECT_EQ(fleet_.Take(), (Words{"fenced n1", "lost n1"}));
}

TEST_F(AgentsWorld, AnAgentThatRestartsWhileDisconnectedStillStopsItsJobs) {
  KillController();
  terms_.requeue_lost_after = 2min;
  StartController();
  StartAgent();
  Pass(10s);
  Launch(5);
  Settle();
  KillAgent();
  is_partitioned_ = true;
  Pass(30s);
  StartAgent("n1", "");
  Settle();
  EXPECT_FALSE(machine_.runs[Job(5)].exit);  // Its lease continues under the old terms.
  Pass(70s);
  EXPECT_TRUE(machine_.runs[Job(5)].exit);
}

// The term "jobs are stopped" counts only once the node has confirmed it.
TEST_F(AgentsWorld, ANodeThatHasNotConfirmedNewTermsIsNotConsideredFenced) {
  StartAgent();  // The Welcome says that its jobs are kept.
  Pass(10s);
  Launch(5);
  Settle();
  KillController();
  is_partitioned_ = true;
  terms_.requeue_lost_after = 1min;
  StartController();
  fleet_.Take();
  Pass(30min);
  EXPECT_EQ(fleet_.Take(), Words{"lost n1"});
}

TEST_F(AgentsWorld, ClocksMayDifferByAnHour) {
  skew_ = -1h;
  StartAgent();
  Settle();
  Launch(5);
  Settle();
  EXPECT_EQ(fleet_.started_at[Job(5)], Time(std::chrono::hours(500'000)) + now_);
  Pass(10min);
  EXPECT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kConnected);
}

TEST_F(AgentsWorld, ANodeReportsForItsOwnRunsOnly) {
  StartAgent();
  Settle();
  fleet_.active["n2"][Job(9)].id = Job(9);
  fleet_.active["n2"][Job(9)].attempt = 1;
  fleet_.Take();
  agent_->session->OnStarted(Job(9), 1, agent_->session->Now());
  agent_->session->OnExited(Job(9), 1, Exit(), agent_->session->Now());
  agent_->session->OnVanished(Job(9), 1, RunVanished::kUnseen);
  Settle();
  EXPECT_TRUE(fleet_.Take().empty());
}

TEST_F(AgentsWorld, AFailureOnANodeThatMayBeTakenAwayIsReportedLater) {
  machine_.failure_hold = 2s;
  StartAgent();
  Settle();
  Launch(5);
  Launch(6);
  Settle();
  fleet_.Take();
  agent_->End(Job(5), 143);
  agent_->End(Job(6), 0);
  Settle();
  EXPECT_EQ(fleet_.Take(), Words{"exited n1 6.1 code=0"});
  Pass(3s);
  EXPECT_EQ(fleet_.Take(), Words{"exited n1 5.1 code=143"});
}

TEST_F(AgentsWorld, AFailureIsNotReportedIfTheNodeIsTakenAwayWithIt) {
  machine_.failure_hold = 2s;
  StartAgent();
  Settle();
  Launch(5);
  Settle();
  fleet_.Take();
  agent_->End(Job(5), 143);
  Settle();
  KillAgent();
  Pass(30min);
  EXPECT_EQ(fleet_.Take(), Words{"lost n1"});
}

TEST_F(AgentsWorld, ARebootIsRememberedUntilItIsReconciled) {
  StartAgent();
  Settle();
  Launch(5);
  Settle();
  KillAgent();
  machine_.boot = "boot-2";
  StartAgent("n1", "");
  fleet_.Take();
  Settle();
  EXPECT_EQ(fleet_.Take(), (Words{"joined n1 gpus=2", "vanished n1 5.1 otherwise", "accounted n1"}));
  EXPECT_EQ(registry_->Find("n1")->accounted_boot, "boot-2");
}

TEST_F(AgentsWorld, AKeyIsRenewedOverAConnectionThatTheOldKeyAuthenticates) {
  StartAgent();
  Settle();
  agent_->session->Renew("cc");
  Settle();
  EXPECT_EQ(machine_.fingerprint, "cc");
  wire_.CutAll();
  Pass(2s);
  EXPECT_TRUE(agent_->session->is_welcome());
  EXPECT_FALSE(registry_->Knows("aa"));
}

TEST_F(AgentsWorld, ARemovedNodeIsToldSoAndDoesNotReconnect) {
  StartAgent();
  Settle();
  kept_[registry_->Remove("n1")->first] = "";
  agents_->Forget("n1");
  Settle();
  EXPECT_EQ(agent_->refused, "node n1 was removed by an administrator");
  uses_ = 0;
  Pass(2min);
  EXPECT_FALSE(agent_->session->is_welcome());
  EXPECT_EQ(agents_->Find("n1"), nullptr);
}

TEST_F(AgentsWorld, GarbageAndSilenceAreDisconnected) {
  auto [theirs, ours] = wire_.MakePair();
  bool is_closed = false;
  ours->Listen({[](std::string_view) {}, [] {}, [&] { is_closed = true; }});
  ASSERT_TRUE(agents_->LetKnock("10.0.0.9", "ff", "Bearer good", std::move(theirs)));
  ours->Send(std::string(100, '\xff'));
  Settle();
  EXPECT_TRUE(is_closed);
  auto [silent_theirs, silent] = wire_.MakePair();
  bool is_silent_closed = false;
  silent->Listen({[](std::string_view) {}, [] {}, [&] { is_silent_closed = true; }});
  ASSERT_TRUE(agents_->LetKnock("10.0.0.9", "ff", "Bearer good", std::move(silent_theirs)));
  Pass(19s);
  EXPECT_FALSE(is_silent_closed);
  Pass(2s);
  EXPECT_TRUE(is_silent_closed);
  EXPECT_FALSE(agents_->LetKnock("10.0.0.9", "", "Bearer good", nullptr));
  EXPECT_FALSE(agents_->LetKnock("10.0.0.9", "ff", "", nullptr));
}

// Launches, ends, disconnects, and crashes of either side in any order: no job runs twice, none is forgotten, and every
// exit code arrives. Data in transit at a crash or disconnect is lost.
TEST_F(AgentsWorld, RandomHistoriesLoseNoEndAndRunNoJobTwice) {
  uses_ = 1'000'000;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return random() % n; };
    if (!agents_) StartController();
    is_partitioned_ = false;
    StartAgent();
    Pass(1min);
    ASSERT_TRUE(agent_->session->is_welcome());
    fleet_.said.clear();
    machine_.commands.clear();
    const int first = 1000 * static_cast<int>(seed + 1);
    int next = first;
    std::map<int, int> codes;
    const auto end_one = [&] {
      for (auto& [job, run] : machine_.runs) {
        if (run.exit || below(2) == 0) continue;
        const int code = codes[static_cast<int>(job.value())] = static_cast<int>(below(100));
        if (agent_) return agent_->End(job, code);
        run.exit = Exit();
        run.exit->code = code;
        return;
      }
    };
    for (int step = 0; step < 120; ++step) {
      switch (below(9)) {
        case 0:
        case 1:
          if (agents_) Launch(next++);
          break;
        case 2:
          end_one();
          break;
        case 3:
          wire_.Carry();
          break;
        case 4:
          wire_.CutAll();
          break;
        case 5:
          is_partitioned_ = below(3) == 0;
          break;
        case 6:
          if (agent_ && below(3) == 0) KillAgent();
          else if (!agent_) StartAgent();
          break;
        case 7:
          if (agents_ && below(3) == 0) KillController();
          else if (!agents_) StartController();
          break;
        default:
          Pass(100ms * static_cast<int>(below(60)));
      }
    }
    if (!agents_) StartController();
    if (!agent_) StartAgent();
    is_partitioned_ = false;
    Pass(1min);
    for (auto& [job, run] : std::map(machine_.runs)) {
      if (run.exit) continue;
      codes[static_cast<int>(job.value())] = 0;
      agent_->End(job, 0);
    }
    Pass(1min);
    EXPECT_TRUE(machine_.runs.empty());
    EXPECT_TRUE(fleet_.active["n1"].empty());
    for (int job = first; job < next; ++job) {
      const std::string run = "n1 " + std::to_string(job) + ".1";
      const auto ran = std::ranges::count(machine_.commands, "launch " + std::to_string(job));
      EXPECT_LE(ran, 1) << job;
      if (ran == 0) EXPECT_EQ(std::ranges::count(fleet_.said, "vanished " + run + " never started"), 1) << job;
      else
        EXPECT_EQ(std::ranges::count(fleet_.said, "exited " + run + " code=" + std::to_string(codes[job])), 1) << job;
    }
    KillAgent();
  }
}

}  // namespace agents_test
}  // namespace divvy
