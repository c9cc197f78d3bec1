#include "daemon/providers/provider_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <boost/asio/posix/stream_descriptor.hpp>

namespace divvy {
namespace {

// A folder with a program in the place of divvy that runs its last arguments without a guard.
class ProviderPrograms : public testing::Test {
 protected:
  ProviderPrograms() {
    char name[] = "/tmp/divvy-provider-XXXXXX";
    folder_ = ::mkdtemp(name);
    const std::string path = folder_ + "/divvy";
    std::ofstream(path) << "#!/bin/sh\nshift 3\nexec \"$@\"\n";
    ::chmod(path.c_str(), 0700);
  }
  ~ProviderPrograms() override { static_cast<void>(!::system(("rm -rf " + folder_).c_str())); }

  Result<std::string> Run(const std::string& script, std::string input = {}) {
    boost::asio::io_context loop;
    ProviderRunner runner(loop, folder_ + "/divvy");
    ProviderProgram program;
    program.words = {"/bin/sh", "-c", script};
    program.environment = {"PATH=/usr/bin:/bin", "GIVEN=yes"};
    program.input = std::move(input);
    program.timeout = std::chrono::seconds(60);
    Result<std::string> result = Internal("not called");
    int calls = 0;
    runner.Run(program, [&](const Result<std::string>& output) {
      result = output;
      ++calls;
    });
    loop.run();
    EXPECT_EQ(calls, 1);
    return result;
  }
  static std::string ErrorOf(const Result<std::string>& result) { return result ? "" : result.error().message; }

  std::string folder_;
};

TEST_F(ProviderPrograms, GetTheirInputAndOnlyTheirEnvironment) {
  EXPECT_EQ(Run("cat; cat /dev/stdin").value(), "");
  const std::string large(300'000, 'x');
  EXPECT_EQ(Run("cat", large).value(), large);
  ::setenv("DIVVY_SECRET_OF_THE_DAEMON", "secret", 1);
  const std::string environment = Run("env").value();
  EXPECT_NE(environment.find("GIVEN=yes"), std::string::npos);
  EXPECT_EQ(environment.find("secret"), std::string::npos);
}

TEST_F(ProviderPrograms, FailuresNameTheCodeAndTheFirstComplaint) {
  EXPECT_EQ(ErrorOf(Run("echo no quota >&2; echo more >&2; exit 3")), "it failed with exit code 3: no quota");
  EXPECT_EQ(ErrorOf(Run("kill -9 $$")), "it failed with exit code 137");
  EXPECT_EQ(ErrorOf(Run("exit 124")), "it did not end within 60 s and was killed");
}

TEST_F(ProviderPrograms, TooMuchOutputIsAnError) {
  EXPECT_EQ(ErrorOf(Run("head -c 100000000 /dev/zero")), "it printed more than 1 MiB");
  // Complaints are cut.
  EXPECT_EQ(Run("head -c 10000000 /dev/zero >&2; echo good").value(), "good\n");
}

TEST_F(ProviderPrograms, AreNotAwaitedByProcessesThatTheyLeaveBehind) {
  EXPECT_EQ(Run("setsid sleep 300 & echo $! >" + folder_ + "/pid; echo done").value(), "done\n");
  pid_t pid = 0;
  std::ifstream(folder_ + "/pid") >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_EQ(::kill(pid, SIGKILL), 0);
}

TEST_F(ProviderPrograms, CanDieOfABrokenPipe) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(ErrorOf(Run("kill -PIPE $$; echo survives")), "it failed with exit code 141");
  std::signal(SIGPIPE, before);
}

TEST_F(ProviderPrograms, AnErrorWhenNoDescriptorIsLeftToWatchOneEndsNothingElse) {
  boost::asio::io_context loop;
  ProviderRunner runner(loop, folder_ + "/divvy");
  ProviderProgram program;
  program.words = {"/bin/sleep", "300"};
  program.timeout = std::chrono::seconds(60);
  const boost::asio::posix::stream_descriptor first(loop);  // The loop takes its own descriptors now.
  // The input and two pipes take five descriptors; the sixth would watch the process.
  std::array<int, 6> next{};
  for (int& fd : next) ASSERT_GE(fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  for (const int fd : next) ::close(fd);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{static_cast<rlim_t>(*std::ranges::max_element(next)), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<std::string> errors;
  runner.Run(program, [&](const Result<std::string>& output) { errors.push_back(ErrorOf(output)); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  loop.run();
  EXPECT_EQ(errors, std::vector<std::string>{"cannot watch /bin/sleep: no descriptor or memory is left"});
  // It was killed and reaped.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

// Runs the guard in a child process; returns its exit code.
int Guard(const std::string& script, const std::string& seconds, const std::string& parent) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ProviderMain({parent, seconds, "/bin/sh", "-c", script}));
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
std::string Own() { return std::to_string(::getpid()); }

TEST(ProviderGuard, PassesTheExitCodeOn) {
  EXPECT_EQ(Guard("exit 5", "60", Own()), 5);
  EXPECT_EQ(Guard("kill -9 $$", "60", Own()), 137);
}

TEST(ProviderGuard, KillsTheWholeGroupAtTheDeadline) {
  char name[] = "/tmp/divvy-guard-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  EXPECT_EQ(Guard("sleep 300 & echo $! >" + folder + "/pid; wait", "1", Own()), 124);
  pid_t pid = 0;
  std::ifstream(folder + "/pid") >> pid;
  ASSERT_GT(pid, 0);
  // Killed; whoever inherits it may not have reaped it yet.
  std::string state;
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  for (int i = 0; i < 3 && stat; ++i) stat >> state;
  EXPECT_TRUE(!stat || state == "Z" || state == "X") << state;
  static_cast<void>(!::system(("rm -rf " + folder).c_str()));
}

TEST(ProviderGuard, AProgramDoesNotOutliveAGuardThatIsKilled) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string script = "echo >&" + std::to_string(ends[1]) + "; exec sleep 300";
  const std::string parent = Own();
  const pid_t guard = ::fork();
  if (guard == 0) ::_exit(ProviderMain({parent, "60", "/bin/sh", "-c", script}));
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  ::kill(guard, SIGKILL);
  ::waitpid(guard, nullptr, 0);
  // The pipe ends when nobody has it open.
  pollfd ended{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 30'000), 1);
  ::close(ends[0]);
}

TEST(ProviderGuard, StartsNothingForADaemonThatIsGone) { EXPECT_EQ(Guard("exit 0", "60", "1"), 124); }

}  // namespace
}  // namespace divvy
