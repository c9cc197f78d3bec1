// Tests a supervisor's life: ending jobs, limits, terminals, and the effect of each kill -9.
#include "platform/supervisor/supervisor.h"
#include "platform/os/pty.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "model/warn_time.h"
#include "platform/supervisor/launch_test_world.h"
#include "platform/supervisor/supervisor_adoption.h"

namespace divvy {
namespace supervisor_test {

using Supervise = LaunchTest;
using namespace std::chrono_literals;  // NOLINT

constexpr const char* kWaitForEver = "while :; do sleep 1000; done";

TEST_F(Supervise, ProcessesLeftByTheFirstProcessAreEnded) {
  // The second one has its own session and no parent, and ignores SIGTERM.
  LaunchRequest request = Shell(
      "(setsid sh -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 1000; done' &); sleep 1000 & echo $! > "
      "polite; "
      "while [ ! -s stubborn ]; do :; done; exit 3");
  const Exit exit = Run(request);
  EXPECT_EQ(exit.code, 3);
  EXPECT_FALSE(IsAlive(IdentifyProcess(std::atoi(Output("polite").c_str()))));
  EXPECT_FALSE(IsAlive(IdentifyProcess(std::atoi(Output("stubborn").c_str()))));
}

TEST_F(Supervise, StopReachesTheWholeTreeAndAllowsCleanup) {
  LaunchRequest request = Shell(
      "sh -c 'trap \"echo child >> ended; exit\" TERM; echo $$ > child; while :; do sleep 0.01; done' & "
      "trap 'wait; echo parent >> ended; exit 5' TERM; while [ ! -s child ]; do :; done; echo ready; wait");
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 10s));
  EXPECT_EQ(AwaitExit(request.job).code, 5);
  EXPECT_EQ(Output("ended"), "child\nparent\n");
}

TEST_F(Supervise, AProcessThatIgnoresTheStopSignalIsKilledAfterTheGracePeriod) {
  const LaunchRequest request = Shell("trap '' TERM; echo ready; while :; do sleep 1000; done");
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 30ms));
  EXPECT_EQ(AwaitExit(request.job).signal, SIGKILL);
}

TEST_F(Supervise, StopWithoutAGracePeriodKillsAtOnce) {
  const LaunchRequest request = Shell("trap '' TERM; echo ready; while :; do sleep 1000; done");
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 1h));
  ASSERT_TRUE(SendStop(record, SIGTERM, 0s));
  EXPECT_EQ(AwaitExit(request.job).signal, SIGKILL);
}

TEST_F(Supervise, StartWaitsForTheDirectoryOfItsOutput) {
  LaunchRequest request = Shell("echo written");
  request.output = "later/deep/out";
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitDelay(request.job));
  EXPECT_EQ(delayed_[request.job.value()].delay,
            "waits up to 10 s for directory '" + Work("later/deep") + "' of its output file, which does not exist");
  const LaunchRequest other = Shell("exit 3");
  EXPECT_EQ(Run(other).code, 3) << "another job's start is not held up";
  EXPECT_FALSE(started_.contains(request.job.value()));
  const Time made = WallNow();
  std::filesystem::create_directories(Work("later/deep"));
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  EXPECT_GE(started_[request.job.value()].started, made) << "waiting is no run time";
  EXPECT_EQ(Output("later/deep/out"), "written\n");
}

TEST_F(Supervise, StartWaitsForTheDirectoriesOfAllItsFiles) {
  LaunchRequest request = Shell("cat; echo failed >&2");
  request.input = Work("in/text");
  request.error = Work("err/text");
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitDelay(request.job));
  std::filesystem::create_directory(Work("made"));
  std::ofstream(Work("made/text")) << "read\n";
  std::filesystem::rename(Work("made"), Work("in"));
  ASSERT_TRUE(
      AwaitReports([&] { return delayed_[request.job.value()].delay.find("of its error file") != std::string::npos; }));
  std::filesystem::create_directory(Work("err"));
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  EXPECT_EQ(Output(), "read\n");
  EXPECT_EQ(Output("err/text"), "failed\n");
}

TEST_F(Supervise, StopEndsTheWaitForADirectory) {
  LaunchRequest request = Shell("echo written");
  request.output = Work("later/out");
  request.directory_timeout = 1h;
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitDelay(request.job));
  ASSERT_TRUE(SendStop(delayed_[request.job.value()], SIGTERM, 1h));
  EXPECT_EQ(AwaitExit(request.job).failure, "stopped before it started");
  EXPECT_FALSE(started_.contains(request.job.value()));
}

TEST_F(Supervise, ANewDaemonFindsAJobThatWaitsForADirectory) {
  LaunchRequest request = Shell("echo written");
  request.output = Work("later/out");
  request.directory_timeout = 1h;
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitDelay(request.job));
  StopDaemon();
  delayed_.clear();
  const RunRecord found = ScanFor(request.job);
  EXPECT_EQ(StateOf(found), RunState::kWatched);
  EXPECT_EQ(found.process.pid, 0);
  StartDaemon();
  ASSERT_TRUE(SendPing(found));
  ASSERT_TRUE(AwaitDelay(request.job)) << "it says again what it waits for";
  std::filesystem::create_directory(Work("later"));
  EXPECT_EQ(AwaitExit(request.job).code, 0);
}

// Even as root, paths of a user are looked up only with the user's rights.
TEST_F(Supervise, DirectoriesAreLookedUpWithTheRightsOfTheJobsUser) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  std::filesystem::create_directory(In("closed"));
  ::chmod(In("closed").c_str(), 0700);
  LaunchRequest request = Shell("true");
  request.uid = request.gid = kNobody;
  request.output = In("closed/later/out");
  request.directory_timeout = 1h;
  EXPECT_EQ(Run(request).failure, "cannot open '" + In("closed/later/out") + "' for writing: Permission denied");
  request = Shell("echo written");
  request.uid = request.gid = kNobody;
  request.output = Work("later/out");
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitDelay(request.job));
  std::filesystem::create_directory(Work("open"));
  ::chmod(Work("open").c_str(), 0777);
  std::filesystem::rename(Work("open"), Work("later"));
  EXPECT_EQ(AwaitExit(request.job).failure, "");
  EXPECT_EQ(Output("later/out"), "written\n");
}

TEST(DirectoryWatch, ReportsADirectoryCreatedAnywhereBelowAnExistingOne) {
  std::string pattern = testing::TempDir() + "divvy-directory-watch.XXXXXX";
  const std::string home = ::mkdtemp(pattern.data());
  DirectoryWatch watch({}, {home, home + "/a/b"});
  const auto was_woken = [&] {
    pollfd polled = {.fd = watch.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 10'000) == 1;
  };
  ASSERT_EQ(watch.FirstMissing(), home + "/a/b");
  std::filesystem::create_directory(home + "/a");
  EXPECT_TRUE(was_woken());
  ASSERT_EQ(watch.FirstMissing(), home + "/a/b");
  std::filesystem::create_directory(home + "/a/b");
  EXPECT_TRUE(was_woken());
  EXPECT_FALSE(watch.FirstMissing());
  std::filesystem::remove_all(home);
}

TEST(DirectoryWatch, SplitsTheDirectoryFromAPath) {
  EXPECT_EQ(DirectoryOf("/a/b/c"), "/a/b");
  EXPECT_EQ(DirectoryOf("/a//b"), "/a");
  EXPECT_EQ(DirectoryOf("/a"), "/");
  EXPECT_EQ(DirectoryOf("//a"), "/");
}

TEST(WarnBefore, LeavesAProgramTimeToInstallItsHandler) {
  EXPECT_EQ(WarnBefore(1h, 90s), 90s);
  EXPECT_EQ(WarnBefore(60s, 90s), 30s) << "30 s after the start";
  EXPECT_EQ(WarnBefore(100s, 90s), 70s);
  EXPECT_EQ(WarnBefore(40s, 90s), 20s) << "half of a limit below a minute";
  EXPECT_EQ(WarnBefore(40s, 5s), 5s);
  EXPECT_EQ(WarnBefore(0s, 5s), 5s) << "no limit";
}

TEST_F(Supervise, TimeLimitWarnsThenStopsThenKills) {
  LaunchRequest request =
      Shell("trap 'echo warned' USR1; trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done");
  request.time_limit = 1h;
  request.warn = {.signal = SIGUSR1, .before = 250ms, .batch_only = true};
  request.grace = 700ms;
  const RunRecord started = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  const Duration limit = LimitIn(started, 300ms);
  ASSERT_TRUE(SendTimeLimit(started, limit));
  const Exit exit = AwaitExit(request.job);
  EXPECT_TRUE(exit.hit_time_limit);
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_TRUE(Output().starts_with("ready\nwarned\n")) << Output();
  EXPECT_NE(Output().find("asked\n"), std::string::npos);
  const RunRecord& record = exited_[request.job.value()];
  EXPECT_GE(record.ended - record.started, limit + request.grace);
}

TEST_F(Supervise, TimeLimitCountsFromTheRequestedStart) {
  LaunchRequest request = Shell(kWaitForEver);
  request.time_limit = 1h;
  request.started = TimeFromSeconds(static_cast<double>(::time(nullptr)) - 7200);
  EXPECT_TRUE(Run(request).hit_time_limit);
}

TEST_F(Supervise, TimeLimitCanBeChangedAndRemoved) {
  LaunchRequest request = Shell("while [ ! -e go ]; do sleep 0.01; done");
  request.time_limit = 1h;
  const RunRecord record = Start(request);
  ASSERT_TRUE(SendTimeLimit(record, 0s));
  ASSERT_TRUE(SendTimeLimit(record, 1ns));
  EXPECT_TRUE(AwaitExit(request.job).hit_time_limit);
  // Repeats until the limit was lifted in time, which the answer to a later command shows: a busy machine may be slow.
  LaunchRequest other;
  RunRecord lifted;
  for (Duration limit = 1s; limit < 1h; limit *= 2) {
    other = Shell("while [ ! -e go ]; do sleep 0.01; done");
    other.time_limit = limit;
    lifted = Start(other);
    ASSERT_TRUE(SendTimeLimit(lifted, 0s));
    started_.erase(other.job.value());
    static_cast<void>(SendPing(lifted));
    ASSERT_TRUE(
        AwaitReports([&] { return started_.contains(other.job.value()) || exited_.contains(other.job.value()); }));
    if (!exited_.contains(other.job.value())) break;
  }
  ASSERT_TRUE(AwaitReports(
      [&] { return exited_.contains(other.job.value()) || WallNow() - lifted.started > other.time_limit + 200ms; }));
  std::ofstream(Work("go")) << "x";
  EXPECT_FALSE(AwaitExit(other.job).hit_time_limit);
}

TEST_F(Supervise, PauseStopsEveryProcessAndResumeContinuesThem) {
  const LaunchRequest request = Shell("sleep 1000 & echo $! > child; wait");
  const RunRecord record = Start(request);
  const ProcessIdentity child = AwaitPid("child");
  const auto state = [](const ProcessIdentity& process) {
    const auto stat = ReadProcessStat(static_cast<pid_t>(process.pid));
    return stat ? stat->state : '-';
  };
  ASSERT_TRUE(SendPause(record));
  EXPECT_TRUE(Eventually([&] { return state(record.process) == 'T' && state(child) == 'T'; }));
  ASSERT_TRUE(SendContinue(record));
  EXPECT_TRUE(Eventually([&] { return state(record.process) == 'S' && state(child) == 'S'; }));
  // A paused job can be stopped: it is continued for that.
  ASSERT_TRUE(SendPause(record));
  ASSERT_TRUE(SendStop(record, SIGTERM, 1h));
  EXPECT_EQ(AwaitExit(request.job).signal, SIGTERM);
}

// A woken engine would forward the signal to a container that may have ended by then.
TEST_F(Supervise, AContainerEngineThatWasNotPausedIsNotResumed) {
  const RunRecord record = Start(Shell(
      "printf divvy-container > /proc/$$/comm; trap 'echo asked' TERM; "
      "sh -c 'trap \"echo woken\" CONT; trap \"echo over\" WINCH; echo $$ > engine; while :; do sleep 0.01; done' & "
      "while :; do wait; done"));
  const ProcessIdentity engine = AwaitPid("engine");
  ASSERT_TRUE(SendStop(record, SIGTERM, 1h));
  ASSERT_TRUE(AwaitOutput("asked"));
  started_.clear();
  ASSERT_TRUE(SendPing(record));  // Answered after all earlier commands were handled.
  ASSERT_TRUE(AwaitReports([&] { return started_.contains(record.job.value()); }));
  ::kill(static_cast<pid_t>(engine.pid), SIGWINCH);  // The shell handles the smaller signal number first.
  ASSERT_TRUE(AwaitOutput("over"));
  EXPECT_EQ(Output().find("woken"), std::string::npos) << Output();
  ASSERT_TRUE(SendStop(record, SIGTERM, 0s));
  AwaitExit(record.job);
}

TEST_F(Supervise, SignalGoesToTheFirstProcessOrToAll) {
  const LaunchRequest request = Shell(
      "sh -c 'trap \"echo child\" USR1; echo $$ > child; while :; do sleep 0.01; done' & "
      "trap 'echo parent' USR1; while [ ! -s child ]; do :; done; echo ready; while :; do wait; done");
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendSignal(record, SIGUSR1, SignalReach::kFirstProcess));
  ASSERT_TRUE(AwaitOutput("parent"));
  EXPECT_EQ(Output().find("child"), std::string::npos);
  ASSERT_TRUE(SendSignal(record, SIGUSR1));
  EXPECT_TRUE(AwaitOutput("child"));
}

TEST_F(Supervise, CommandForAnotherAttemptIsIgnored) {
  const RunRecord record = Start(Shell(kWaitForEver));
  RunRecord other = record;
  other.attempt = 2;
  ASSERT_TRUE(SendStop(other, SIGKILL, 0s));
  started_.clear();
  ASSERT_TRUE(SendPing(record));
  EXPECT_TRUE(AwaitReports([&] { return started_.contains(record.job.value()); })) << "no answer to a ping";
  EXPECT_TRUE(IsAlive(record.process));
}

TEST_F(Supervise, CommandWithoutTheJobsSecretIsIgnored) {
  const RunRecord record = Start(Shell(kWaitForEver));
  ASSERT_EQ(record.secret.size(), 64u);
  for (const std::string& secret :
       {std::string(), std::string(64, '0'), record.secret.substr(1), record.secret + "0"}) {
    RunRecord other = record;
    other.secret = secret;
    ASSERT_TRUE(SendStop(other, SIGKILL, 0s));
  }
  started_.clear();
  ASSERT_TRUE(SendPing(record));
  EXPECT_TRUE(AwaitReports([&] { return started_.contains(record.job.value()); })) << "no answer to a ping";
  EXPECT_TRUE(IsAlive(record.process));
}

TEST_F(Supervise, CommandsAndReportsOfOtherUsersAreIgnored) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  const RunRecord record = Start(Shell(kWaitForEver));
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    const bool is_sent = ::setuid(kNobody) == 0 && SendStop(record, SIGKILL, 0s).has_value();
    ::_exit(is_sent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(stranger, &status, 0), stranger);
  ASSERT_EQ(status, 0) << "the stranger could not even send";
  started_.clear();
  ASSERT_TRUE(SendPing(record));
  EXPECT_TRUE(AwaitReports([&] { return started_.contains(record.job.value()); }));
  EXPECT_TRUE(IsAlive(record.process));
}

TEST_F(Supervise, ACommandToAMissingSupervisorIsAnError) {
  RunRecord record = Start(Shell(kWaitForEver));
  // Kills the guard first; otherwise it would take over and answer.
  ::kill(static_cast<pid_t>(record.guard.pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsAlive(record.guard); }));
  ::kill(static_cast<pid_t>(record.supervisor.pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsAlive(record.supervisor); }));
  EXPECT_EQ(SendStop(record, SIGTERM, 0s).error().code, ErrorCode::kUnreachable);
  SignalOrphans(static_cast<pid_t>(record.process.pid), SIGKILL);
}

TEST_F(Supervise, JobsSurviveTheDaemonAndTheNextFindsTheirEnd) {
  const LaunchRequest request = Shell("while [ ! -e go ]; do sleep 0.01; done; exit 9");
  const RunRecord record = Start(request);
  StopDaemon();
  EXPECT_EQ(StateOf(ScanFor(request.job)), RunState::kWatched);
  std::ofstream(Work("go")) << "x";
  ASSERT_TRUE(Eventually([&] { return StateOf(ScanFor(request.job)) == RunState::kEnded; }));
  StartDaemon();
  const RunRecord found = ScanFor(request.job);
  EXPECT_EQ(found.exit->code, 9);
  EXPECT_EQ(found.process, record.process);
  RemoveRunRecord(RunDirectory(), found);
  EXPECT_TRUE(ScanRunDirectory(RunDirectory())->empty());
  exited_[request.job.value()] = found;
}

TEST_F(Supervise, TheNextDaemonCommandsTheSupervisorsOfTheLast) {
  const LaunchRequest request = Shell(kWaitForEver);
  Start(request);
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(SendStop(ScanFor(request.job), SIGTERM, 10s));
  EXPECT_EQ(AwaitExit(request.job).signal, SIGTERM);
}

TEST_F(Supervise, AKilledLauncherIsReplacedAndNothingRunsTwice) {
  LaunchRequest running = Shell("echo ran; while [ ! -e go ]; do sleep 0.01; done; exit 6");
  running.appends_output = true;
  // Sent and begun, but not confirmed: it will be repeated.
  ASSERT_TRUE(launcher_->Launch(running));
  ASSERT_TRUE(AwaitOutput("ran"));
  ::kill(static_cast<pid_t>(launcher_->launcher_pid()), SIGKILL);
  LaunchRequest next = Shell("exit 2");
  next.output = "";
  ASSERT_TRUE(launcher_->Launch(next));
  pollfd polled = {.fd = launcher_->fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&polled, 1, 10'000), 1);
  ASSERT_TRUE(launcher_->OnReadable());
  EXPECT_EQ(AwaitExit(next.job).code, 2);
  std::ofstream(Work("go")) << "x";
  EXPECT_EQ(AwaitExit(running.job).code, 6);
  EXPECT_EQ(Output(), "ran\n");
}

TEST_F(Supervise, AnOrphanedTreeCanBeKilled) {
  const LaunchRequest request = Shell("sleep 1000 & echo $! > child; wait");
  const RunRecord record = Start(request);
  const ProcessIdentity child = AwaitPid("child");
  ::kill(static_cast<pid_t>(record.guard.pid), SIGKILL);
  ::kill(static_cast<pid_t>(record.supervisor.pid), SIGKILL);
  auto adopted = AdoptedProcess::Open(record.process);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->SignalTree(SIGKILL), 2);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(child) && adopted->PollExit().has_value(); }));
  EXPECT_FALSE(AdoptedProcess::Open(record.process));
}

// --- Terminals ---------------------------------------------------------------------------------------------------

class Terminal : public LaunchTest {
 protected:
  Terminal() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  ~Terminal() override {
    for (const int end : ends_) ::close(end);
  }
  RunRecord StartAt(const std::string& text) {
    LaunchRequest request = Shell(text);
    request.wants_pty = true;
    return Start(request);
  }
  void Attach(const RunRecord& record, std::uint64_t attachment) {
    ASSERT_TRUE(SendAttach(record, attachment, ends_[1], ends_[1], {.rows = 33, .columns = 99}));
  }
  void Type(std::string_view text) {
    ASSERT_EQ(::write(ends_[0], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  bool Sees(const std::string& text) {
    return Eventually([&] {
      char block[4096];
      const ssize_t size = ::recv(ends_[0], block, sizeof block, MSG_DONTWAIT);
      if (size > 0) seen_.append(block, static_cast<std::size_t>(size));
      return seen_.find(text) != std::string::npos;
    });
  }

  int ends_[2] = {-1, -1};
  std::string seen_;
};

TEST_F(Terminal, JobHasAControllingTerminalAndItsOutputIsLogged) {
  const RunRecord record = StartAt("tty > /dev/tty && stty size; exit 4");
  EXPECT_EQ(AwaitExit(record.job).code, 4);
  EXPECT_EQ(Output().substr(0, 9), "/dev/pts/");
  EXPECT_NE(Output().find("24 80\r\n"), std::string::npos);
}

TEST_F(Terminal, AnAttachedClientSeesEarlierOutputTypesAndLeavesWhileTheJobContinues) {
  const RunRecord record = StartAt("echo before; read line; echo got $line; read line; stty size; exit 8");
  ASSERT_TRUE(AwaitOutput("before"));
  Attach(record, 71);
  EXPECT_TRUE(Sees("before\r\n"));
  Type("hello\n");
  EXPECT_TRUE(Sees("got hello\r\n"));
  Type("\x10\x11");
  EXPECT_TRUE(AwaitReports([&] { return detached_ == std::vector<std::uint64_t>{71}; }));
  EXPECT_TRUE(IsAlive(record.process));
  Attach(record, 72);
  ASSERT_TRUE(SendResize(record, {.rows = 44, .columns = 111}));
  EXPECT_TRUE(Sees("before\r\nhello\r\ngot hello\r\n"));
  Type("\n");
  EXPECT_EQ(AwaitExit(record.job).code, 8);
  EXPECT_TRUE(Sees("44 111\r\n"));
}

TEST_F(Terminal, CtrlCTypedByAClientInterruptsTheJob) {
  const RunRecord record = StartAt("trap 'exit 42' INT; echo ready; while :; do sleep 0.01; done");
  ASSERT_TRUE(AwaitOutput("ready"));
  Attach(record, 1);
  Type("\x03");
  EXPECT_EQ(AwaitExit(record.job).code, 42);
}

TEST_F(Terminal, AShellThatIgnoresTheStopSignalGetsSighup) {
  // Like an interactive shell.
  const RunRecord record = StartAt("trap '' TERM; echo ready; while :; do sleep 0.01; done");
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 1h));
  EXPECT_EQ(AwaitExit(record.job).code, 128 + SIGHUP);
}

TEST_F(Terminal, AScriptThatHandlesTheStopSignalCleansUp) {
  const RunRecord record = StartAt("trap 'sleep 0.2; exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 1h));
  EXPECT_EQ(AwaitExit(record.job).code, 7);
}

TEST_F(Terminal, ForegroundJobIsAttachedFromTheStart) {
  LaunchRequest request = Shell("read line; echo got $line");
  request.wants_pty = true;
  request.streams = {ends_[1], ends_[1], -1};
  ASSERT_TRUE(launcher_->Launch(request));
  Type("x\n");
  EXPECT_TRUE(Sees("got x\r\n"));
  EXPECT_EQ(AwaitExit(request.job).code, 0);
}

TEST_F(Terminal, AClientThatDisconnectsIsForgotten) {
  const RunRecord record = StartAt("echo ready; sleep 1000");
  Attach(record, 5);
  EXPECT_TRUE(Sees("ready"));
  for (int& end : ends_) ::close(std::exchange(end, -1));
  EXPECT_TRUE(AwaitReports([&] { return detached_ == std::vector<std::uint64_t>{5}; }));
  EXPECT_TRUE(IsAlive(record.process));
}

TEST_F(Terminal, AClientThatDisconnectsDoesNotEndTheInput) {
  const RunRecord record = StartAt("echo ready; while read line; do echo got $line; done; echo over");
  Attach(record, 5);
  EXPECT_TRUE(Sees("ready"));
  for (int& end : ends_) ::close(std::exchange(end, -1));
  EXPECT_TRUE(AwaitReports([&] { return detached_ == std::vector<std::uint64_t>{5}; }));
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
  Attach(record, 6);
  Type("more\n");
  EXPECT_TRUE(Sees("got more"));
  EXPECT_EQ(seen_.find("over"), std::string::npos);
  Type({&Pty::kEndOfFile, 1});
  EXPECT_TRUE(Sees("over"));
  EXPECT_EQ(AwaitExit(record.job).code, 0);
}

TEST_F(Terminal, TheEndOfInputReachesAProgramThatChangesTheModeLater) {
  const std::string go = Work("go");
  const RunRecord record =
      StartAt("echo ready; until [ -e '" + go + "' ]; do sleep 0.01; done; stty -icanon; echo raw; " +
              "until [ \"$(dd bs=1 count=1 2>/dev/null | od -An -to1)\" = ' 004' ]; do :; done");
  Attach(record, 5);
  EXPECT_TRUE(Sees("ready"));
  Type({&Pty::kEndOfFile, 1});
  ASSERT_EQ(::shutdown(ends_[0], SHUT_WR), 0);
  std::ofstream(go) << "now";
  EXPECT_TRUE(Sees("raw"));
  EXPECT_EQ(AwaitExit(record.job).code, 0);
  EXPECT_TRUE(detached_.empty());
}

TEST_F(Terminal, AJobWithoutATerminalRefusesClients) {
  const RunRecord record = Start(Shell(kWaitForEver));
  Attach(record, 6);
  EXPECT_TRUE(AwaitReports([&] { return detached_ == std::vector<std::uint64_t>{6}; }));
}

}  // namespace supervisor_test
}  // namespace divvy
