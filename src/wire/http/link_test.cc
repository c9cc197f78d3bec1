#include "wire/http/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace divvy {
namespace link_test {

/// Two ends and the connection between them, which a test can cut at any point.
struct Pair {
  Link ends[2];
  std::string wire[2];  // Sent by end i.
  std::vector<std::string> got[2];

  void Connect() {
    Cut();
    ASSERT_TRUE(ends[0].Attach(ends[1].received()));
    ASSERT_TRUE(ends[1].Attach(ends[0].received()));
  }
  void Cut() {
    for (int i = 0; i < 2; ++i) {
      ends[i].Detach();
      wire[i].clear();  // The tail is lost.
      readers[i] = FrameReader();
    }
  }
  void Write(int end, std::size_t most) { ends[end].Output(wire[end], most); }
  /// Delivers this many bytes of what `end` wrote.
  void Carry(int end, std::size_t bytes) {
    const std::string piece = wire[end].substr(0, bytes);
    wire[end].erase(0, piece.size());
    FrameReader& reader = readers[1 - end];
    reader.Feed(piece);
    while (true) {
      auto frame = reader.Next();
      ASSERT_TRUE(frame) << frame.error().message;
      if (!*frame) return;
      auto message = ends[1 - end].OnFrame(**std::move(frame));
      ASSERT_TRUE(message) << message.error().message;
      if (*message) got[1 - end].push_back(**std::move(message));
    }
  }
  void Settle() {
    while (ends[0].has_output() || ends[1].has_output() || !wire[0].empty() || !wire[1].empty()) {
      for (int end = 0; end < 2; ++end) {
        Write(end, 1 << 20);
        Carry(end, wire[end].size());
      }
    }
  }

  FrameReader readers[2];
};

TEST(Link, DeliversOnceAndInOrderWhereverItIsCut) {
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return random() % n; };
    Pair pair;
    std::vector<std::string> sent[2];
    pair.Connect();
    for (int step = 0; step < 1500; ++step) {
      const int end = static_cast<int>(below(2));
      switch (below(8)) {
        case 0:
        case 1: {
          std::string message = std::to_string(end) + ":" + std::to_string(sent[end].size());
          message.resize(message.size() + below(400), '.');
          ASSERT_TRUE(pair.ends[end].Send(message));
          sent[end].push_back(message);
          break;
        }
        case 2:
        case 3:
          pair.Write(end, pair.wire[end].size() + below(600));
          break;
        case 4:
        case 5:
        case 6:
          pair.Carry(end, below(900));
          break;
        default:
          if (below(10) == 0) pair.Cut();
          if (!pair.ends[0].is_attached() && below(2) == 0) pair.Connect();
      }
      if (testing::Test::HasFatalFailure()) return;
      for (int i = 0; i < 2; ++i) {
        ASSERT_LE(pair.got[i].size(), sent[1 - i].size());
        ASSERT_TRUE(std::equal(pair.got[i].begin(), pair.got[i].end(), sent[1 - i].begin()));
      }
    }
    pair.Connect();
    pair.Settle();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair.got[i], sent[1 - i]);
      EXPECT_EQ(pair.ends[i].unacknowledged(), 0u);
    }
  }
}

TEST(Link, FramesOfAnOldConnectionAreDroppedIfTheyAlreadyArrived) {
  Pair pair;
  pair.Connect();
  ASSERT_TRUE(pair.ends[0].Send("one"));
  ASSERT_TRUE(pair.ends[0].Send("two"));
  pair.Write(0, 1 << 20);
  const std::string late = pair.wire[0];
  pair.Settle();
  pair.Cut();
  pair.Connect();
  pair.wire[0] = late;  // Bytes of an old connection that arrive late.
  pair.Settle();
  EXPECT_EQ(pair.got[1], (std::vector<std::string>{"one", "two"}));
}

TEST(Link, AGapInTheNumbersEndsTheConnection) {
  Pair pair;
  pair.Connect();
  for (const char* word : {"one", "two", "three"}) ASSERT_TRUE(pair.ends[0].Send(word));
  pair.Write(0, 1 << 20);
  FrameReader reader;
  reader.Feed(pair.wire[0]);
  static_cast<void>(reader.Next());
  const auto second = pair.ends[1].OnFrame(**reader.Next());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "message 2 arrived, but 1 is the next");
}

TEST(Link, APeerThatAcknowledgesUnsentMessagesIsOfAnotherSession) {
  Link link;
  ASSERT_TRUE(link.Send("one"));
  EXPECT_EQ(link.Attach(2).error().code, ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(link.Attach(1));
  EXPECT_EQ(link.unacknowledged(), 0u);
  EXPECT_EQ(link.Attach(0).error().code, ErrorCode::kFailedPrecondition);  // No longer kept.
  Frame ack{FrameKind::kAck, ""};
  AppendNumber(ack.payload, 9);
  EXPECT_FALSE(link.OnFrame(ack));
}

TEST(Link, BuffersALimitedAmountWhileThePeerReadsNothing) {
  Link link(LinkLimits{.messages = 3, .bytes = 1000, .message_bytes = 900});
  EXPECT_EQ(link.Send(std::string(901, 'x')).error().code, ErrorCode::kLimitExceeded);
  ASSERT_TRUE(link.Send(std::string(900, 'x')));
  ASSERT_TRUE(link.Send(std::string(200, 'x')));
  EXPECT_FALSE(link.has_room());
  const Status full = link.Send("y");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message, "the peer has not acknowledged 2 messages of 1100 bytes, which is the limit");
  EXPECT_EQ(link.last_sent(), 2u);
  ASSERT_TRUE(link.Attach(1));
  EXPECT_TRUE(link.Send("y"));
}

TEST(Link, OutputTakesNoMoreThanRequested) {
  Pair pair;
  pair.Connect();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.ends[0].Send(std::to_string(i) + std::string(100, 'x')));
  pair.Write(0, 1000);
  EXPECT_LT(pair.wire[0].size(), 1200u);
  EXPECT_TRUE(pair.ends[0].has_output());
  pair.Settle();
  EXPECT_EQ(pair.got[1].size(), 100u);
}

}  // namespace link_test
}  // namespace divvy
