// The output of jobs on an agent's node, over the socket, with an agent that answers when the test says so.
#include "daemon/api/routes_test_world.h"
#include "daemon/fleet/agents_test_pair.h"

namespace divvy {
namespace routes_remote_logs_test {

class RoutesRemoteLogs : public testing::Test {
 protected:
  RoutesRemoteLogs() : callers_(world_.tokens_, {}) {
    log_.SetLevel(LogLevel::kError);
    world_.listener_->Open(*world_.driver_, callers_, {}, nullptr,
                           {[](Duration, const std::function<void()>&) {}, &log_, {}});
    EXPECT_TRUE(world_.listener_->registry().Join("n1", machine_.fingerprint, Facts(), {}, true, world_.clock_.Now()));
    agent_ = std::make_unique<AgentProcess>(machine_, "n1", now_, Duration(0), [this] { Dial(); });
    Carry();
    Job(900, ::getuid());
  }
  MachineFacts Facts() const {
    MachineFacts facts;
    for (const std::string& uuid : machine_.gpus) {
      GpuFacts gpu;
      gpu.index = static_cast<GpuIndex>(facts.gpus.size());
      gpu.uuid = uuid;
      facts.gpus.push_back(gpu);
    }
    return facts;
  }
  void Dial() {
    auto [theirs, ours] = wire_.MakePair();
    const auto let_in = world_.listener_->agents()->LetKnock("10.0.0.9", machine_.fingerprint, "", std::move(theirs));
    ASSERT_TRUE(let_in) << let_in.error().message;
    agent_->session->OnDialled(std::move(ours));
  }
  /// Adds an ended job.
  void Job(std::uint64_t id, std::uint32_t uid) {
    Batch batch;
    JobRecord record;
    record.id = record.spec_of = JobId(id);
    record.state = JobState::kSucceeded;
    record.started = record.ended = world_.clock_.Now();
    record.user = {uid, uid, "ada"};
    record.node = "n1";
    JobSpec spec;
    spec.command = {"true"};
    batch.inserts.push_back({record, std::make_shared<const JobSpec>(spec)});
    ASSERT_TRUE(world_.store_.Commit({batch}));
  }
  void Carry() {
    for (int i = 0; i < 20; ++i) {
      world_.Settle();
      agent_->Tick();
      wire_.Carry();
    }
  }
  void Ask(Client& client, const std::string& id = "900") {
    client.Get("/v1/jobs/" + id + "/log?at=-1&last=2");
    ASSERT_TRUE(world_.WaitsForTheReader());
    world_.Read();
    Carry();
  }

  World world_;
  RemoteCallers callers_;
  Log log_;
  Duration now_ = 100s;
  Wire wire_;
  Machine machine_;
  std::unique_ptr<AgentProcess> agent_;
};

TEST_F(RoutesRemoteLogs, AreReadFromTheAgent) {
  Client client(world_.directory_ + "/socket");
  Ask(client);
  ASSERT_EQ(agent_->questions.size(), 1u);
  EXPECT_EQ(agent_->questions[0].question.record.id, JobId(900));
  EXPECT_EQ(agent_->questions[0].question.last, 2);
  EXPECT_EQ(client.Received(), "");
  wire::AgentAnswer answer;
  answer.next = 42;
  agent_->questions[0].told(answer, "two lines");
  Carry();
  EXPECT_TRUE(world_.AnswerHas(client, "two lines"));
  EXPECT_NE(client.Received().find("Divvy-Next: 42"), std::string::npos) << client.Received();
}

TEST_F(RoutesRemoteLogs, UnreadableLogsAreRefusedWithTheNodesName) {
  Client client(world_.directory_ + "/socket");
  Ask(client);
  ASSERT_EQ(agent_->questions.size(), 1u);
  wire::AgentAnswer answer;
  answer.path = "/home/ada/out";
  answer.error = EACCES;
  agent_->questions[0].told(answer, "");
  Carry();
  EXPECT_TRUE(world_.AnswerHas(client, "cannot read 'n1:/home/ada/out': Permission denied"));
}

TEST_F(RoutesRemoteLogs, ALogOnADisconnectedNodeCanBeReadAfterItReconnects) {
  Client asks(world_.directory_ + "/socket");
  Ask(asks);
  wire_.CutAll();
  EXPECT_TRUE(world_.AnswerHas(asks, "node n1 is away since "));
  Client client(world_.directory_ + "/socket");
  client.Get("/v1/jobs/900/log");
  ASSERT_TRUE(world_.WaitsForTheReader());
  world_.Read();
  EXPECT_TRUE(world_.AnswerHas(client, "; its output can be read when it is back"));
}

TEST_F(RoutesRemoteLogs, AreReadForTheirOwnersOnly) {
  if (::getuid() == 0) GTEST_SKIP() << "the caller is an administrator";
  Job(901, ::getuid() + 1);
  Client client(world_.directory_ + "/socket");
  Ask(client, "901");
  EXPECT_TRUE(world_.AnswerHas(client, "and only the owner may read its log"));
  EXPECT_TRUE(agent_->questions.empty());
}

TEST_F(RoutesRemoteLogs, TheLogPathIsShownWithItsNode) {
  MachineFacts facts = Facts();
  facts.logs = "/var/lib/divvy/agent/logs";
  ASSERT_TRUE(world_.listener_->registry().Join("n1", machine_.fingerprint, facts, {}, true, world_.clock_.Now()));
  Client client(world_.directory_ + "/socket");
  client.Get("/v1/jobs/900");
  ASSERT_TRUE(world_.WaitsForTheReader());
  world_.Read();
  EXPECT_TRUE(world_.AnswerHas(client, "\"output\":\"n1:/var/lib/divvy/agent/logs/900.log\""));
}

}  // namespace routes_remote_logs_test
}  // namespace divvy
