// Tests for starting jobs: what they get, what they leave behind, and why they could not be started.
#include "platform/supervisor/launch.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "model/exit_codes.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/supervisor/launch_test_world.h"
#include "platform/supervisor/launcher.h"
#include "platform/supervisor/node_allocation_start.h"

namespace divvy {
namespace launch_test {

using Launch = LaunchTest;

TEST_F(Launch, ExitCodeIsThatOfTheProgram) {
  EXPECT_EQ(Run(Shell("exit 7")).code, 7);
  EXPECT_EQ(Run(Command({"true"})).code, 0);
}

TEST_F(Launch, TheTerminatingSignalIsRecorded) {
  const Exit exit = Run(Shell("kill -SEGV $$"));
  EXPECT_EQ(exit.signal, SIGSEGV);
  EXPECT_EQ(exit.code, 128 + SIGSEGV);
}

TEST_F(Launch, StartIsReportedWithTheProcessAndItsSupervisor) {
  const RunRecord record = Start(Shell("echo $$ $PPID; read line < /dev/zero"));
  ASSERT_TRUE(AwaitOutput("\n"));
  EXPECT_EQ(Output(), std::to_string(record.process.pid) + " " + std::to_string(record.supervisor.pid) + "\n");
  EXPECT_TRUE(IsAlive(record.process));
  EXPECT_TRUE(IsAlive(record.supervisor));
}

TEST_F(Launch, StderrJoinsTheOutputByDefault) {
  Run(Shell("echo one; echo two >&2; echo three"));
  EXPECT_EQ(Output(), "one\ntwo\nthree\n");
}

TEST_F(Launch, StderrMayHaveItsOwnFile) {
  LaunchRequest request = Shell("echo one; echo two >&2");
  request.error = "errors";  // Relative to the job's directory.
  Run(request);
  EXPECT_EQ(Output(), "one\n");
  EXPECT_EQ(Output("errors"), "two\n");
}

TEST_F(Launch, OutputIsReplacedOrAppendedTo) {
  Run(Shell("echo a long first line"));
  Run(Shell("echo second"));
  EXPECT_EQ(Output(), "second\n");
  LaunchRequest request = Shell("echo third");
  request.appends_output = true;
  Run(request);
  EXPECT_EQ(Output(), "second\nthird\n");
}

TEST_F(Launch, InputComesFromTheFileAndIsOtherwiseEmpty) {
  std::ofstream(Work("in")) << "hello";
  LaunchRequest request = Command({"cat"});
  request.input = Work("in");
  Run(request);
  EXPECT_EQ(Output(), "hello");
  EXPECT_EQ(Run(Command({"cat"})).code, 0);
  EXPECT_EQ(Output(), "");
}

TEST_F(Launch, ForegroundStreamsBelongToTheJobOnly) {
  int in[2], out[2];
  ASSERT_EQ(::pipe(in), 0);
  ASSERT_EQ(::pipe(out), 0);
  LaunchRequest request = Shell("cat; echo done >&2");
  request.streams = {in[0], out[1], out[1]};
  ASSERT_TRUE(launcher_->Launch(request));
  ::close(in[0]);
  ::close(out[1]);
  ASSERT_EQ(::write(in[1], "ping\n", 5), 5);
  ::close(in[1]);
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  char text[64] = {};
  std::string all;
  // The stream ends only if supervisor and launcher have closed it.
  for (ssize_t size = 0; (size = ::read(out[0], text, sizeof text)) > 0;)
    all.append(text, static_cast<std::size_t>(size));
  EXPECT_EQ(all, "ping\ndone\n");
  ::close(out[0]);
}

// Its supervisor continues with the next job.
TEST_F(Launch, ForegroundStreamsAreClosedIfTheProgramCannotBeStarted) {
  int out[2];
  ASSERT_EQ(::pipe(out), 0);
  LaunchRequest request = Command({"/no/such/program"});
  request.streams = {-1, out[1], out[1]};
  ASSERT_TRUE(launcher_->Launch(request));
  ::close(out[1]);
  EXPECT_EQ(AwaitExit(request.job).code, 127);
  Start(Shell("sleep 1000"));
  EXPECT_TRUE(Eventually([&] {
    pollfd polled = {.fd = out[0], .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLHUP) != 0;
  }));
  ::close(out[0]);
}

// Simulates an agent that is killed before it hears of the start.
TEST_F(Launch, OutputsWithoutAReaderGoToTheLogFromTheStart) {
  int out[2], error[2], life[2];
  for (int* ends : {out, error, life}) ASSERT_EQ(::pipe(ends), 0);
  LaunchRequest request = Shell("while [ ! -e go ]; do sleep 0.01; done; echo said; echo complained >&2; exit 3");
  request.streams = {-1, out[1], error[1]};
  request.held = {out[0], error[0], life[0]};
  request.held_log = In("log");
  ASSERT_TRUE(launcher_->Launch(request));
  for (int* ends : {out, error, life}) {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  std::ofstream(Work("go")) << "x";
  EXPECT_EQ(AwaitExit(request.job).code, 3);
  const std::string log = ReadText(In("log"));
  EXPECT_NE(log.find("said\n"), std::string::npos) << log;
  EXPECT_NE(log.find("complained\n"), std::string::npos) << log;
}

TEST_F(Launch, EnvironmentDirectoryAndUmaskAreThoseRequested) {
  LaunchRequest request = Shell("env | grep -v PWD | grep -v _= | sort; pwd; umask");
  request.environment = {"PATH=/usr/bin:/bin", "COLOUR=blue"};
  request.umask = 027;
  Run(request);
  EXPECT_EQ(Output(), "COLOUR=blue\nPATH=/usr/bin:/bin\n" + In("work") + "\n0027\n");
}

TEST_F(Launch, SoftLimitsAreSetAndCappedAtTheHardOnes) {
  LaunchRequest request = Shell("ulimit -Sn; ulimit -Sc; [ $(ulimit -Hn) -gt 99 ]");
  request.limits = {{"nofile", 99}, {"core", -1}, {"unheard_of", 1}};
  EXPECT_EQ(Run(request).code, 0);
  EXPECT_EQ(Output().substr(0, 3), "99\n");
  request = Shell("[ $(ulimit -Sn) = $(ulimit -Hn) ]");
  request.limits = {{"nofile", 1LL << 50}};
  EXPECT_EQ(Run(request).code, 0);
}

TEST_F(Launch, TheRequestCannotSetHardLimits) {
  LaunchRequest request = Shell("ulimit -Sn; [ $(ulimit -Hn) -ne 111 ]");
  request.limits = {{"nofile", 99}, {"nofile.hard", 111}};
  EXPECT_EQ(Run(request).code, 0);
  EXPECT_EQ(Output(), "99\n");
}

TEST_F(Launch, OnlyTheStreamsAreOpenAndNoSignalIsBlockedOrIgnored) {
  Run(Shell("ls /proc/self/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\n\\t'"));
  EXPECT_EQ(Output(), "0 1 2 3 SigBlk:0000000000000000SigIgn:0000000000000000");  // 3: the folder that ls reads.
}

TEST_F(Launch, ProgramIsFoundInThePathOfTheJob) {
  ::mkdir(Work("bin").c_str(), 0755);
  std::ofstream(Work("bin/hello")) << "echo found without a first line\n";
  ::chmod(Work("bin/hello").c_str(), 0755);
  LaunchRequest request = Command({"hello"});
  request.environment = {"PATH=/nowhere:bin:/usr/bin"};
  EXPECT_EQ(Run(request).code, 0);
  EXPECT_EQ(Output(), "found without a first line\n");
}

TEST_F(Launch, AMissingProgramIsNamed) {
  const Exit exit = Run(Command({"trian.py"}));
  EXPECT_EQ(exit.failure, "cannot run 'trian.py': No such file or directory");
  EXPECT_EQ(exit.code, 127);
  EXPECT_TRUE(started_.empty());
  EXPECT_EQ(Run(Command({"./trian.py"})).failure, "cannot run './trian.py': No such file or directory");
}

TEST_F(Launch, AFileThatMayNotBeExecutedIsNamed) {
  std::ofstream(Work("data")) << "x";
  const Exit exit = Run(Command({"./data"}));
  EXPECT_EQ(exit.failure, "cannot run './data': Permission denied");
  EXPECT_EQ(exit.code, 126);
}

TEST_F(Launch, AMissingInterpreterDiffersFromAMissingFile) {
  std::ofstream(Work("tool")) << "#!/usr/bin/pyhton\n";
  ::chmod(Work("tool").c_str(), 0755);
  EXPECT_EQ(Run(Command({"./tool"})).failure, "cannot run './tool': the interpreter in its first line does not exist");
}

TEST_F(Launch, DirectoriesAndFilesThatCannotBeOpenedAreNamed) {
  LaunchRequest request = Command({"true"});
  request.directory = "/nowhere";
  EXPECT_EQ(Run(request).failure, "cannot enter directory '/nowhere': No such file or directory");
  request = Command({"true"});
  request.output = "/nowhere/out";
  request.directory_timeout = 1ms;
  EXPECT_EQ(Run(request).failure,
            "cannot open '/nowhere/out': its directory '/nowhere' does not exist and was not created within 1 ms; "
            "create it before the job starts, or choose another file with --output");
  request = Command({"true"});
  request.input = "absent";
  EXPECT_EQ(Run(request).failure, "cannot open 'absent' for reading: No such file or directory");
  request = Command({"true"});
  request.is_own_log = true;
  request.output = "/nowhere/log";
  const Exit exit = Run(request);
  EXPECT_EQ(exit.failure, "cannot open '/nowhere/log' for writing: No such file or directory");
  EXPECT_EQ(exit.code, kMachineCannot) << "no other job could keep a log there";
}

TEST_F(Launch, ANamedPipeWithoutAReaderFailsInsteadOfBlocking) {
  ASSERT_EQ(::mkfifo(Work("pipe").c_str(), 0666), 0);
  LaunchRequest request = Command({"true"});
  request.output = Work("pipe");
  EXPECT_EQ(Run(request).failure, "cannot open '" + Work("pipe") + "' for writing: No such device or address");
}

TEST_F(Launch, RecordOfAJobThatDidNotStartHasNoProcess) {
  const LaunchRequest request = Command({"trian.py"});
  Run(request);
  const RunRecord record = ScanFor(request.job);
  EXPECT_EQ(StateOf(record), RunState::kEnded);
  EXPECT_EQ(record.process.pid, 0);
  EXPECT_EQ(record.exit->failure, "cannot run 'trian.py': No such file or directory");
}

TEST_F(Launch, ScriptRunsWithItsInterpreterLineAndArguments) {
  LaunchRequest request =
      Script("#!/bin/bash -e\necho ${BASH_VERSION:+bash} $- $(basename $0) \"$@\"\nfalse\necho not reached\n");
  request.arguments = {"a b", "c"};
  EXPECT_EQ(Run(request).code, 1);
  EXPECT_EQ(Output(), "bash ehB " + ToString(request.job) + ".train.sh a b c\n");
  EXPECT_FALSE(std::filesystem::exists(RunDirectory() + "/" + ToString(request.job) + ".train.sh"));
}

TEST_F(Launch, ScriptWithoutAnInterpreterLineRunsInSh) {
  EXPECT_EQ(Run(Script("echo hello\nexit 4\n")).code, 4);
  EXPECT_EQ(Output(), "hello\n");
}

TEST_F(Launch, ScriptWithAMissingInterpreterSaysSo) {
  EXPECT_EQ(Run(Script("#!/usr/bin/pyhton3\n")).failure,
            "cannot run 'train.sh': its interpreter '/usr/bin/pyhton3': No such file or directory");
  EXPECT_EQ(Run(Script("#!/bin/bash\r\necho\r\n")).failure,
            "cannot run 'train.sh': its interpreter '/bin/bash': No such file or directory "
            "(its first line ends in a carriage return, as on Windows; fix it with dos2unix)");
}

TEST_F(Launch, RootDaemonRunsTheJobAsItsUserWithItsGroups) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  LaunchRequest request = Script("#!/bin/sh\nid -u; id -g; id -G\ngrep CapEff /proc/self/status\ncat $0 | head -1\n");
  request.uid = kNobody;
  request.gid = kNobody;
  request.is_own_log = true;
  request.output = In("log");  // In a folder that the user cannot write.
  EXPECT_EQ(Run(request).code, 0);
  EXPECT_EQ(ReadText(In("log")), "65534\n65534\n65534\nCapEff:\t0000000000000000\n#!/bin/sh\n");
  struct stat status = {};
  ASSERT_EQ(::stat(In("log").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, static_cast<uid_t>(kNobody));
  EXPECT_EQ(status.st_mode & 07777, 0600U);
}

TEST_F(Launch, UsersFilesAreOpenedWithTheUsersRights) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  for (const bool wants_pty : {false, true}) {
    LaunchRequest request = Shell("echo");
    request.uid = kNobody;
    request.gid = kNobody;
    request.wants_pty = wants_pty;
    request.output = In("forbidden");
    EXPECT_EQ(Run(request).failure, "cannot open '" + In("forbidden") + "' for writing: Permission denied");
  }
  ::mkdir(In("secret").c_str(), 0700);
  LaunchRequest request = Shell("echo");
  request.uid = kNobody;
  request.gid = kNobody;
  request.directory = In("secret");
  EXPECT_EQ(Run(request).failure, "cannot enter directory '" + In("secret") + "': Permission denied");
}

TEST_F(Launch, SupervisorRunsTheNextJobAndForgetsTheLast) {
  const LaunchRequest big = Command({"python3", "-c", "x = bytearray(160_000_000)\nfor i in range(300_000): pass"});
  if (Run(big).code != 0) GTEST_SKIP() << "needs python3";
  const LaunchRequest small = Command({"true"});
  const Exit exit = Run(small);
  EXPECT_EQ(exited_[small.job.value()].supervisor, exited_[big.job.value()].supervisor);
  EXPECT_GT(exited_[big.job.value()].exit->memory_peak, 150_MiB);
  EXPECT_LT(exit.memory_peak, 100_MiB);  // Sanitizers use 60 MiB themselves.
  EXPECT_GT(exited_[big.job.value()].exit->cpu_time, std::chrono::milliseconds(5));
  EXPECT_LT(exit.cpu_time, exited_[big.job.value()].exit->cpu_time);
}

TEST_F(Launch, MemoryLimitEndsAJobThatExceedsIt) {
  if (!CanEnforceMemory()) GTEST_SKIP() << "no memory cgroup that we may write: limits are advisory here";
  LaunchRequest request = Shell("head -c 200000000 /dev/zero | tail");
  request.memory_limit = 32_MiB;
  const Exit exit = Run(request);
  EXPECT_TRUE(exit.was_oom_killed);
  EXPECT_GT(exit.memory_peak, 24_MiB);
  EXPECT_LE(exit.memory_peak, 32_MiB);
  EXPECT_FALSE(std::filesystem::exists(exited_[request.job.value()].cgroup)) << "the cgroup is left";
  request = Shell("exit 3");
  request.memory_limit = 32_MiB;
  const Exit small = Run(request);
  EXPECT_EQ(small.code, 3);
  EXPECT_FALSE(small.was_oom_killed);
}

TEST_F(Launch, ARepeatedLaunchOfOneAttemptRunsOnce) {
  LaunchRequest request = Shell("echo ran >> ran");
  ASSERT_TRUE(launcher_->Launch(request));
  ASSERT_TRUE(launcher_->Launch(request));
  AwaitExit(request.job);
  ASSERT_TRUE(launcher_->Launch(request));  // Repeats the launch; its record still exists.
  // The supervisor that takes the repeated launch sees the record and becomes idle before it takes this job.
  Run(Command({"true"}));
  EXPECT_EQ(Output("ran"), "ran\n");
}

TEST_F(Launch, ALaterAttemptReplacesTheRecordOfAnEarlierOne) {
  LaunchRequest request = Shell("exit 1");
  Run(request);
  exited_.clear();
  request.attempt = 2;
  request.argv = {"true"};
  EXPECT_EQ(Run(request).code, 0);
  EXPECT_EQ(ScanFor(request.job).attempt, 2U);
}

}  // namespace launch_test
}  // namespace divvy

// The launcher that the tests start is this very program. This stands in for a job's step process as its supervisor
// sees it: it reports a port and stays until SIGTERM.
int StandInForSteps() {
  ::prctl(PR_SET_NAME, "divvy-steps");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  static_cast<void>(!::write(1, "40001\n", 6));
  for (int signal = 0; signal != SIGTERM;) ::sigwait(&all, &signal);
  return 0;
}

int main(int argc, char** argv) {
  const auto allocation_main = [](const std::vector<std::string>& words) {
    return divvy::RunNodeAllocation(
        words,
        [](const divvy::GangFile& gang, const std::string&) {
          return std::vector<std::string>{"GANG_HOST=" + gang.members.front().address.host, "MINE=no"};
        },
        [](const std::vector<std::string>&) { return StandInForSteps(); });
  };
  if (argc == 3 && std::strcmp(argv[1], "internal-launcher") == 0)
    return divvy::LauncherMain(std::atoi(argv[2]), allocation_main);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
