// Tests the step process with real callers and real tasks.
#include "platform/steps/step_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/text.h"
#include "platform/os/process_tree.h"
#include "platform/os/unix_socket.h"
#include "platform/records/step_list_file.h"
#include "platform/steps/step_client.h"

extern char** environ;

namespace divvy {
namespace step_server_test {

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Indices(const std::vector<std::size_t>& gpus) {
  std::string out;
  for (const std::size_t gpu : gpus) out += (out.empty() ? "" : ",") + std::to_string(gpu);
  return out;
}

/// Arguments of a step: number of GPUs ("-": shares them), flags (i: immediate, k: kills on a bad exit, l: labels, t:
/// terminal, w: waits a second for the others), number of tasks, and a script that gets RANK and GPUS.
Result<StepPlan> PlanOf(StepCall& call) {
  if (call.words.size() != 5) return InvalidArgument("t: five words, please");
  const std::string flags = call.words[2];
  const auto has = [flags](char flag) { return flags.find(flag) != std::string::npos; };
  StepPlan plan;
  if (call.words[1] != "-") plan.need.gpus = static_cast<std::size_t>(ParseInteger(call.words[1]).value_or(0));
  plan.is_immediate = has('i');
  plan.kills_on_bad_exit = has('k');
  plan.has_terminal = has('t');
  plan.wait = has('w') ? Duration(std::chrono::milliseconds(50)) : Duration(0);
  plan.name = "17";
  plan.program = "t";
  plan.host = "box";
  plan.busy = "t: busy";
  plan.command = call.words[4];
  const auto tasks = static_cast<std::size_t>(ParseInteger(call.words[3]).value_or(1));
  plan.gpus_of = Indices;
  plan.make = [=, environment = call.environment, directory = call.directory, script = call.words[4]](
                  StepNumber, const std::vector<std::size_t>& gpus) -> Result<StepTasks> {
    StepTasks out;
    for (std::size_t rank = 0; rank < tasks; ++rank) {
      StepTask task;
      task.command = {"sh", "-c", script};
      task.environment = environment;
      task.environment.push_back("RANK=" + std::to_string(rank));
      task.environment.push_back("GPUS=" + Indices(gpus));
      task.directory = directory;
      if (has('l')) task.streams[1].kind = StepStream::Kind::kLabelled;
      out.tasks.push_back(std::move(task));
    }
    return out;
  };
  return plan;
}

class StepServerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-steps-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    Serve();
  }
  void TearDown() override {
    if (server_ > 0) ::kill(server_, SIGKILL);
    if (server_ > 0) ::waitpid(server_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

  std::string file() const { return folder_ / "17"; }

  void Serve() {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    server_ = ::fork();
    if (server_ == 0) {
      StepServerOptions options{.file = file(), .gpus = 2, .cores = 0, .planner = PlanOf};
      options.on_listening = [&](std::uint16_t) { static_cast<void>(!::write(ready[1], "y", 1)); };
      ::_exit(RunStepServer(std::move(options)));
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }

  /// Calls in a child with its output in `name`, because every command has its own process.
  pid_t Call(const std::string& name, const std::string& gpus, const std::string& flags, int tasks,
             const std::string& script) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::setpgid(0, 0);
    const int out = ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    static_cast<void>(!::chdir(folder_.c_str()));
    const std::string count = std::to_string(tasks);
    const std::array<const char*, 5> words = {"t", gpus.c_str(), flags.c_str(), count.c_str(), script.c_str()};
    const auto code = CallStep({StepSocketOf(file()), words, environ, "t", true});
    ::_exit(code.value_or(99));
  }
  static int End(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
  }
  static bool HasEnded(pid_t pid) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
  }
  int Run(const std::string& flags, int tasks, const std::string& script) {
    return End(Call("out", "-", flags, tasks, script));
  }
  std::string Out(const std::string& name = "out") const { return Slurp(folder_ / name); }

  void Await(const std::function<bool()>& condition) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "output so far: " << Out();
      ::poll(nullptr, 0, 2);
    }
  }
  void AwaitText(const std::string& name, const std::string& text) const {
    Await([&] { return Out(name).find(text) != std::string::npos; });
  }

  std::filesystem::path folder_;
  pid_t server_ = -1;
};

TEST_F(StepServerTest, TheHighestExitCodeCountsAndFailuresAreReported) {
  EXPECT_EQ(Run("", 3, "exit $RANK"), 2);
  EXPECT_EQ(Out(), "t: error: box: task 1: Exited with exit code 1\nt: error: box: task 2: Exited with exit code 2\n");
  EXPECT_EQ(Run("", 1, "kill -9 $$"), 137);
  EXPECT_EQ(Run("", 2, "true"), 0);
}

TEST_F(StepServerTest, RefusalsOfThePlannerAreReported) {
  EXPECT_EQ(End(Call("out", "3", "", 1, "true")), 1);
  EXPECT_NE(Out().find("it asks for 3 GPUs, the job has "), std::string::npos);
}

TEST_F(StepServerTest, StepsQueueForExclusiveGpus) {
  const pid_t first = Call("a", "2", "", 1, "echo $GPUS; until [ -e go ]; do sleep 0.01; done");
  AwaitText("a", "0,1");
  const pid_t second = Call("b", "1", "", 1, "echo got $GPUS");
  AwaitText("b", "t: busy");
  EXPECT_EQ(End(Call("c", "1", "i", 1, "true")), 1);
  EXPECT_EQ(End(Call("d", "-", "", 1, "echo shares $GPUS")), 0) << "who shares does not wait";
  EXPECT_EQ(Out("b"), "t: busy\n");
  std::ofstream(folder_ / "go").put('y');
  EXPECT_EQ(End(first), 0);
  EXPECT_EQ(End(second), 0);
  EXPECT_EQ(Out("b"), "t: busy\ngot 0\n");
}

TEST_F(StepServerTest, ABadExitEndsTheOtherTasksOnRequest) {
  EXPECT_EQ(Run("k", 3, "test $RANK = 1 && exit 7; exec sleep 60"), 143);
  EXPECT_NE(Out().find("t: Terminating StepId=17.0"), std::string::npos);
  EXPECT_EQ(Run("w", 2, "test $RANK = 1 || exec sleep 60"), 143);
  EXPECT_NE(Out().find("First task exited"), std::string::npos);
}

TEST_F(StepServerTest, LabelsKeepLinesWhole) {
  EXPECT_EQ(Run("l", 2, "printf 'a\\nb'"), 0);
  std::vector<std::string> lines;
  const std::string text = Out();
  for (const std::string_view line : Split(text, '\n')) lines.emplace_back(line);
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"", "0: a", "0: b", "1: a", "1: b"}));
}

TEST_F(StepServerTest, ATaskMayHaveATerminal) {
  EXPECT_EQ(Run("t", 1, "test -t 0 && test -t 1 && echo terminal"), 0);
  EXPECT_EQ(Out(), "terminal\r\n");
}

TEST_F(StepServerTest, LimitsUmaskAndDirectoryAreTheCallers) {
  EXPECT_EQ(End(Call("out", "-", "", 1, "pwd; umask; ulimit -n; cat /proc/$$/stat | cut -d' ' -f5 | grep -c $$")), 0);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  char text[64];
  std::snprintf(text, sizeof text, "\n%04o\n%llu\n1\n", mask, static_cast<unsigned long long>(limit.rlim_cur));
  EXPECT_EQ(Out(), std::filesystem::canonical(folder_).string() + text) << "each task has a process group of its own";
}

TEST_F(StepServerTest, SignalsReachTheTasks) {
  const pid_t caller = Call("out", "-", "", 1, "trap 'exit 9' USR1; echo up; while :; do sleep 0.01; done");
  AwaitText("out", "up");
  ::kill(caller, SIGUSR1);
  EXPECT_EQ(End(caller), 9);
}

TEST_F(StepServerTest, OneInterruptPrintsTheTasksAndTwoEndThem) {
  const pid_t caller = Call("out", "-", "", 1, "echo up; exec sleep 60");
  AwaitText("out", "up");
  // An interrupt more than a second after the previous one counts as a first one.
  const auto answers = [&] { return std::ranges::count(Out(), '('); };
  while (!HasEnded(caller) && !HasFatalFailure()) {
    const auto before = answers();
    ::kill(caller, SIGINT);
    Await([&] { return answers() > before || HasEnded(caller); });
  }
  EXPECT_NE(Out().find("t: StepId=17.0 task 0: running"), std::string::npos) << Out();
  EXPECT_EQ(End(caller), 130);
}

TEST_F(StepServerTest, AStepWhoseCallerDisconnectsIsEnded) {
  const pid_t caller = Call("out", "2", "", 1, "echo up; exec sleep 60");
  AwaitText("out", "up");
  ::kill(caller, SIGKILL);
  EXPECT_EQ(End(caller), 256 + SIGKILL);
  EXPECT_EQ(End(Call("b", "2", "", 1, "echo next")), 0) << "its GPUs are free again";
}

TEST_F(StepServerTest, IfTheStepProcessDiesItsTasksEndAndAnotherTakesOver) {
  const pid_t caller = Call("out", "2", "", 1, "echo $$ >pid; echo up; exec sleep 60");
  AwaitText("out", "up");
  ::kill(server_, SIGKILL);
  ::waitpid(server_, nullptr, 0);
  EXPECT_EQ(End(caller), 1);
  const auto task = static_cast<pid_t>(ParseInteger(Trim(Slurp(folder_ / "pid"))).value_or(0));
  // The process that inherits the task may reap it late.
  Await([&] {
    const auto status = ReadProcessStat(task);
    return !status || status->state == 'Z';
  });
  Serve();
  EXPECT_EQ(End(Call("b", "2", "", 1, "true")), 0);
  const auto steps = ReadStepListFile(file());
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].code, 137);
  EXPECT_EQ(steps[1].number, 1u) << "numbers are not used again";
}

TEST_F(StepServerTest, TheServerExitsOnSigtermAfterItsLastStep) {
  const pid_t caller = Call("out", "-", "", 1, "echo up; until [ -e go ]; do sleep 0.01; done; exit 4");
  AwaitText("out", "up");
  ::kill(server_, SIGTERM);  // The signal that the whole job gets.
  std::ofstream(folder_ / "go").put('y');
  EXPECT_EQ(End(caller), 4) << "a step under way goes on";
  EXPECT_EQ(End(server_), 0);
  server_ = -1;
  EXPECT_EQ(Run("", 1, "true"), 99) << "nobody listens";
  EXPECT_FALSE(std::filesystem::exists(StepSocketOf(file())));
}

TEST_F(StepServerTest, OnlyOneServerRunsPerJob) {
  bool is_told = false;
  StepServerOptions options{.file = file(), .gpus = 2, .planner = PlanOf};
  options.on_listening = [&](std::uint16_t) { is_told = true; };
  EXPECT_EQ(RunStepServer(std::move(options)), 0);
  EXPECT_TRUE(is_told);
  EXPECT_EQ(Run("", 1, "true"), 0);
}

TEST_F(StepServerTest, AnyStepCanBeStoppedByItsNumber) {
  const pid_t caller = Call("out", "-", "", 1, "echo up; exec sleep 60");
  AwaitText("out", "up");
  EXPECT_EQ(ChangeStep(StepSocketOf(file()), {StepWord::kStop, 0, SIGTERM}), 0);
  EXPECT_EQ(End(caller), 143);
  EXPECT_EQ(ChangeStep(StepSocketOf(file()), {StepWord::kStop, 0, SIGTERM}), 1);
  EXPECT_EQ(ChangeStep(folder_ / "nobody.sock", {StepWord::kStop, 0, SIGTERM}), std::nullopt);
}

TEST_F(StepServerTest, AStepIsEndedAtItsTimeLimit) {
  const pid_t caller = Call("out", "-", "", 1, "echo up; exec sleep 60");
  AwaitText("out", "up");
  EXPECT_EQ(ChangeStep(StepSocketOf(file()), {StepWord::kLimit, 0, -1}), 1) << "no time limit";
  EXPECT_EQ(ChangeStep(StepSocketOf(file()), {StepWord::kLimit, 1, 1}), 1) << "no such step";
  EXPECT_EQ(ChangeStep(StepSocketOf(file()), {StepWord::kLimit, 0, 3600}), 0);
  EXPECT_EQ(ReadStepListFile(file()).at(0).time_limit, std::chrono::hours(1));
  EXPECT_EQ(ChangeStep(StepSocketOf(file()), {StepWord::kLimit, 0, 1}), 0);
  EXPECT_EQ(End(caller), 143);
  EXPECT_TRUE(ReadStepListFile(file()).at(0).was_cancelled);
}

/// Sends `text` as a caller; returns everything received until the end.
std::string Answer(const std::string& path, const std::string& text) {
  const auto address = MakeStepAddress(path);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(address->storage.data()),
                static_cast<socklen_t>(address->size)) != 0) {
    return "not let in";
  }
  static_cast<void>(SendWithDescriptors(socket.get(), text, {}, 0));
  std::string out;
  char buffer[256];
  ssize_t got = 0;
  while ((got = ::read(socket.get(), buffer, sizeof buffer)) > 0) out.append(buffer, static_cast<std::size_t>(got));
  return out;
}

TEST_F(StepServerTest, GarbageIsTolerated) {
  EXPECT_EQ(Answer(StepSocketOf(file()), std::string(64, 'x')), "");
  EXPECT_NE(Answer(StepSocketOf(file()), EncodeStepFrame(StepWord::kCall, 0, "short")).find("incomplete"),
            std::string::npos);
  EXPECT_EQ(Run("", 1, "true"), 0);
}

TEST_F(StepServerTest, ASilentCallerBlocksNoOther) {
  const auto address = MakeStepAddress(StepSocketOf(file()));
  const Descriptor silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(silent.get(), reinterpret_cast<const sockaddr*>(address->storage.data()),
                      static_cast<socklen_t>(address->size)),
            0);
  const pid_t caller = Call("out", "-", "", 1, "exit 3");
  Await([&] { return HasEnded(caller); });
  EXPECT_EQ(End(caller), 3);
}

TEST_F(StepServerTest, ACallOfAnotherUserIsIgnored) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  std::filesystem::permissions(StepSocketOf(file()), std::filesystem::perms::all);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setresuid(65'534, 65'534, 65'534) != 0) ::_exit(2);
    ::_exit(Answer(StepSocketOf(file()), EncodeStepFrame(StepWord::kStop, 0, "9")).empty() ? 0 : 1);
  }
  EXPECT_EQ(End(stranger), 0);
  EXPECT_EQ(Run("", 1, "true"), 0);
}

}  // namespace step_server_test
}  // namespace divvy
