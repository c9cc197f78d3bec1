// A bridge that outlives its sessions: bytes that were in transit when a session ended are sent again in the next one.
#include "daemon/runtime/fd_bridge.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <deque>
#include <random>
#include <string>

#include "platform/os/unix_socket.h"

namespace divvy {
namespace fd_bridge_test {

const std::string kOver = "the session is over";

/// The two ends of one session; messages wait in between until they are carried.
struct Session {
  explicit Session(Channels::OnOpen on_open)
      : near(
            Channels::Side::kController, [this](std::string text) { to_far.push_back(std::move(text)); }, nullptr),
        far(
            Channels::Side::kAgent, [this](std::string text) { to_near.push_back(std::move(text)); },
            std::move(on_open)) {}
  bool Carry(bool is_forth) {
    std::deque<std::string>& way = is_forth ? to_far : to_near;
    if (way.empty()) return false;
    const std::string text = std::move(way.front());
    way.pop_front();
    EXPECT_TRUE((is_forth ? far : near).OnMessage(text));
    return true;
  }
  std::deque<std::string> to_far, to_near;
  Channels near, far;
};

std::string SomeText(std::mt19937& random, std::size_t size) {
  std::string text(size, 0);
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

class OutlivingBridge : public testing::TestWithParam<unsigned> {
 protected:
  void MakePipe(Descriptor& read_end, Descriptor& write_end) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read_end.Reset(ends[0]);
    write_end.Reset(ends[1]);
  }
  void Begin(const std::shared_ptr<FdBridge>& bridge, std::uint64_t received, Channels::Listener listener) {
    session_ = std::make_unique<Session>([&, this](std::uint64_t number, std::string_view) {
      is_joined_ = bridge->Rejoin(session_->far, number, received, first_);
      if (!is_joined_) session_->far.Reset(number, "gone");
    });
    number_ = *session_->near.Open("stream", std::move(listener));
    while (session_->Carry(true)) {
    }
  }
  void Turn() {
    loop_.restart();
    loop_.poll();
  }

  boost::asio::io_context loop_;
  std::unique_ptr<Session> session_;
  std::uint64_t number_ = 0;
  std::string first_;
  bool is_joined_ = false;
};

TEST_P(OutlivingBridge, AllOutputArrivesOnce) {
  std::mt19937 random(GetParam());
  const std::string text = SomeText(random, 700'000);
  Descriptor theirs, ours;
  MakePipe(ours, theirs);
  const auto bridge = FdBridge::Make(loop_, std::move(ours), Descriptor());
  int parted = 0, sessions = 0;
  bool is_over = false;
  bridge->OutliveSession(kOver, [&] { ++parted; });
  bridge->OnOver([&](const std::string&) { is_over = true; });
  std::string came;
  std::size_t unconsumed = 0, written = 0;
  const auto begin = [&] {
    Channels::Listener listener;
    listener.on_bytes = [&](std::string_view bytes) {
      came += bytes;
      unconsumed += bytes.size();
    };
    unconsumed = 0;
    ++sessions;
    Begin(bridge, came.size(), std::move(listener));
    ASSERT_TRUE(is_joined_);
    session_->near.End(number_);
  };
  begin();
  for (int step = 0; !is_over && step < 200'000; ++step) {
    switch (random() % 8) {
      case 0:
      case 1:
        if (written < text.size()) {
          const ssize_t put = ::write(theirs.get(), text.data() + written,
                                      std::min<std::size_t>(text.size() - written, random() % 30'000));
          if (put > 0) written += static_cast<std::size_t>(put);
        } else {
          theirs.Reset();
        }
        break;
      case 2:
        session_->near.Consumed(number_, unconsumed);
        unconsumed = 0;
        break;
      case 3:
        if (random() % 40 == 0) {
          session_->far.Clear(kOver);
          begin();
        }
        break;
      case 4:
        session_->Carry(true);
        break;
      case 5:
        session_->Carry(false);
        break;
      default:
        Turn();
    }
  }
  EXPECT_TRUE(is_over);
  EXPECT_EQ(parted, sessions - 1);
  // The last pieces may still be in transit.
  while (session_->Carry(false)) {
  }
  EXPECT_TRUE(came == text) << came.size();
}

TEST_P(OutlivingBridge, AllInputArrivesOnce) {
  std::mt19937 random(GetParam());
  const std::string text = SomeText(random, 300'000);
  Descriptor theirs, ours;
  MakePipe(theirs, ours);
  const auto bridge = FdBridge::Make(loop_, Descriptor(), std::move(ours));
  bool is_over = false;
  bridge->OutliveSession(kOver, [] {});
  bridge->OnOver([&](const std::string&) { is_over = true; });
  std::size_t sent = 0;
  std::string said, came;
  const auto begin = [&] {
    said.clear();
    first_ = std::to_string(bridge->brought()) + "\n";
    Channels::Listener listener;
    listener.on_bytes = [&](std::string_view bytes) {
      said += bytes;
      sent = std::stoul(said);  // It arrives in one piece.
      session_->near.Consumed(number_, bytes.size());
    };
    Begin(bridge, 0, std::move(listener));
  };
  begin();
  bool is_at_end = false;
  for (int step = 0; !is_over && step < 200'000; ++step) {
    switch (random() % 6) {
      case 0:
        if (said.empty()) break;
        if (sent < text.size()) {
          const std::size_t most =
              std::min({text.size() - sent, session_->near.room(number_), std::size_t{random() % 20'000}});
          session_->near.Send(number_, std::string_view(text).substr(sent, most));
          sent += most;
        } else if (random() % 10 == 0) {
          session_->near.End(number_);
        }
        break;
      case 1:
        if (random() % 40 == 0 && !is_over) {
          session_->far.Clear(kOver);
          if (!is_over) begin();
        }
        break;
      case 2: {
        char block[20'000];
        const ssize_t got = ::read(theirs.get(), block, random() % sizeof block + 1);
        if (got > 0) came.append(block, static_cast<std::size_t>(got));
        is_at_end = is_at_end || got == 0;
        break;
      }
      case 3:
        session_->Carry(true);
        break;
      case 4:
        session_->Carry(false);
        break;
      default:
        Turn();
    }
  }
  EXPECT_TRUE(is_over);
  char block[20'000];
  for (ssize_t got = 0; !is_at_end;) {
    Turn();
    got = ::read(theirs.get(), block, sizeof block);
    if (got > 0) came.append(block, static_cast<std::size_t>(got));
    is_at_end = got == 0;
  }
  EXPECT_TRUE(came == text) << came.size();
}

INSTANTIATE_TEST_SUITE_P(Seeds, OutlivingBridge, testing::Range(1U, 21U));

TEST_F(OutlivingBridge, AStreamWhoseBufferWasDroppedCannotBeRejoined) {
  Descriptor theirs, ours;
  MakePipe(ours, theirs);
  const auto bridge = FdBridge::Make(loop_, std::move(ours), Descriptor());
  bridge->OutliveSession(kOver, [] {});
  Begin(bridge, 1, {});
  EXPECT_FALSE(is_joined_) << "from a byte that was never read";
  Begin(bridge, 0, {});
  EXPECT_TRUE(is_joined_);
  ASSERT_EQ(::write(theirs.get(), "abc", 3), 3);
  Turn();
  while (session_->Carry(false) || session_->Carry(true)) {
  }
  session_->far.Clear(kOver);
  Begin(bridge, 0, {});
  EXPECT_FALSE(is_joined_) << "these were confirmed";
  Begin(bridge, 3, {});
  EXPECT_TRUE(is_joined_);
}

TEST(SocketBridge, DataSentBeforeTheEndArrivesThoughTheOtherDirectionIsClosed) {
  boost::asio::io_context loop;
  auto [ours, theirs] = MakeSocketPair();
  const auto bridge = FdBridge::OfSocket(loop, std::move(ours));
  ASSERT_TRUE(bridge);
  std::unique_ptr<Session> session;
  session = std::make_unique<Session>(
      [&](std::uint64_t number, std::string_view) { (*bridge)->Accept(session->far, number); });
  std::string heard;
  Channels::Listener listener;
  listener.on_bytes = [&](std::string_view bytes) { heard += bytes; };
  listener.on_room = [] {};
  listener.on_end = [&] { heard += "."; };
  listener.on_closed = [&](const std::string& why) { heard += "(" + why + ")"; };
  const auto number = session->near.Open("step", std::move(listener));
  ASSERT_TRUE(number);
  while (session->Carry(true)) {
  }
  EXPECT_EQ(::send(theirs.get(), "said", 4, 0), 4);
  theirs.Reset();
  session->near.Send(*number, "typed");
  while (session->Carry(true)) {
  }
  for (int turn = 0; turn < 4; ++turn) {
    loop.restart();
    loop.poll();
    while (session->Carry(false)) {
    }
  }
  EXPECT_EQ(heard, "said.");
}

TEST_F(OutlivingBridge, GivingUpClosesBothEnds) {
  Descriptor theirs, ours, their_input, our_input;
  MakePipe(ours, theirs);
  MakePipe(their_input, our_input);
  const auto output = FdBridge::Make(loop_, std::move(ours), Descriptor());
  const auto input = FdBridge::Make(loop_, Descriptor(), std::move(our_input));
  int over = 0;
  for (const auto& bridge : {output, input}) {
    bridge->OutliveSession(kOver, [] {});
    bridge->OnOver([&](const std::string&) { ++over; });
    Begin(bridge, 0, {});
    session_->far.Clear(kOver);
  }
  char byte = 0;
  EXPECT_EQ(::read(their_input.get(), &byte, 1), -1) << "it is held on to";
  for (const auto& bridge : {output, input}) bridge->GiveUp(kOver);
  EXPECT_EQ(over, 2);
  EXPECT_EQ(::read(their_input.get(), &byte, 1), 0);
  ::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(::write(theirs.get(), "x", 1), -1);
}

}  // namespace fd_bridge_test
}  // namespace divvy
