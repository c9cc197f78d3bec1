#include "wire/http/channels.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "wire/http/frame.h"

namespace divvy {
namespace channels_test {

/// Both ends; a test carries their messages whenever it likes.
struct Pair {
  std::deque<std::string> to_agent, to_controller;
  std::vector<std::string> said;  // Events at the agent's end: "NUMBER: what".
  Channels controller{Channels::Side::kController, [this](std::string m) { to_agent.push_back(std::move(m)); },
                      [](std::uint64_t, std::string_view) {}};
  Channels agent{Channels::Side::kAgent, [this](std::string m) { to_controller.push_back(std::move(m)); },
                 [this](std::uint64_t number, std::string_view purpose) { Take(number, purpose); }};

  void Take(std::uint64_t number, std::string_view purpose) {
    if (purpose == "unwanted") return;
    const auto say = [this, number](const std::string& what) { said.push_back(std::to_string(number) + ": " + what); };
    say(std::string(purpose));
    agent.Accept(number, {[say](std::string_view bytes) { say(std::string(bytes)); },
                          {},
                          [say] { say("end"); },
                          [say](const std::string& why) { say("closed " + why); }});
  }
  Status Carry() {
    while (!to_agent.empty() || !to_controller.empty()) {
      for (auto* queue : {&to_agent, &to_controller}) {
        if (queue->empty()) continue;
        const std::string message = std::move(queue->front());
        queue->pop_front();
        DIVVY_CHECK((queue == &to_agent ? agent : controller).OnMessage(message));
      }
    }
    return {};
  }
};

TEST(Channels, CarryBytesBothWaysUntilBothHaveEnded) {
  Pair pair;
  std::string got;
  bool is_over = false;
  const auto number = pair.controller.Open(
      "x", {[&](std::string_view bytes) { got += bytes; }, {}, {}, [&](const std::string&) { is_over = true; }});
  ASSERT_TRUE(number);
  pair.controller.Send(*number, "abc");
  pair.controller.End(*number);
  ASSERT_TRUE(pair.Carry());
  EXPECT_EQ(pair.said, (std::vector<std::string>{"2: x", "2: abc", "2: end"}));
  pair.agent.Send(*number, "def");
  pair.agent.End(*number);
  ASSERT_TRUE(pair.Carry());
  EXPECT_EQ(got, "def");
  EXPECT_TRUE(is_over);
  EXPECT_EQ(pair.controller.size() + pair.agent.size(), 0u);
}

TEST(Channels, AChannelWithoutAReaderSendsOneWindowAndOthersContinue) {
  Pair pair;
  int rooms = 0;
  const auto stalled = pair.controller.Open("a", {{}, [&] { ++rooms; }, {}, {}});
  const auto other = pair.controller.Open("b", {});
  pair.controller.Send(*stalled, std::string(Channels::kWindow + 1, 'x'));
  EXPECT_EQ(pair.controller.room(*stalled), 0u);
  pair.controller.Send(*stalled, "more");
  pair.controller.Send(*other, "goes on");
  ASSERT_TRUE(pair.Carry());
  EXPECT_EQ(pair.said.back(), "4: goes on");
  EXPECT_EQ(pair.said[2].size(), Channels::kWindow + 3);
  EXPECT_EQ(rooms, 0);
  pair.agent.Consumed(*stalled, Channels::kWindow);
  ASSERT_TRUE(pair.Carry());
  EXPECT_EQ(rooms, 1);
  EXPECT_EQ(pair.controller.room(*stalled), Channels::kWindow);
}

TEST(Channels, AResetHasAReasonAndDataInTransitIsNoError) {
  Pair pair;
  std::optional<std::string> why;
  const auto number = pair.controller.Open("x", {{}, {}, {}, [&](const std::string& text) { why = text; }});
  ASSERT_TRUE(pair.Carry());
  pair.controller.Send(*number, "late");
  pair.agent.Reset(*number, "no such job");
  ASSERT_TRUE(pair.Carry());
  EXPECT_EQ(why, "no such job");
  pair.controller.Send(*number, "later");
  EXPECT_TRUE(pair.to_agent.empty());
}

TEST(Channels, AnUnacceptedChannelIsReset) {
  Pair pair;
  std::optional<std::string> why;
  ASSERT_TRUE(pair.controller.Open("unwanted", {{}, {}, {}, [&](const std::string& text) { why = text; }}));
  ASSERT_TRUE(pair.Carry());
  EXPECT_EQ(why, "this stream is not accepted");
}

TEST(Channels, TheEndOfTheSessionClosesAllChannels) {
  Pair pair;
  ASSERT_TRUE(pair.controller.Open("x", {}));
  ASSERT_TRUE(pair.Carry());
  pair.agent.Clear("the session is over");
  EXPECT_EQ(pair.said.back(), "2: closed the session is over");
}

TEST(Channels, TheLimitIsEnforcedAtBothEnds) {
  Pair pair;
  for (std::size_t i = 0; i < Channels::kMost; ++i) ASSERT_TRUE(pair.controller.Open("x", {}));
  EXPECT_FALSE(pair.controller.Open("x", {}));
  ASSERT_TRUE(pair.Carry());
  // A peer that ignores the limit gets a reset, and takes no place of other channels.
  std::string message = std::string{Channels::kMark, 'o'};
  AppendNumber(message, 4 * Channels::kMost);
  ASSERT_TRUE(pair.agent.OnMessage(message + "x"));
  EXPECT_EQ(pair.agent.size(), Channels::kMost);
  EXPECT_TRUE(pair.to_controller.back().ends_with("streams are open already"));
}

TEST(Channels, RefuseInvalidMessages) {
  const auto message = [](char what, std::uint64_t number, const std::string& rest) {
    std::string text = {Channels::kMark, what};
    AppendNumber(text, number);
    return text + rest;
  };
  std::string much;
  AppendNumber(much, 1);
  for (const std::string& text :
       {std::string("\x01"), std::string("\x01") + "d123", message('d', 8, "x"), message('x', 2, ""),
        message('o', 3, "x"), message('o', 2, "x"), message('o', 0, "x"),
        message('o', 6, std::string(Channels::kPurposeBytes + 1, 'x')),
        message('d', 2, std::string(Channels::kWindow + 1, 'x')), message('c', 2, much), message('c', 2, "1")}) {
    Pair pair;
    ASSERT_TRUE(pair.agent.OnMessage(message('o', 2, "x")));
    EXPECT_FALSE(pair.agent.OnMessage(text)) << text.substr(0, 20);
  }
  Pair pair;
  ASSERT_TRUE(pair.agent.OnMessage(message('o', 2, "x")));
  ASSERT_TRUE(pair.agent.OnMessage(message('e', 2, "")));
  EXPECT_FALSE(pair.agent.OnMessage(message('d', 2, "x"))) << "behind its end";
}

}  // namespace channels_test
}  // namespace divvy
