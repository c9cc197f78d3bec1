// The processes of a displaced job stay stopped, whatever else happens to its run.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/node_driver.h"

namespace divvy {
namespace displaced_runs_test {

struct FakeHost final : RunHost {
  bool HasCaller(JobId) const override { return true; }
  void DropCaller(JobId) override {}
  std::variant<RunRecord, Exit> Launch(const LaunchCommand& command, const JobSpec&) override {
    RunRecord record;
    record.job = command.record.id;
    record.attempt = command.record.attempt;
    return record;
  }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RepeatLost() override {}
  Result<std::vector<RunRecord>> Scan() const override { return on_disk; }
  Result<RunRecord> Read(JobId) const override { return NotFound("there is no record"); }
  RunState StateOf(const RunRecord&) const override { return RunState::kWatched; }
  Result<RunRecord> AwaitProcess(RunRecord record) const override { return record; }
  void RemoveRecord(const RunRecord&) override {}
  RunDescription Describe(const RunRecord&) const override { return {}; }
  std::string KeptStepsOf(const RunRecord&) const override { return ""; }
  void Stop(const RunRecord& record, int, Duration) override {
    done.emplace_back("stop");
    stopped = record.supervisor.pid;
  }
  void Signal(const RunRecord&, int, SignalReach) override {}
  void Pause(const RunRecord&) override { done.emplace_back("pause"); }
  void Continue(const RunRecord&) override { done.emplace_back("continue"); }
  void SetTimeLimit(const RunRecord&, Duration) override {}
  void Go(const RunRecord&) override {}
  bool Ping(const RunRecord& record) override { return on_disk.empty() || record.control == on_disk[0].control; }
  bool Adopt(const RunRecord&) override { return true; }
  void DropAdopted(JobId) override {}
  int SignalAdopted(const RunRecord&, int, SignalReach) override { return 1; }
  std::optional<Exit> ExitOfAdopted(const RunRecord&) override { return std::nullopt; }
  bool EndLeftovers(const RunRecord&) override { return true; }
  GpuSet GpusHere(const JobRecord& record) const override { return record.gpus; }
  void SetGpusFile(JobId, GpuSet) override {}
  Status StageGo(const RunRecord&, const JobRecord&, const GoCommand&) override { return {}; }
  RunRecord LookAtPart(RunRecord record) const override { return record; }
  void CleanUp(const RunRecord& record, GpuSet, std::function<void(const Exit&)> ended) override {
    ended(*record.exit);
  }
  void OnOver(JobId, std::uint32_t) override {}
  void Note(const std::string&) const override {}

  std::vector<std::string> done;
  std::vector<RunRecord> on_disk;
  std::int64_t stopped = 0;  // The supervisor that was told last to stop its run.
};

struct FakeController final : NodeReportPort {
  Time Now() const override { return Time(std::chrono::hours(1)); }
  void OnPrepared(JobId, std::uint32_t, std::uint16_t) override {}
  void OnStarted(JobId, std::uint32_t, Time) override {}
  void OnExited(JobId, std::uint32_t, const Exit&, Time) override {}
  void OnVanished(JobId, std::uint32_t, RunVanished) override {}
  void OnGpusObserved(const std::vector<GpuObservation>&) override {}
  std::vector<JobId> ActiveRuns() const override { return {record.id}; }
  const JobRecord* Find(JobId job) const override { return job == record.id ? &record : nullptr; }
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord&) const override {
    return std::make_shared<const JobSpec>();
  }

  JobRecord record;
};

using Done = std::vector<std::string>;

class DisplacedRuns : public testing::Test {
 protected:
  DisplacedRuns() {
    driver_.Join(controller_);
    controller_.record.id = JobId(7);
    controller_.record.attempt = 1;
    controller_.record.state = JobState::kRunning;
    driver_.Execute(LaunchCommand{controller_.record, "", 0, true}, std::make_shared<const JobSpec>());
    Report(100);
    host_.done.clear();
  }
  /// The supervisor with this pid reports the run.
  void Report(std::int64_t pid) { driver_.OnReport(NodeDriver::Report::kAlive, RecordOf(pid)); }
  static RunRecord RecordOf(std::int64_t pid) {
    RunRecord record;
    record.job = JobId(7);
    record.attempt = 1;
    record.supervisor.pid = pid;
    record.control = "@" + std::to_string(pid);
    return record;
  }
  Done After(const NodeCommand& command) {
    driver_.Execute(command, nullptr);
    return std::exchange(host_.done, {});
  }
  static DisplaceCommand Displace(bool is_displaced, std::uint32_t attempt = 1) {
    return {JobId(7), attempt, is_displaced, GpuSet(), ""};
  }

  FakeHost host_;
  FakeController controller_;
  NodeDriver driver_{{}, host_};
};

using Supervisors = DisplacedRuns;

TEST_F(Supervisors, ALateReportOfAPredecessorIsCorrectedByTheRunRecord) {
  host_.on_disk = {RecordOf(200)};
  Report(200);
  Report(100);
  driver_.CheckSupervisors();
  driver_.Execute(StopCommand{JobId(7), 0, Duration(0), ""}, nullptr);
  EXPECT_EQ(host_.stopped, 200);
}

TEST_F(DisplacedRuns, AreStoppedUntilTheyReturn) {
  EXPECT_EQ(After(Displace(true)), Done{"pause"});
  EXPECT_EQ(After(PauseCommand{JobId(7), false, ""}), Done{}) << "divvy resume";
  EXPECT_EQ(After(Displace(false)), Done{"continue"});
  EXPECT_EQ(After(PauseCommand{JobId(7), false, ""}), Done{"continue"});
}

TEST_F(DisplacedRuns, StayStoppedUnderANewSupervisor) {
  After(Displace(true));
  Report(101);
  EXPECT_EQ(host_.done, Done{"pause"});
}

TEST_F(DisplacedRuns, StayPausedAfterTheirReturnIfTheUserPausedThem) {
  After(Displace(true));
  controller_.record.state = JobState::kPaused;
  EXPECT_EQ(After(PauseCommand{JobId(7), true, ""}), Done{"pause"});
  EXPECT_EQ(After(Displace(false)), Done{"pause"});
}

TEST_F(DisplacedRuns, CanBeStoppedForGood) {
  After(Displace(true));
  EXPECT_EQ(After(StopCommand{JobId(7), 15, Duration(0), ""}), Done{"stop"});
}

TEST_F(DisplacedRuns, AreNotThoseOfAnotherAttempt) { EXPECT_EQ(After(Displace(true, 2)), Done{}); }

}  // namespace displaced_runs_test
}  // namespace divvy
