// Tests the effect of kill -9 on a supervisor, its guard, both, or the launcher at critical moments.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "platform/supervisor/launch_test_world.h"
#include "platform/supervisor/supervisor_adoption.h"

namespace divvy {
namespace supervisor_guard_test {

using namespace std::chrono_literals;  // NOLINT

constexpr const char* kUntilGo = "while [ ! -e go ]; do sleep 0.01; done; exit 13";

class GuardProcess : public LaunchTest {
 protected:
  static void Kill(const ProcessIdentity& process) { ::kill(static_cast<pid_t>(process.pid), SIGKILL); }
  void Go() { std::ofstream(Work("go")) << "x"; }
  /// Kills the supervisor and waits until the guard reports that it took over.
  RunRecord KillSupervisorOf(const RunRecord& record) {
    Kill(record.supervisor);
    EXPECT_TRUE(AwaitReports([&] { return started_[record.job.value()].supervisor == record.guard; }))
        << "the guard did not take over";
    return started_[record.job.value()];
  }
  /// Waits until the launcher reports that a supervisor is dead.
  void HearTheLauncher() {
    pollfd polled = {.fd = launcher_->fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&polled, 1, 10'000), 1);
    ASSERT_TRUE(launcher_->OnReadable());
  }
};

TEST_F(GuardProcess, GuardTakesOverFromAKilledSupervisorAndKnowsTheExitCode) {
  const RunRecord record = Start(Shell(kUntilGo));
  const RunRecord after = KillSupervisorOf(record);
  EXPECT_EQ(after.process, record.process);
  EXPECT_EQ(StateOf(ScanFor(record.job)), RunState::kWatched);
  Go();
  const Exit exit = AwaitExit(record.job);
  EXPECT_TRUE(exit.is_known);
  EXPECT_EQ(exit.code, 13);
  EXPECT_GT(exit.cpu_time, Duration(0));
  EXPECT_EQ(ScanFor(record.job).exit, exited_[record.job.value()].exit);
}

TEST_F(GuardProcess, GuardNeedsNeitherDaemonNorLauncher) {
  const RunRecord record = Start(Shell(kUntilGo));
  Kill({.pid = launcher_->launcher_pid()});
  Kill(record.supervisor);
  StopDaemon();
  Go();
  ASSERT_TRUE(Eventually([&] { return StateOf(ScanFor(record.job)) == RunState::kEnded; }));
  EXPECT_EQ(ScanFor(record.job).exit->code, 13);
  exited_[record.job.value()] = ScanFor(record.job);
  StartDaemon();
}

TEST_F(GuardProcess, ALaunchThatWaitsForADirectoryIsRepeatedAfterAKill) {
  LaunchRequest request = Shell("echo written");
  request.output = Work("later/out");
  request.directory_timeout = 1h;
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitDelay(request.job));
  const RunRecord before = delayed_[request.job.value()];
  delayed_.clear();
  Kill(before.supervisor);
  HearTheLauncher();
  ASSERT_TRUE(AwaitReports([&] {
    launcher_->RepeatLost();
    return delayed_.contains(request.job.value());
  }));
  EXPECT_NE(delayed_[request.job.value()].supervisor, before.supervisor);
  std::filesystem::create_directory(Work("later"));
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  EXPECT_EQ(Output("later/out"), "written\n");
}

TEST_F(GuardProcess, GuardStopsTheWholeTreeIncludingDaemonizedProcesses) {
  const RunRecord record =
      Start(Shell("(setsid sh -c 'trap \"\" TERM; echo $$ > away; while :; do sleep 1000; done' &); "
                  "while [ ! -s away ]; do :; done; echo ready; while :; do sleep 1000; done"));
  ASSERT_TRUE(AwaitOutput("ready"));
  const ProcessIdentity away = AwaitPid("away");
  ASSERT_TRUE(SendStop(KillSupervisorOf(record), SIGTERM, 30ms));
  EXPECT_EQ(AwaitExit(record.job).signal, SIGTERM);
  EXPECT_FALSE(IsAlive(away));
}

TEST_F(GuardProcess, TimeLimitIsEnforcedAfterTheSupervisorIsKilled) {
  LaunchRequest request = Shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
  request.time_limit = 2s;
  request.grace = 30ms;
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  KillSupervisorOf(record);
  const Exit exit = AwaitExit(record.job);
  EXPECT_TRUE(exit.hit_time_limit);
  EXPECT_EQ(exit.signal, SIGKILL);
}

TEST_F(GuardProcess, ExitCodeAlreadySeenByTheKilledSupervisorIsKept) {
  LaunchRequest request = Shell(
      "sh -c 'trap \"\" TERM; echo $$ > stubborn; while [ ! -e go ]; do sleep 0.01; done' & "
      "while [ ! -s stubborn ]; do :; done; exit 3");
  request.leftover_grace = 1h;
  const RunRecord record = Start(request);
  ASSERT_TRUE(Eventually([&] { return !ReadProcessStat(static_cast<pid_t>(record.process.pid)); })) << "not reaped";
  KillSupervisorOf(record);
  Go();
  EXPECT_EQ(AwaitExit(record.job).code, 3);
}

TEST_F(GuardProcess, TheJobOutlivesItsGuardAndTheSupervisorRunsNoOtherAfterIt) {
  const RunRecord record = Start(Shell(kUntilGo));
  Kill(record.guard);
  ASSERT_TRUE(Eventually([&] { return !IsAlive(record.guard); }));
  Go();
  EXPECT_EQ(AwaitExit(record.job).code, 13);
  const RunRecord next = Start(Shell("sleep 1000"));
  EXPECT_NE(next.supervisor, record.supervisor);
  EXPECT_TRUE(IsAlive(next.guard));
}

TEST_F(GuardProcess, GuardExitsWithItsIdleSupervisor) {
  const RunRecord record = Start(Shell(kUntilGo));
  Go();
  AwaitExit(record.job);
  Kill(record.supervisor);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(record.guard); }));
}

TEST_F(GuardProcess, AnOrphanOfAKilledSupervisorAndGuardIsAdoptedWithItsExitCode) {
  const LaunchRequest request = Shell(kUntilGo);
  const RunRecord record = Start(request);
  Kill(record.guard);
  Kill(record.supervisor);
  ASSERT_TRUE(Eventually([&] { return StateOf(ScanFor(request.job)) == RunState::kOrphaned; }));
  auto adopted = AdoptedProcess::Open(ScanFor(request.job).process);
  ASSERT_TRUE(adopted) << adopted.error().message;
  EXPECT_FALSE(adopted->PollExit());
  Go();
  pollfd polled = {.fd = adopted->fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&polled, 1, 10'000), 1);
  const auto exit = adopted->PollExit();
  ASSERT_TRUE(exit);
  EXPECT_EQ(StateOf(ScanFor(request.job)), RunState::kVanished);
  exited_[request.job.value()] = record;
  if (!exit->is_known) GTEST_SKIP() << "this kernel (before 6.15) forgets the exit code of another's child";
  EXPECT_EQ(exit->code, 13);
}

// The kernel shows exit code 0 of a process that the reader may not inspect.
TEST(AdoptedProcess, TheExitCodeOfAnotherUsersProcessIsUnknownAndNotZero) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs processes of two users";
  const pid_t ended = ::fork();
  if (ended == 0) {
    ::raise(SIGSTOP);
    ::_exit(13);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(ended, &status, WUNTRACED), ended);
  const auto adopted = AdoptedProcess::Open(IdentifyProcess(ended));
  ASSERT_TRUE(adopted);
  ::kill(ended, SIGCONT);
  pollfd polled = {.fd = adopted->fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&polled, 1, 10'000), 1);
  const auto own = adopted->PollExit();
  ASSERT_TRUE(own && own->is_known);
  EXPECT_EQ(own->code, 13);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    const auto exit = adopted->PollExit();
    ::_exit(exit && !exit->is_known ? 0 : 1);
  }
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::waitpid(ended, &status, 0), ended);
}

TEST_F(GuardProcess, ProcessesLeftInTheSessionOfAnEndedJobAreStopped) {
  LaunchRequest request = Shell("sleep 1000 & echo $! > child; env -i sh -c 'echo $$ > bare; exec sleep 1000' & wait");
  request.environment.push_back("DIVVY_JOB_ID=17");
  const RunRecord record = Start(request);
  const ProcessIdentity child = AwaitPid("child");
  AwaitPid("bare");  // Before that, its environment still names the job.
  Kill(record.guard);
  Kill(record.supervisor);
  Kill(record.process);
  ASSERT_TRUE(Eventually([&] { return StateOf(ScanFor(record.job)) == RunState::kVanished; }));
  // Processes of another job are spared, in case the session number was reused.
  EXPECT_EQ(SignalLeftBehind(record.process, "DIVVY_JOB_ID=1", SIGKILL), 0);
  EXPECT_EQ(SignalLeftBehind(record.process, "DIVVY_JOB_ID=17", SIGKILL), 1);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(child); }));
  SignalOrphans(static_cast<pid_t>(record.process.pid), SIGKILL);
  exited_[record.job.value()] = record;
}

TEST_F(GuardProcess, AReusedPidIsNotSignalled) {
  EXPECT_EQ(SignalLeftBehind({.pid = ::getpid(), .start_ticks = 1}, "", SIGKILL), 0);
}

TEST_F(GuardProcess, ALaunchThatDiedWithASupervisorIsRepeated) {
  const LaunchRequest first = Shell("exit 0");
  const RunRecord record = Start(first);
  AwaitExit(first.job);
  // The idle supervisor gets the next job without ever reading it.
  ::kill(static_cast<pid_t>(record.supervisor.pid), SIGSTOP);
  LaunchRequest lost = Shell("echo ran; exit 5");
  lost.appends_output = true;
  ASSERT_TRUE(launcher_->Launch(lost));
  // Launches keep their order: when this one ends, the other has been passed on.
  LaunchRequest behind = Shell("exit 0");
  behind.output = "";
  EXPECT_EQ(Run(behind).code, 0);
  EXPECT_FALSE(ReadRunRecord(RunDirectory(), lost.job));
  Kill(record.supervisor);
  HearTheLauncher();
  EXPECT_EQ(AwaitExit(lost.job).code, 5);
  EXPECT_EQ(Output(), "ran\n");
}

TEST_F(GuardProcess, AStartedLaunchIsNotRepeatedThoughItWasNotConfirmed) {
  LaunchRequest request = Shell("echo ran; while [ ! -e go ]; do sleep 0.01; done; exit 6");
  request.appends_output = true;
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(AwaitOutput("ran"));
  const RunRecord record = ScanFor(request.job);
  Kill(record.supervisor);
  HearTheLauncher();
  // The job ends and its record is removed before a repetition could look for it.
  Go();
  ASSERT_TRUE(Eventually([&] { return StateOf(ScanFor(request.job)) == RunState::kEnded; }));
  RemoveRunRecord(RunDirectory(), record);
  LaunchRequest behind = Shell("exit 0");
  behind.output = "";
  EXPECT_EQ(Run(behind).code, 0);
  EXPECT_EQ(Output(), "ran\n");
  EXPECT_EQ(AwaitExit(request.job).code, 6);
}

TEST_F(GuardProcess, AMissingProgramDoesNotAffectTheGuard) {
  const Exit exit = Run(Command({"/no/such/program"}));
  EXPECT_EQ(exit.code, 127);
  EXPECT_FALSE(exit.failure.empty());
}

}  // namespace supervisor_guard_test
}  // namespace divvy
