#include "platform/os/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace spawn_test {

struct Said {
  std::string text;
  int exit_code = -1;
};

/// Runs `/bin/sh -c script`; returns its output and how it ended. Call it once per `spawn`, because it gives it a pipe.
Said Hear(Spawn& spawn, const std::string& script, const std::vector<std::string>* environment = nullptr) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Descriptor ours(ends[0]), theirs(ends[1]);
  spawn.Give(1, theirs.get()).CloseRest();
  const std::vector<std::string> words = {"sh", "-c", script};
  const auto pid = environment == nullptr ? spawn.Start("/bin/sh", words) : spawn.Start("/bin/sh", words, *environment);
  theirs.Reset();
  Said said;
  if (!pid) return said;
  char piece[512];
  for (ssize_t count; (count = ::read(ours.get(), piece, sizeof piece)) > 0;)
    said.text.append(piece, static_cast<std::size_t>(count));
  int status = 0;
  EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return said;
}

TEST(Spawn, TheChildHasItsOwnProcessGroupOrSession) {
  Spawn in_group(Spawn::Apart::kGroup), in_session(Spawn::Apart::kSession);
  const std::string own = std::to_string(::getsid(0));
  // Fields 5 and 6 of the stat file are the process group and the session; the name before them has no space here.
  const std::string script =
      "read -r pid name state parent group session rest < /proc/$$/stat; echo $((pid == group)) $session";
  EXPECT_EQ(Hear(in_group, script).text, "1 " + own + "\n");
  const Said said = Hear(in_session, script);
  EXPECT_TRUE(said.text.starts_with("1 ")) << said.text;
  EXPECT_NE(said.text, "1 " + own + "\n");
}

TEST(Spawn, TheChildInheritsOnlyTheGivenDescriptors) {
  Spawn spawn(Spawn::Apart::kGroup);
  const Descriptor kept(::open("/dev/null", O_RDONLY));  // Not closed by exec; the child must not have it.
  spawn.OpenNull(0).OpenNull(2);
  EXPECT_EQ(Hear(spawn, "cat; cd /proc/$$/fd; for fd in [0-9] [0-9][0-9]; do [ -e $fd ] && echo $fd; done").text,
            "0\n1\n2\n");
}

TEST(Spawn, TheChildBlocksAndIgnoresNoSignal) {
  sigset_t usr1, before;
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &usr1, &before), 0);
  const auto pipe = std::signal(SIGPIPE, SIG_IGN);
  Spawn masked(Spawn::Apart::kGroup), ignoring(Spawn::Apart::kGroup), reset(Spawn::Apart::kGroup);
  EXPECT_EQ(Hear(masked, "kill -USR1 $$; echo on").exit_code, -SIGUSR1);
  EXPECT_EQ(Hear(ignoring, "kill -PIPE $$; echo on").text, "on\n") << "ignored here, so ignored there";
  EXPECT_EQ(Hear(reset.Reset(SIGPIPE), "kill -PIPE $$; echo on").exit_code, -SIGPIPE);
  std::signal(SIGPIPE, pipe);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Spawn, TheChildInheritsOrReplacesTheEnvironment) {
  ASSERT_EQ(::setenv("DIVVY_SPAWN_TEST", "ours", 1), 0);
  Spawn with_ours(Spawn::Apart::kGroup), with_own(Spawn::Apart::kGroup);
  EXPECT_EQ(Hear(with_ours, "echo \"$DIVVY_SPAWN_TEST\"").text, "ours\n");
  const std::vector<std::string> own = {"OTHER=theirs"};
  EXPECT_EQ(Hear(with_own, "echo \"$DIVVY_SPAWN_TEST$OTHER\"", &own).text, "theirs\n");
  ::unsetenv("DIVVY_SPAWN_TEST");
}

TEST(Spawn, AProgramThatCannotBeStartedIsAnError) {
  const auto pid = Spawn(Spawn::Apart::kSession).Start("/nowhere/program", {"program"});
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().message, "No such file or directory");
}

}  // namespace spawn_test
}  // namespace divvy
