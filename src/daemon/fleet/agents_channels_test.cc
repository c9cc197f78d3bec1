// Streams between an agent and its controller: across disconnects, restarts of either side, and from an agent that lies
// about its users.
#include <poll.h>
#include <sys/socket.h>

#include <optional>

#include "daemon/api/routes_test_world.h"
#include "daemon/fleet/agents_test_pair.h"
#include "daemon/fleet/remote_streams.h"
#include "wire/messages/agent_codec.h"

namespace divvy {
namespace agents_channels_test {

class AgentChannels : public AgentsWorld {
 protected:
  AgentChannels() {
    StartAgent();
    Take();
    Settle();
  }
  /// The agent accepts every stream that the controller opens, and records all of its bytes.
  void Take() {
    agent_->on_channel = [this](std::uint64_t number, std::string_view purpose) {
      came_ += "[" + std::string(purpose) + "]";
      agent_->session->channels()->Accept(number, {[this, number](std::string_view bytes) {
                                                     came_ += bytes;
                                                     agent_->session->channels()->Consumed(number, bytes.size());
                                                   },
                                                   {},
                                                   [this] { came_ += "|"; },
                                                   [this](const std::string& why) { came_ += "(" + why + ")"; }});
    };
  }
  Channels& There() { return *agents_->Of("n1").channels(); }

  std::string came_;
};

TEST_F(AgentChannels, ADisconnectLosesAndDuplicatesNothing) {
  const auto number = There().Open("x", {});
  ASSERT_TRUE(number);
  There().Send(*number, "one ");
  Settle();
  There().Send(*number, "two ");
  wire_.CutAll();
  There().Send(*number, "three");
  There().End(*number);
  Pass(2s);
  EXPECT_EQ(came_, "[x]one two three|");
}

TEST_F(AgentChannels, MorePiecesThanTheLinkBuffersWaitForTheReconnect) {
  constexpr int kPieces = 35'000;  // For each of two streams: together more than a link takes.
  int sent[2] = {0, 0};
  std::uint64_t numbers[2] = {0, 0};
  const auto send = [&](int which) {
    for (; sent[which] < kPieces && There().room(numbers[which]) > 0; ++sent[which]) There().Send(numbers[which], "x");
  };
  for (int i : {0, 1}) numbers[i] = *There().Open("x", {{}, [&send, i] { send(i); }, {}, {}});
  Settle();
  came_.clear();
  is_partitioned_ = true;
  wire_.CutAll();
  for (int i : {0, 1}) send(i);
  EXPECT_LT(sent[0] + sent[1], 2 * kPieces);
  ASSERT_NE(agents_->Of("n1").channels(), nullptr) << "the session is over";
  // There is still room for commands.
  Launch(7);
  is_partitioned_ = false;
  Pass(10s);
  EXPECT_EQ(came_, std::string(2 * kPieces, 'x'));
  EXPECT_TRUE(machine_.runs.contains(Job(7)));
}

TEST_F(AgentChannels, EndWithTheirSession) {
  std::optional<std::string> why;
  ASSERT_TRUE(There().Open("x", {{}, {}, {}, [&](const std::string& text) { why = text; }}));
  Settle();
  KillController();
  StartController();
  EXPECT_EQ(why, "the session with node n1 is over");
  Pass(2s);
  EXPECT_EQ(came_, "[x](the session with the controller is over)");
  ASSERT_TRUE(There().Open("y", {}));
  Settle();
  EXPECT_EQ(came_, "[x](the session with the controller is over)[y]");
}

/// The controller's end of callers' streams, and one caller's relays.
class RemoteCallerStreams : public AgentChannels {
 protected:
  RemoteCallerStreams() {
    before_foreground_ = [this](RemoteNode& node, JobId job) { streams_.OnForeground(node, job); };
  }
  Streams MakeRelays() {
    Streams passed;
    for (std::size_t i = 0; i < passed.size(); ++i) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      near_[i].Reset(ends[0]);
      passed[i].Reset(ends[1]);
    }
    return passed;
  }
  bool IsAskedToPump() const {
    char word = 0;
    return ::recv(near_[0].get(), &word, 1, MSG_DONTWAIT) == 1 && word == kPumpWord;
  }
  ~RemoteCallerStreams() override {
    KillAgent();
    KillController();
  }

  World world_;
  RemoteStreams streams_{world_.loop_, *world_.driver_, [](Descriptor, const Peer&) {}};
  Streams near_;
};

TEST_F(RemoteCallerStreams, ACallerMayReconnectBeforeTheAgent) {
  KillController();
  StartController();
  RemoteNode& node = agents_->Of("n1");
  ASSERT_TRUE(streams_.Keep(Job(7), MakeRelays()));
  streams_.Rejoin(node, Job(7));
  EXPECT_FALSE(IsAskedToPump());
  Pass(2s);
  Launch(7, 1, true);
  Settle();
  EXPECT_TRUE(IsAskedToPump());
  EXPECT_NE(came_.find(R"([{"kind":"stream","job":7,"stream":2}])"), std::string::npos) << came_;
}

TEST_F(RemoteCallerStreams, AWaitingJobGetsItsCallersStreamsWithTheSession) {
  Launch(7, 1, true);
  wire_.CutAll();  // The agent may have missed the streams, or waits for a caller that does not come.
  KillController();
  StartController();
  ASSERT_TRUE(streams_.Keep(Job(7), MakeRelays()));
  streams_.Rejoin(agents_->Of("n1"), Job(7));
  fleet_.keeps_vanished = true;
  Pass(2s);
  EXPECT_TRUE(IsAskedToPump()) << came_;
}

TEST_F(RemoteCallerStreams, ACallerWhoseJobEndedWithTheSessionIsNotToldOfARestart) {
  ASSERT_TRUE(streams_.Keep(Job(7), MakeRelays()));
  streams_.Rejoin(agents_->Of("n1"), Job(7));
  Settle();
  ASSERT_TRUE(IsAskedToPump());
  // The node is disconnected for good, and the controller no longer has the job.
  agents_->Of("n1").EndSession();
  Pass(2s);
  // Another process may hold the last copy of our end for a moment (platform/os/foreign_descriptor.h).
  pollfd closed = {near_[0].get(), POLLIN, 0};
  ASSERT_EQ(::poll(&closed, 1, 20'000), 1);
  char word = 0;
  EXPECT_EQ(::recv(near_[0].get(), &word, 1, MSG_DONTWAIT), 0) << word;
}

TEST_F(RemoteCallerStreams, ACallerIsToldThatItsJobStartsOnThisNode) {
  ASSERT_TRUE(streams_.Keep(Job(7), MakeRelays()));
  streams_.Drop(Job(7));
  std::array<char, 2> words{};
  EXPECT_EQ(::recv(near_[0].get(), words.data(), words.size(), 0), 1);
  EXPECT_EQ(words[0], kHereWord);
  EXPECT_EQ(::recv(near_[0].get(), words.data(), words.size(), 0), 0);
}

TEST_F(RemoteCallerStreams, IfNotAllStreamsCanBeOpenedAllAreClosed) {
  while (There().size() + 2 < Channels::kMost) ASSERT_TRUE(There().Open("x", {}));
  ASSERT_TRUE(streams_.Keep(Job(7), MakeRelays()));
  streams_.Rejoin(agents_->Of("n1"), Job(7));
  Settle();
  EXPECT_EQ(There().size() + 2, Channels::kMost);
  EXPECT_TRUE(came_.ends_with("(not all streams could be opened)(not all streams could be opened)")) << came_;
}

TEST_F(RemoteCallerStreams, AUserAttachesALimitedNumberOfTerminalsPerNode) {
  const auto join = [this](std::int64_t uid) {
    Streams relays = MakeRelays();
    return streams_.Attach(agents_->Of("n1"), Job(7), uid, std::move(relays[0]), std::move(relays[1]), WindowSize(),
                           [](bool, const std::string&) {});
  };
  for (std::size_t i = 0; i < RemoteStreams::kMostAttached; ++i) ASSERT_TRUE(join(1000));
  const Status refused = join(1000);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("32 terminals on node n1"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(join(1001));
  // Streams that are over no longer count.
  agents_->Of("n1").EndSession();
  Pass(2s);
  EXPECT_TRUE(join(1000));
}

TEST_F(AgentChannels, AUserWithoutAJobOnTheNodeCannotOpenAChannel) {
  World world;
  int served = 0;
  RemoteStreams far(world.loop_, *world.driver_, [&](Descriptor, const Peer&) { ++served; });
  on_channel_ = [&far](RemoteNode& node, std::uint64_t number, std::string_view purpose) {
    far.OnChannel(node, number, purpose);
  };
  // The user has a job, but not on that node.
  world.Submit("elsewhere");
  world.Settle();
  wire::ChannelPurpose purpose;
  purpose.kind = "door";
  purpose.user = "ada";
  std::optional<std::string> why;
  const Channels::Listener listener{{}, {}, {}, [&](const std::string& text) { why = text; }};
  ASSERT_TRUE(agent_->session->channels()->Open(wire::EncodeAgent(purpose), listener));
  Settle();
  EXPECT_EQ(why, "no job of this user runs on node n1");
  for (const std::string& text :
       {std::string("{}"), std::string("nonsense"), std::string(R"({"kind":"stream","job":1})")}) {
    why.reset();
    ASSERT_TRUE(agent_->session->channels()->Open(text, listener));
    Settle();
    EXPECT_EQ(why, "this controller takes no such stream") << text;
  }
  EXPECT_EQ(served, 0);
}

}  // namespace agents_channels_test
}  // namespace divvy
