// Run records of jobs that the controller does not know, with a real process that must survive.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "daemon/node/node.h"
#include "platform/os/process_tree.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace node_found_test {

class NoLaunches final : public Launcher {
 public:
  Status Launch(const LaunchRequest&) override { return {}; }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RemoveRecord(const RunRecord& record) override { RemoveRunRecord(run_directory, record); }
  void RepeatLost() override {}

  std::string run_directory;
};

/// A controller that knows no job until it adopts one.
class Forgetful final : public ControllerPort {
 public:
  Time Now() const override { return Time(std::chrono::hours(500'000)); }
  void OnPrepared(JobId, std::uint32_t, std::uint16_t) override {}
  void OnStarted(JobId, std::uint32_t, Time) override {}
  void OnExited(JobId job, std::uint32_t, const Exit& exit, Time) override { exits[job] = exit; }
  void OnVanished(JobId, std::uint32_t, RunVanished) override {}
  void OnGpusObserved(const std::vector<GpuObservation>&) override {}
  bool OnFound(const RunDescription& run) override {
    if (decides) found[run.record.id] = run;
    return decides;
  }
  std::vector<JobId> ActiveRuns() const override { return {}; }
  const JobRecord* Find(JobId) const override { return nullptr; }
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord&) const override { return NotFound("none"); }

  bool decides = true;  // False: behaves like a controller of an earlier release.
  std::map<JobId, RunDescription> found;
  std::map<JobId, Exit> exits;
};

class UnknownRecords : public testing::Test {
 protected:
  UnknownRecords() {
    std::string pattern = testing::TempDir() + "divvy-node-found-test.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directory(folder_ + "/runs");
    child_ = ::fork();
    if (child_ == 0) {
      ::setsid();
      ::execlp("sleep", "sleep", "600", nullptr);
      ::_exit(127);
    }
    NodeOptions options;
    options.run_directory = launcher_.run_directory = folder_ + "/runs";
    options.log_directory = folder_;
    options.uid = ::geteuid();
    node_ = std::make_unique<Node>(std::move(options), launcher_, std::vector<GpuFacts>(4));
    node_->Join(controller_);
    node_->SetWatch([this](int, std::function<void()> on_readable) { on_exit_ = std::move(on_readable); });
  }
  ~UnknownRecords() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_ + "/runs/17"; }
  /// Writes the record as a supervisor and its guard leave it when they are killed.
  void WriteRecord() {
    RunRecord record;
    record.job = JobId(17);
    record.attempt = 3;
    record.uid = ::geteuid();
    record.gid = ::getegid();
    record.process = IdentifyProcess(child_);
    record.started = Time(std::chrono::hours(499'999));
    RunDescription about;
    about.record.id = record.job;
    about.record.attempt = record.attempt;
    about.record.user = {::geteuid(), ::getegid(), "ada"};
    about.record.gpus = GpuSet::Of({1});
    RecordWriter out;
    out.Add("about", wire::EncodeAgent(about));
    AddWatch(record, out);
    AddProcess(record, out);
    const Descriptor file(::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::write(file.get(), out.text().data(), out.text().size()), static_cast<ssize_t>(out.text().size()));
  }
  bool IsChildAlive() const { return ::waitpid(child_, nullptr, WNOHANG) == 0; }

  std::string folder_;
  pid_t child_ = -1;
  NoLaunches launcher_;
  Forgetful controller_;
  std::unique_ptr<Node> node_;
  std::function<void()> on_exit_;
};

TEST_F(UnknownRecords, TheProcessIsLeftAloneAndReported) {
  WriteRecord();
  ASSERT_TRUE(node_->AdoptRuns(false));
  node_->CheckSupervisors();
  EXPECT_TRUE(IsChildAlive());
  EXPECT_TRUE(std::filesystem::exists(path()));
  ASSERT_TRUE(controller_.found.contains(JobId(17)));
  const RunDescription& run = controller_.found.at(JobId(17));
  EXPECT_EQ(run.record.user.name, "ada");
  EXPECT_EQ(run.record.gpus, GpuSet::Of({1}));
  EXPECT_EQ(run.record.state, JobState::kRunning);
  EXPECT_TRUE(controller_.exits.empty());
}

TEST_F(UnknownRecords, AnAdoptedRunReportsItsEndAndKeepsItsRecordUntilThatIsDurable) {
  WriteRecord();
  ASSERT_TRUE(node_->AdoptRuns(false));
  node_->Execute(AdoptCommand{controller_.found.at(JobId(17)).record, ""}, nullptr);
  ::kill(child_, SIGKILL);
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(on_exit_);
  on_exit_();
  EXPECT_TRUE(controller_.exits.contains(JobId(17)));
  EXPECT_TRUE(std::filesystem::exists(path()));
  node_->Execute(ForgetCommand{JobId(17), 3, ""}, nullptr);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(UnknownRecords, AStopOrderEndsTheRunAndItsEndIsReportedAsFound) {
  WriteRecord();
  ASSERT_TRUE(node_->AdoptRuns(false));
  node_->Execute(StopCommand{JobId(17), SIGTERM, Duration(-1), ""}, nullptr);
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  on_exit_();
  EXPECT_TRUE(controller_.found.at(JobId(17)).exit.has_value());
  EXPECT_TRUE(controller_.exits.empty());
}

TEST_F(UnknownRecords, WithAnOlderControllerUnknownRunsAreEnded) {
  controller_.decides = false;
  WriteRecord();
  ASSERT_TRUE(node_->AdoptRuns(false));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(UnknownRecords, ARecordThatOthersCouldHaveWrittenIsIgnored) {
  WriteRecord();
  ASSERT_EQ(::chmod(path().c_str(), 0666), 0);
  ASSERT_TRUE(node_->AdoptRuns(false));
  EXPECT_TRUE(controller_.found.empty());
  EXPECT_TRUE(IsChildAlive());
}

}  // namespace node_found_test
}  // namespace divvy
