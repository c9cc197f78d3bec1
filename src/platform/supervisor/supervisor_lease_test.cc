// Tests jobs on a node with a lease: they run while it is renewed, and are stopped at its end without an agent.
#include <signal.h>

#include <algorithm>
#include <csignal>

#include "platform/os/lease_file.h"
#include "platform/supervisor/launch_test_world.h"
#include "platform/supervisor/supervisor_watch.h"

namespace divvy {
namespace supervisor_lease_test {

using namespace std::chrono_literals;  // NOLINT

constexpr const char* kSaysTerm = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done";
// Nothing is started after a lease's end, and a busy machine may be slow to start the job.
constexpr Duration kWhileItStarts = 2s;
constexpr const char* kCutOff = "its node lost contact with the controller: stopped when the lease ended";

class JobLease : public LaunchTest {
 protected:
  /// Renews the lease like its agent would: jobs must stop `left` from now.
  void Renew(Duration left, bool stops_jobs = true) {
    // Begins as late as possible: no lease can have begun before this machine booted, perhaps a minute ago.
    const Duration length = std::max<Duration>(left, 1ns);
    ASSERT_TRUE(file_.Keep(LeaseNoteText({boot_, BootNow() + left - length, {5s, length, stops_jobs}})));
  }
  LaunchRequest OnLease(LaunchRequest request) {
    request.lease = {.file = In("lease"), .boot_id = "boot-1"};
    return request;
  }
  /// True if the job still runs after the supervisor's check interval and after `lease`.
  bool GoesOn(const RunRecord& record, Duration lease = Duration(0)) {
    const Duration until = MonotonicNow() + std::max(lease, kLeaseLook) + 200ms;
    bool is_running = true;
    EXPECT_TRUE(AwaitReports([&] {
      is_running = is_running && !exited_.contains(record.job.value());
      return !is_running || MonotonicNow() > until;
    }));
    return is_running;
  }

  std::string boot_ = "boot-1";
  LeaseFile file_{In("lease")};
};

TEST_F(JobLease, WithoutARenewalTheJobIsAskedToEndAndThenKilled) {
  Renew(1h);
  LaunchRequest request = OnLease(Shell(kSaysTerm));
  request.grace = 700ms;
  Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  Renew(300ms);
  const Exit exit = AwaitExit(request.job);
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_EQ(exit.failure, kCutOff);
  EXPECT_NE(Output().find("asked\n"), std::string::npos);
  const RunRecord record = ScanFor(request.job);
  EXPECT_TRUE(record.was_cut_off);
  EXPECT_EQ(record.exit->failure, kCutOff);
  EXPECT_GE(record.ended - record.started, 300ms);
}

TEST_F(JobLease, AJobThatEndsWhenAskedCountsAsCutOff) {
  Renew(1h);
  LaunchRequest request = OnLease(Shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"));
  Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  Renew(10ms);
  const Exit exit = AwaitExit(request.job);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.failure, kCutOff);
}

TEST_F(JobLease, TheJobContinuesWhileTheLeaseIsRenewed) {
  Renew(kWhileItStarts);
  const RunRecord record = Start(OnLease(Shell(kSaysTerm)));
  Renew(1h);
  EXPECT_TRUE(GoesOn(record, kWhileItStarts));
  EXPECT_EQ(Output().find("asked"), std::string::npos);
}

TEST_F(JobLease, WithoutALeaseFileOrOfAnotherBootOrWithoutAnAgreementTheJobContinues) {
  const RunRecord without = Start(OnLease(Shell(kSaysTerm)));
  LaunchRequest other = Shell(kSaysTerm);
  other.lease = {.file = In("lease-of-before"), .boot_id = "boot-1"};
  std::ofstream(other.lease.file) << LeaseNoteText({"boot-0", Duration(0), {5s, 1ns, true}});
  const RunRecord before = Start(other);
  LaunchRequest third = Shell(kSaysTerm);
  third.lease = {.file = In("lease-that-stops-nothing"), .boot_id = "boot-1"};
  std::ofstream(third.lease.file) << LeaseNoteText({"boot-1", Duration(0), {5s, 1ns, false}});
  const RunRecord lasting = Start(third);
  EXPECT_TRUE(GoesOn(without));
  EXPECT_FALSE(exited_.contains(before.job.value()));
  EXPECT_FALSE(exited_.contains(lasting.job.value()));
}

TEST_F(JobLease, TermsMayBecomeStricterWhileTheJobRuns) {
  Renew(-1min, false);
  LaunchRequest request = OnLease(Shell(kSaysTerm));
  request.grace = 20ms;
  Start(request);
  Renew(10ms);
  EXPECT_EQ(AwaitExit(request.job).failure, kCutOff);
}

// Simulates a machine that was suspended until the controller had started its jobs elsewhere.
TEST_F(JobLease, LongAfterTheEndOfTheLeaseTheJobIsKilledAtOnce) {
  Renew(1h);
  LaunchRequest request = OnLease(Shell(kSaysTerm));
  request.grace = 1h;
  Start(request);
  Renew(-kFenceGrace);
  EXPECT_EQ(AwaitExit(request.job).signal, SIGKILL);
  EXPECT_EQ(Output().find("asked"), std::string::npos);
}

TEST_F(JobLease, NothingStartsAfterTheEndOfTheLease) {
  Renew(-1ms);
  const LaunchRequest request = OnLease(Shell("echo ran"));
  const Exit exit = Run(request);
  EXPECT_EQ(exit.failure, kCutOff);
  EXPECT_EQ(Output(), "");
}

TEST_F(JobLease, TheGuardEnforcesItAfterItsSupervisor) {
  Renew(1h);
  LaunchRequest request = OnLease(Shell(kSaysTerm));
  request.grace = 20ms;
  const RunRecord record = Start(request);
  ::kill(static_cast<pid_t>(record.supervisor.pid), SIGKILL);
  ASSERT_TRUE(AwaitReports([&] { return started_[record.job.value()].supervisor == record.guard; }));
  Renew(10ms);
  EXPECT_EQ(AwaitExit(request.job).failure, kCutOff);
}

TEST_F(JobLease, TheKnownEndAppliesIfTheFileCannotBeRead) {
  Renew(kWhileItStarts);
  LaunchRequest request = OnLease(Shell(kSaysTerm));
  request.grace = 20ms;
  Start(request);
  std::ofstream(In("lease")) << "nonsense";
  EXPECT_EQ(AwaitExit(request.job).failure, kCutOff);
}

TEST_F(JobLease, AJobAlreadyStoppedIsNotCutOffButIsKilledInTime) {
  Renew(1h);
  LaunchRequest request = OnLease(Shell(kSaysTerm));
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("ready"));
  ASSERT_TRUE(SendStop(record, SIGTERM, 1h));
  ASSERT_TRUE(AwaitOutput("asked"));
  Renew(-kFenceGrace);
  const Exit exit = AwaitExit(request.job);
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_EQ(exit.failure, "");
}

TEST(LeaseFile, IsRemovedIfItCannotBeWrittenAndReportsIt) {
  LeaseFile file("/nowhere/at/all/lease");
  EXPECT_FALSE(file.Keep("x"));
  EXPECT_EQ(ReadLeaseFile("/nowhere/at/all/lease").error().code, ErrorCode::kNotFound);
}

}  // namespace supervisor_lease_test
}  // namespace divvy
