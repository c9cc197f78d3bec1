#include "platform/supervisor/output_holder.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "platform/os/unix_socket.h"

namespace divvy {
namespace output_holder_test {

/// A job that writes, an agent that reads, and a supervisor that also holds the read ends.
class OutputHolder : public testing::Test {
 protected:
  OutputHolder() {
    ::signal(SIGPIPE, SIG_IGN);
    for (std::size_t i = 0; i < 2; ++i) {
      int ends[2];
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      agents_[i].Reset(ends[0]);
      jobs_[i].Reset(ends[1]);
    }
    auto [ours, theirs] = MakeSocketPair();
    agents_life_ = std::move(ours);
    held_.Hold(Copy(agents_[0]), Copy(agents_[1]), ForeignDescriptor(theirs.Release()), [this]() -> Result<Descriptor> {
      if (!has_log_) return Internal("no room");
      int ends[2];
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
      log_.Reset(ends[0]);
      return Descriptor(ends[1]);
    });
  }
  static ForeignDescriptor Copy(const Descriptor& one) {
    return ForeignDescriptor(::fcntl(one.get(), F_DUPFD_CLOEXEC, 3));
  }
  bool Writes(std::size_t output, const std::string& text) {
    return ::write(jobs_[output].get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  static std::string Read(const Descriptor& from) {
    char buffer[256];
    const ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    return {buffer, static_cast<std::size_t>(got > 0 ? got : 0)};
  }
  void Turn() {
    while (true) {
      std::vector<pollfd> polled;
      held_.Watch(polled);
      if (polled.empty() || ::poll(polled.data(), polled.size(), 0) <= 0) return;
      held_.OnPolled(polled);
    }
  }
  void KillAgent() {
    for (Descriptor& one : agents_) one.Reset();
    agents_life_.Reset();
  }

  bool has_log_ = true;
  Descriptor agents_[2], jobs_[2], agents_life_, log_;
  HeldOutputs held_;
};

TEST_F(OutputHolder, OnlyTheAgentReadsTheOutputWhileItLives) {
  EXPECT_TRUE(Writes(0, "out"));
  Turn();
  EXPECT_EQ(Read(agents_[0]), "out");
  EXPECT_FALSE(log_.is_open());
}

TEST_F(OutputHolder, OutputThatAKilledAgentDidNotReadAndAllLaterOutputGoToTheLog) {
  EXPECT_TRUE(Writes(0, "before "));
  KillAgent();
  Turn();
  EXPECT_TRUE(Writes(0, "out "));
  Turn();
  EXPECT_TRUE(Writes(1, "err "));
  Turn();
  EXPECT_EQ(Read(log_), "before out err ");
  EXPECT_TRUE(Writes(1, "last"));
  held_.Finish();
  EXPECT_EQ(Read(log_), "last");
  EXPECT_FALSE(Writes(0, "x"));
}

TEST_F(OutputHolder, AReleasedOutputIsClosed) {
  const char word = HeldOutputs::LetGoWord(1);
  ASSERT_EQ(::write(agents_life_.get(), &word, 1), 1);
  agents_[0].Reset();
  Turn();
  EXPECT_FALSE(Writes(0, "x")) << "somebody reads it yet";
  EXPECT_TRUE(Writes(1, "err"));
  KillAgent();
  Turn();
  EXPECT_EQ(Read(log_), "err");
}

TEST_F(OutputHolder, IfTheAgentDiesAtTheJobsEndTheRestGoesToTheLog) {
  EXPECT_TRUE(Writes(1, "last words"));
  KillAgent();
  held_.Finish();
  EXPECT_EQ(Read(log_), "last words");
}

TEST_F(OutputHolder, WithoutALogTheOutputsAreClosed) {
  has_log_ = false;
  KillAgent();
  Turn();
  EXPECT_FALSE(Writes(0, "x"));
}

}  // namespace output_holder_test
}  // namespace divvy
