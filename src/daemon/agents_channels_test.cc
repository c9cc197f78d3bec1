// Streams between an agent and its controller: over cuts, restarts of either side, and from an agent that lies about
// who speaks.
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
