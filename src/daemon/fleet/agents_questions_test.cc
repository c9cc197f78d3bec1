// Questions to an agent and their answers: across disconnects, too many, too large, and with real files.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "daemon/agent/agent_logs.h"
#include "daemon/fleet/agents_test_pair.h"
#include "platform/supervisor/launch.h"

namespace divvy {
namespace agents_questions_test {

using Words = std::vector<std::string>;

class AgentQuestions : public AgentsWorld {
 protected:
  AgentQuestions() {
    StartAgent();
    Settle();
  }
  /// Asks the agent; the result appears in told_ as "NUMBER: ..." with the test's own number.
  void Ask(int number, int job = 5) {
    wire::AgentQuestion question;
    question.record.id = Job(job);
    question.record.attempt = 1;
    question.at = number;
    agents_->Of("n1").Ask(question, [this, number](const Result<wire::NumberedAnswer>& answered) {
      told_.push_back(
          std::to_string(number) + ": " +
          (answered ? answered->bytes + (answered->answer.is_running ? ", runs" : "") : answered.error().message));
    });
  }
  /// The agent answers the question with the test's `number`.
  void Tell(int number, const std::string& bytes) {
    for (const auto& asked : agent_->questions) {
      if (asked.question.at == number) return asked.told({}, bytes);
    }
    ADD_FAILURE() << "the agent was not asked " << number;
  }
  Words Take() { return std::exchange(told_, {}); }

  Words told_;
};

TEST_F(AgentQuestions, AnswersArriveInAnyOrderAndSayWhetherTheJobRuns) {
  Launch(5);
  Ask(1);
  Ask(2, 6);
  Settle();
  ASSERT_EQ(agent_->questions.size(), 2u);
  Tell(2, std::string("b\0\xff", 3));
  Tell(1, "a");
  Settle();
  EXPECT_EQ(Take(), (Words{"2: " + std::string("b\0\xff", 3), "1: a, runs"}));
}

TEST_F(AgentQuestions, TheUsersRightIsSentWithEveryActionForThatUser) {
  Launch(4);
  Settle();
  EXPECT_EQ(agent_->rights, Words{}) << "of a user without one";
  user_ = 7;
  Launch(5);
  Settle();
  EXPECT_EQ(agent_->rights, Words{"right"});
  wire::AgentQuestion question;
  question.record.id = Job(5);
  question.record.user.uid = 7;
  agents_->Of("n1").Ask(question, [](const Result<wire::NumberedAnswer>&) {});
  Settle();
  EXPECT_EQ(agent_->rights, (Words{"right", "right"}));
  KillAgent();
  StartAgent();
  Settle();
  EXPECT_EQ(agent_->rights, Words{"right"}) << "of a job that runs there";
}

TEST_F(AgentQuestions, ADisconnectedAgentIsNotWaitedFor) {
  Ask(1);
  Settle();
  wire_.CutAll();
  EXPECT_EQ(Take(), Words{"1: node n1 went away"});
  Ask(2);
  EXPECT_EQ(Take(), Words{"2: node n1 is away"});
  // The answer to a question of the previous connection is dropped; the session is the same.
  Pass(2s);
  ASSERT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kConnected);
  Tell(1, "late");
  Ask(3);
  Settle();
  Tell(3, "new");
  Settle();
  EXPECT_EQ(Take(), Words{"3: new"});
  EXPECT_EQ(agents_->PresenceOf("n1"), Agents::Presence::kConnected);
}

TEST_F(AgentQuestions, ASilentAgentTimesOutAfterTenSeconds) {
  Ask(1);
  Pass(9s);
  EXPECT_EQ(Take(), Words());
  Pass(2s);
  EXPECT_EQ(Take(), Words{"1: node n1 does not answer"});
  Tell(1, "late");
  Ask(2);
  Settle();
  Tell(2, "in time");
  Settle();
  EXPECT_EQ(Take(), Words{"2: in time"});
}

TEST_F(AgentQuestions, ALimitedNumberOfQuestionsIsInFlightAndTheRestFollow) {
  for (int number = 1; number <= 20; ++number) Ask(number);
  Settle();
  EXPECT_EQ(agent_->questions.size(), 8u);
  for (int number = 1; number <= 20; ++number) {
    Tell(number, "x");
    Settle();
  }
  EXPECT_EQ(Take().size(), 20u);
  for (std::size_t number = 0; number <= RemoteNode::kMostQuestions; ++number) Ask(static_cast<int>(number) + 100);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_.front().find("is asked for 512 pieces of output already"), std::string::npos);
}

TEST_F(AgentQuestions, AnOversizedAnswerEndsTheConnection) {
  Ask(1);
  Ask(2);
  Settle();
  Tell(1, std::string(static_cast<std::size_t>(wire::kAnswerBytes), 'a'));
  Settle();
  EXPECT_EQ(Take().front().size(), static_cast<std::size_t>(wire::kAnswerBytes) + 3);
  Tell(2, std::string(static_cast<std::size_t>(wire::kAnswerBytes) + 1, 'a'));
  wire_.Carry();
  EXPECT_EQ(Take(), Words{"2: node n1 went away"});
}

class NoLaunches final : public Launcher {
 public:
  Status Launch(const LaunchRequest&) override { return {}; }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RemoveRecord(const RunRecord&) override {}
  void RepeatLost() override {}
};

class AgentFileAnswers : public testing::Test {
 protected:
  AgentFileAnswers() {
    std::string name = testing::TempDir() + "divvy-answers-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ::chmod(name.c_str(), 0755);
    NodeOptions options;
    options.log_directory = folder_ + "/logs";
    options.names = {"host", "", "n1"};
    std::filesystem::create_directory(options.log_directory);
    node_ = std::make_unique<Node>(std::move(options), launcher_, std::vector<GpuFacts>());
    question_.record.id = JobId(7);
    question_.record.user = {static_cast<std::int64_t>(::getuid()), static_cast<std::int64_t>(::getgid()), "ada"};
    question_.directory = folder_;
  }
  ~AgentFileAnswers() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }

  std::string folder_;
  NoLaunches launcher_;
  std::unique_ptr<Node> node_;
  wire::AgentQuestion question_;
};

TEST_F(AgentFileAnswers, ReadsTheLogOfAForgottenJob) {
  Write("logs/7.log", "one\ntwo\nthree\n");
  question_.last = 2;
  const AnsweredPiece tail = AnswerOf(*node_, question_);
  EXPECT_EQ(tail.bytes, "two\nthree\n");
  EXPECT_EQ(tail.answer.next, 14);
  EXPECT_EQ(tail.answer.size, 14);
  EXPECT_EQ(tail.answer.path, folder_ + "/logs/7.log");
  question_.at = tail.answer.next;
  EXPECT_EQ(AnswerOf(*node_, question_).bytes, "");
}

TEST_F(AgentFileAnswers, ExpandsFileNamePatternsOnTheNode) {
  question_.output = "%N-%j.txt";
  question_.error = "errors";
  Write("n1-7.txt", "said");
  Write("errors", "complained");
  EXPECT_EQ(AnswerOf(*node_, question_).bytes, "said");
  question_.is_error = true;
  EXPECT_EQ(AnswerOf(*node_, question_).bytes, "complained");
}

TEST_F(AgentFileAnswers, ReadsAFileInPiecesOfLimitedSize) {
  const auto most = static_cast<std::size_t>(wire::kAnswerBytes);
  Write("logs/7.log", std::string(most + 10, 'x'));
  const AnsweredPiece first = AnswerOf(*node_, question_);
  EXPECT_EQ(first.bytes.size(), most);
  question_.at = first.answer.next;
  EXPECT_EQ(AnswerOf(*node_, question_).bytes.size(), 10u);
}

TEST_F(AgentFileAnswers, ReportsMissingFilesAndFilesThatTheUserCannotRead) {
  EXPECT_EQ(AnswerOf(*node_, question_).answer.error, ENOENT);
  question_.output = "secret";
  Write("secret", "for its owner");
  ::chmod((folder_ + "/secret").c_str(), ::geteuid() == 0 ? 0600 : 0);
  question_.record.user = {65534, 65534, "nobody"};
  const AnsweredPiece refused = AnswerOf(*node_, question_);
  EXPECT_EQ(refused.answer.error, EACCES);
  EXPECT_EQ(refused.bytes, "");
  // The output of a foreground job went to its caller's terminal.
  question_.output.clear();
  question_.is_foreground = true;
  EXPECT_EQ(AnswerOf(*node_, question_).answer.error, ENOENT);
}

}  // namespace agents_questions_test
}  // namespace divvy
