#include "cli/client/start.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace divvy::cli {
namespace start_test {

TEST(AwaitEnd, AProcessThatItsParentHasNotNoticedHasEnded) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(3);
  siginfo_t ended = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const auto begin = std::chrono::steady_clock::now();
  AwaitEnd(child);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(::kill(child, 0), 0) << "still there for its parent";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  AwaitEnd(child);
}

}  // namespace start_test
}  // namespace divvy::cli
