// Streams between an agent and its controller: over cuts, restarts of either side, and from an agent that lies about
// who speaks.
#include <sys/socket.h>

#include <optional>

#include "daemon/agents_test_pair.h"
#include "daemon/far_streams.h"
#include "daemon/routes_test_world.h"

namespace divvy {
namespace {

class ChannelsWorld : public AgentsWorld {
 protected:
  ChannelsWorld() {
    StartAgent();
    Take();
    Settle();
  }
  /// Whatever the controller opens is taken by the agent, which notes all of it.
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

TEST_F(ChannelsWorld, ACutLosesAndDoublesNothing) {
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

TEST_F(ChannelsWorld, EndWithTheirSession) {
  std::optional<std::string> why;
  ASSERT_TRUE(There().Open("x", {{}, {}, {}, [&](const std::string& text) { why = text; }}));
  Settle();
  KillController();
  StartController();
  EXPECT_EQ(why, "the session with node n1 is over");
  Pass(2s);
  EXPECT_EQ(came_, "[x](the controller has begun anew)");
  ASSERT_TRUE(There().Open("y", {}));
  Settle();
  EXPECT_EQ(came_, "[x](the controller has begun anew)[y]");
}

/// The controller's end of callers' streams, and one caller's relays.
class CallersWorld : public ChannelsWorld {
 protected:
  CallersWorld() {
    before_foreground_ = [this](RemoteNode& node, JobId job) { far_.OnForeground(node, job); };
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
  ~CallersWorld() override {
    KillAgent();
    KillController();
  }

  World world_;
  FarStreams far_{world_.loop_, *world_.core_, [](Descriptor, const Peer&) {}};
  Streams near_;
};

TEST_F(CallersWorld, ACallerMayBeBackBeforeTheAgentIs) {
  KillController();
  StartController();
  RemoteNode& node = agents_->Of("n1");
  ASSERT_TRUE(far_.Keep(Job(7), MakeRelays()));
  far_.Rejoin(node, Job(7));
  EXPECT_FALSE(IsAskedToPump());
  Pass(2s);
  Launch(7, 1, true);
  Settle();
  EXPECT_TRUE(IsAskedToPump());
  EXPECT_NE(came_.find(R"([{"kind":"stream","job":7,"stream":2}])"), std::string::npos) << came_;
}

TEST_F(CallersWorld, WhatAwaitsItsCallerThereGetsTheStreamsWithTheSession) {
  Launch(7, 1, true);
  wire_.CutAll();  // The agent has not heard of it, or waits for who does not come.
  KillController();
  StartController();
  ASSERT_TRUE(far_.Keep(Job(7), MakeRelays()));
  far_.Rejoin(agents_->Of("n1"), Job(7));
  fleet_.keeps_vanished = true;
  Pass(2s);
  EXPECT_TRUE(IsAskedToPump()) << came_;
}

TEST_F(ChannelsWorld, WhoHasNoJobThereIsSpokenForByNobody) {
  World world;
  int served = 0;
  FarStreams far(world.loop_, *world.core_, [&](Descriptor, const Peer&) { ++served; });
  on_channel_ = [&far](RemoteNode& node, std::uint64_t number, std::string_view purpose) {
    far.OnChannel(node, number, purpose);
  };
  // Has one, but not on that machine.
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

}  // namespace
}  // namespace divvy
