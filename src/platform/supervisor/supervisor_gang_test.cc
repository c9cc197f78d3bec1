// Tests a gang's node allocation under its supervisor: it is prepared, waits, starts on the signal, and survives what
// any job survives.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "model/exit_codes.h"
#include "platform/records/gang_files.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/launch_test_world.h"
#include "platform/supervisor/node_allocation_start.h"
#include "platform/supervisor/supervisor_adoption.h"

namespace divvy {
namespace supervisor_gang_test {

using namespace std::chrono_literals;  // NOLINT

const std::string kKey(64, 'a');

class GangSupervisor : public LaunchTest {
 protected:
  LaunchRequest Part(const std::string& text, std::uint32_t index = 0) {
    LaunchRequest request = text.empty() ? Command({}) : Shell(text);
    request.gang.starter = std::filesystem::read_symlink("/proc/self/exe");
    request.gang.index = index;
    request.gang.key = kKey;
    request.environment.push_back("DIVVY_JOB_ID=" + ToString(request.job));
    EXPECT_TRUE(MakeStepFolder(RunDirectory(), ::geteuid(), ::getegid()));
    return request;
  }
  std::string Steps(JobId job) const { return StepListPath(RunDirectory(), ::geteuid(), job.value()); }
  bool IsPrepared(JobId job) { return prepared_.contains(job.value()) && prepared_[job.value()].port != 0; }
  RunRecord Prepare(const LaunchRequest& request) {
    EXPECT_TRUE(launcher_->Launch(request));
    EXPECT_TRUE(AwaitReports([&] { return IsPrepared(request.job) || exited_.contains(request.job.value()); }));
    EXPECT_TRUE(IsPrepared(request.job)) << exited_[request.job.value()].exit.value_or(Exit()).failure;
    return prepared_[request.job.value()];
  }
  void LayReady(const RunRecord& record) {
    GangFile gang;
    gang.job = record.job.value();
    gang.attempt = record.attempt;
    gang.members = {{"n1", {"10.0.0.1", 40001}, {}, 1}, {"n2", {"10.0.0.2", 40002}, {}, 1}};
    ASSERT_TRUE(StageGo(Steps(record.job), GangFileText(gang), ::geteuid(), ::getegid()));
  }
  void Go(const RunRecord& record) {
    LayReady(record);
    ASSERT_TRUE(SendGo(record));
    EXPECT_TRUE(AwaitReports([&] { return started_.contains(record.job.value()); })) << "did not go";
  }
  /// Requests the supervisor's present state and waits for it.
  RunRecord StateNow(const RunRecord& record) {
    prepared_.erase(record.job.value());
    EXPECT_TRUE(SendPing(record));
    EXPECT_TRUE(AwaitReports([&] { return prepared_.contains(record.job.value()); }));
    return prepared_[record.job.value()];
  }
  void KillSupervisor(const RunRecord& record) {
    ASSERT_EQ(::kill(static_cast<pid_t>(record.supervisor.pid), SIGKILL), 0);
    EXPECT_TRUE(Eventually([&] { return !IsAlive(record.supervisor); }));
  }
  /// Waits for the first report of the guard.
  RunRecord TakenOver(const RunRecord& before) {
    EXPECT_TRUE(AwaitReports([&] { return prepared_[before.job.value()].supervisor == before.guard; }));
    return prepared_[before.job.value()];
  }
};

TEST_F(GangSupervisor, NothingRunsBeforeTheGoSignal) {
  const LaunchRequest request = Part("echo ran; echo $GANG_HOST $MINE");
  LaunchRequest with_own = request;
  with_own.environment.push_back("MINE=yes");
  const RunRecord record = Prepare(with_own);
  EXPECT_EQ(record.port, 40001);
  EXPECT_TRUE(record.awaits_go());
  StateNow(record);
  EXPECT_EQ(Output(), "");
  EXPECT_FALSE(started_.contains(record.job.value()));
  Go(record);
  EXPECT_TRUE(started_[record.job.value()].has_gone);
  EXPECT_EQ(AwaitExit(record.job).code, 0);
  EXPECT_EQ(Output(), "ran\n10.0.0.1 yes\n");
}

TEST_F(GangSupervisor, ScriptRunsWithItsInterpreterLine) {
  LaunchRequest request = Part("");
  request.script = "#!/bin/sh\necho script $1\n";
  request.script_name = "train.sh";
  request.arguments = {"one"};
  const RunRecord record = Prepare(request);
  Go(record);
  EXPECT_EQ(AwaitExit(record.job).code, 0);
  EXPECT_EQ(Output(), "script one\n");
}

TEST_F(GangSupervisor, TheKeyIsOnlyInAFileOfItsUser) {
  const RunRecord record = Prepare(Part("sleep 1000"));
  EXPECT_EQ(ReadGangKey(Steps(record.job)).value_or(""), kKey);
  const std::string proc = "/proc/" + std::to_string(record.process.pid);
  EXPECT_EQ(ReadText(proc + "/environ").find(kKey), std::string::npos);
  EXPECT_EQ(ReadText(proc + "/cmdline").find(kKey), std::string::npos);
}

/// True if `text` is anywhere in the writable memory of that process.
bool HasInMemory(const ProcessIdentity& process, const std::string& text) {
  const std::string proc = "/proc/" + std::to_string(process.pid);
  std::ifstream maps(proc + "/maps");
  std::ifstream memory(proc + "/mem", std::ios::binary);
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw") == std::string::npos) continue;
    char* end = nullptr;
    const unsigned long long begin = std::strtoull(line.c_str(), &end, 16);
    const unsigned long long behind = std::strtoull(end + 1, nullptr, 16);
    if (behind - begin > (1ULL << 30)) continue;  // A sanitizer's mapping: terabytes that are not in use.
    std::string bytes(behind - begin, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(begin));
    memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (bytes.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_F(GangSupervisor, ItsMemoryContainsNothingOfAnotherUsersJob) {
  if (!IsRoot()) GTEST_SKIP() << "needs root: jobs of two users";
  std::vector<JobId> others;
  const auto launch_other = [&] {
    LaunchRequest other = Shell("exit 0");
    other.uid = other.gid = kNobody;
    for (int entry = 0; entry < 300; ++entry) other.environment.push_back("OTHERS=" + std::string(60, 's'));
    EXPECT_TRUE(launcher_->Launch(other));
    others.push_back(other.job);
    return other.job;
  };
  const auto check = [&] {
    const RunRecord record = Prepare(Part("exit 17"));
    EXPECT_FALSE(HasInMemory(record.process, "OTHERS=ss"));
    EXPECT_TRUE(HasInMemory(record.process, "exit 17")) << "its memory was not read";
    for (const JobId other : others) EXPECT_NE(record.supervisor, exited_[other.value()].supervisor);
    Go(record);
    AwaitExit(record.job);
  };
  check();
  // After these supervisors have run another user's jobs, including the one that had this job.
  for (int i = 0; i < 8; ++i) AwaitExit(launch_other());
  check();
  // While other launches are still on their way to their supervisors.
  for (int i = 0; i < 8; ++i) launch_other();
  check();
}

TEST_F(GangSupervisor, ItHasNoOpenFilesAndItsCommandLineNamesItsRole) {
  LaunchRequest request = Part("sleep 1000");
  const RunRecord record = Prepare(request);
  const std::string proc = "/proc/" + std::to_string(record.process.pid);
  std::string shown = ReadText(proc + "/cmdline");
  EXPECT_NE(shown.find(" internal-seat " + Steps(record.job) + " 0 "), std::string::npos) << shown;
  EXPECT_NE(ReadText(proc + "/environ").find(std::string("\0DIVVY_JOB_ID=", 14) + ToString(record.job)),
            std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    const bool is_own =
        target.empty() || target == "/dev/null" || target.starts_with(In("work")) || target.starts_with("anon_inode:");
    EXPECT_TRUE(is_own) << entry.path() << " -> " << target;
  }
  const std::string status = ReadText(proc + "/status");
  EXPECT_NE(status.find("SigBlk:\t0000000000000000"), std::string::npos) << status;
  EXPECT_NE(status.find("SigIgn:\t0000000000000000"), std::string::npos) << status;
  EXPECT_NE(status.find("SigCgt:\t0000000000000000"), std::string::npos) << status;
}

TEST_F(GangSupervisor, AMemberWithoutAProgramRunsUntilItIsStopped) {
  const RunRecord record = Prepare(Part("", 1));
  Go(record);
  ASSERT_TRUE(SendSignal(record, SIGUSR1));  // A signal for the tasks of steps.
  ASSERT_TRUE(SendPing(record));
  EXPECT_TRUE(IsAlive(record.process));
  ASSERT_TRUE(SendStop(record, SIGTERM, 10s));
  const Exit exit = AwaitExit(record.job);
  EXPECT_EQ(exit.code, 0);
  EXPECT_EQ(exit.failure, "");
}

TEST_F(GangSupervisor, StoppedBeforeTheGoSignalItRunsNothing) {
  const RunRecord record = Prepare(Part("echo ran"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 10s));
  const Exit exit = AwaitExit(record.job);
  EXPECT_EQ(exit.signal, SIGTERM);
  EXPECT_EQ(exit.failure, "");
  EXPECT_EQ(Output(), "");
  EXPECT_FALSE(std::filesystem::exists(Steps(record.job) + ".seat"));
}

TEST_F(GangSupervisor, AMemberWithoutAProgramCanBeStoppedBeforeTheGoSignal) {
  const RunRecord record = Prepare(Part("", 1));
  ASSERT_TRUE(SendStop(record, SIGTERM, 10s));
  EXPECT_EQ(AwaitExit(record.job).signal, SIGTERM);
}

TEST_F(GangSupervisor, ARepeatedGoSignalStartsOneProgram) {
  const RunRecord record = Prepare(Part("echo ran; read line < wait"));
  ASSERT_EQ(::mkfifo(Work("wait").c_str(), 0666), 0);
  Go(record);
  ASSERT_TRUE(AwaitOutput("ran"));
  started_.clear();
  Go(record);
  std::ofstream(Work("wait")) << "\n";
  EXPECT_EQ(AwaitExit(record.job).code, 0);
  EXPECT_EQ(Output(), "ran\n");
}

TEST_F(GangSupervisor, TheTimeLimitCountsFromTheGoSignal) {
  LaunchRequest request = Part("sleep 1000");
  request.time_limit = 1ms;
  const RunRecord record = Prepare(request);
  ASSERT_TRUE(SendTimeLimit(record, 2ms));
  StateNow(record);
  EXPECT_TRUE(IsAlive(record.process));
  Go(record);
  EXPECT_TRUE(AwaitExit(record.job).hit_time_limit);
}

TEST_F(GangSupervisor, AProgramThatCannotBeStartedIsReportedBeforeOthersWait) {
  LaunchRequest request = Part("x");
  request.argv = {"no-such-program"};
  const Exit exit = Run(request);
  EXPECT_FALSE(IsPrepared(request.job));
  EXPECT_EQ(exit.code, 127);
  EXPECT_EQ(exit.failure, "cannot run 'no-such-program': No such file or directory");

  request = Part("");
  request.script = "#!/no/such/shell\n";
  request.script_name = "train.sh";
  EXPECT_EQ(Run(request).failure, "cannot run 'train.sh': its interpreter '/no/such/shell': No such file or directory");

  request = Part("true");
  request.gang.key = "short";
  EXPECT_EQ(Run(request).failure, "the key of a job on several nodes must have 64 hexadecimal digits");
}

TEST_F(GangSupervisor, WithoutAGoSignalItTimesOut) {
  LaunchRequest request = Part("echo ran");
  request.gang.go_within = 20ms;
  const Exit exit = Run(request);
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.failure.find("got no message from the controller"), std::string::npos) << exit.failure;
  EXPECT_EQ(Output(), "divvy: " + exit.failure + "\n");
}

TEST_F(GangSupervisor, TheGoSignalOfAnEarlierAttemptIsIgnored) {
  LaunchRequest request = Part("echo ran");
  RunRecord earlier;
  earlier.job = request.job;
  LayReady(earlier);
  ASSERT_TRUE(SayGo(Steps(request.job)));
  const RunRecord record = Prepare(request);
  StateNow(record);
  EXPECT_EQ(Output(), "");
}

TEST_F(GangSupervisor, ItEndsWithItsStepProcess) {
  const RunRecord waiting = Prepare(Part("echo ran"));
  const RunRecord going = Prepare(Part("", 1));
  Go(going);
  for (const RunRecord& record : {waiting, going}) {
    for (const auto& one : std::filesystem::directory_iterator("/proc")) {
      const auto pid = std::atoi(one.path().filename().c_str());
      if (pid > 0 && ReadText(one.path().string() + "/comm") == "divvy-steps\n" &&
          ReadText(one.path().string() + "/cmdline").find(Steps(record.job)) != std::string::npos) {
        ::kill(pid, SIGKILL);
      }
    }
    const Exit exit = AwaitExit(record.job);
    EXPECT_EQ(exit.code, 1);
    EXPECT_EQ(exit.failure, "the job's step process on this node has ended");
  }
}

TEST_F(GangSupervisor, AJobCannotBlameItsNode) {
  const RunRecord record = Prepare(Part("echo failure=x >" + Steps(JobId(17)) + ".seat; exit 121"));
  ASSERT_EQ(record.job, JobId(17)) << "the script names another job's file";
  Go(record);
  const Exit exit = AwaitExit(record.job);
  EXPECT_EQ(exit.failure, "x");
  EXPECT_FALSE(IsMachinesFault(exit));
}

TEST_F(GangSupervisor, TheNextDaemonFindsItReady) {
  const LaunchRequest request = Part("echo ran");
  const std::int64_t supervisor = Prepare(request).supervisor.pid;
  StopDaemon();
  StartDaemon();
  RunRecord record = ScanFor(request.job);
  EXPECT_EQ(StateOf(record), RunState::kWatched);
  EXPECT_TRUE(record.awaits_go());
  EXPECT_EQ(record.port, 40001);
  EXPECT_EQ(record.supervisor.pid, supervisor);
  Go(record);
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  record = ScanFor(request.job);
  EXPECT_TRUE(record.has_gone);
  EXPECT_TRUE(record.exit);
}

TEST_F(GangSupervisor, ItsGuardCanStartTheProgram) {
  const LaunchRequest request = Part("echo ran");
  const RunRecord record = Prepare(request);
  KillSupervisor(record);
  const RunRecord taken = TakenOver(record);
  EXPECT_EQ(taken.port, 40001);
  Go(taken);
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  EXPECT_EQ(Output(), "ran\n");
}

TEST_F(GangSupervisor, ItsGuardCompletesAGoSignalOfAKilledSupervisor) {
  LaunchRequest request = Part("echo ran");
  const RunRecord record = Prepare(request);
  LayReady(record);
  // Simulates a supervisor that was killed between the record and the signal to start.
  std::ofstream(RunDirectory() + "/" + ToString(request.job), std::ios::app) << "gone=1\n";
  KillSupervisor(record);
  EXPECT_EQ(AwaitExit(request.job).code, 0);
  EXPECT_EQ(Output(), "ran\n");
}

TEST_F(GangSupervisor, WithoutSupervisorAndGuardItStillWaits) {
  const LaunchRequest request = Part("echo ran");
  const RunRecord record = Prepare(request);
  ASSERT_EQ(::kill(static_cast<pid_t>(record.guard.pid), SIGKILL), 0);
  KillSupervisor(record);
  ASSERT_TRUE(Eventually([&] { return StateOf(ScanFor(request.job)) == RunState::kOrphaned; }));
  EXPECT_TRUE(ScanFor(request.job).awaits_go());
  EXPECT_FALSE(WentAt(Steps(request.job)));
  EXPECT_EQ(Output(), "");
  LayReady(record);
  EXPECT_TRUE(SayGo(Steps(request.job)));
  EXPECT_TRUE(WentAt(Steps(request.job)));
  EXPECT_TRUE(AwaitOutput("ran"));
  EXPECT_TRUE(Eventually([&] { return !IsAlive(record.process); }));
  // Its step process is left; only a daemon that finds it would end it.
  EXPECT_TRUE(Eventually(
      [&] { return SignalLeftBehind(record.process, "DIVVY_JOB_ID=" + ToString(request.job), SIGKILL) == 0; }));
}

}  // namespace supervisor_gang_test
}  // namespace divvy
