// A node between a controller and supervisors that the test imitates: the effects of commands and reports, above all
// for gangs.
#include "daemon/node/node.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "daemon/node/container.h"
#include "model/steps/gang_file.h"
#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/node_allocation_start.h"

namespace divvy {
namespace node_test {

using namespace std::chrono_literals;  // NOLINT
using Words = std::vector<std::string>;

constexpr std::uint32_t kAttempt = 3;

class KeptLaunches final : public Launcher {
 public:
  Status Launch(const LaunchRequest& request) override {
    launched.push_back(request);
    return {};
  }
  void Confirm(JobId, std::uint32_t) override {}
  bool IsPending(JobId, std::uint32_t) const override { return false; }
  void RemoveRecord(const RunRecord& record) override { RemoveRunRecord(run_directory, record); }
  void RepeatLost() override {}

  std::string run_directory;
  std::vector<LaunchRequest> launched;
};

class KeptFacts final : public ControllerPort {
 public:
  Time Now() const override { return Time(500'000h); }
  void OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) override {
    said.push_back("prepared " + Text(job, attempt) + " " + std::to_string(port));
  }
  void OnStarted(JobId job, std::uint32_t attempt, Time) override { said.push_back("started " + Text(job, attempt)); }
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time) override {
    said.push_back("exited " + Text(job, attempt) + " " + std::to_string(exit.code) + exit.failure);
  }
  void OnVanished(JobId job, std::uint32_t attempt, RunVanished) override {
    said.push_back("vanished " + Text(job, attempt));
  }
  void OnGpusObserved(const std::vector<GpuObservation>&) override {}
  std::vector<JobId> ActiveRuns() const override {
    std::vector<JobId> active;
    for (const auto& [id, record] : live) active.push_back(id);
    return active;
  }
  const JobRecord* Find(JobId job) const override {
    const auto found = live.find(job);
    return found == live.end() ? nullptr : &found->second;
  }
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord&) const override {
    return std::make_shared<const JobSpec>();
  }
  Words Take() { return std::exchange(said, {}); }

  std::map<JobId, JobRecord> live;
  Words said;

 private:
  static std::string Text(JobId job, std::uint32_t attempt) { return ToString(job) + "." + std::to_string(attempt); }
};

class GangNode : public testing::Test {
 protected:
  GangNode() {
    std::string pattern = testing::TempDir() + "divvy-node-test.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directory(folder_ + "/runs");
    EXPECT_TRUE(MakeStepFolder(folder_ + "/runs", ::geteuid(), ::getegid()));
    StartNode();
    auto control = OpenControlSocket();
    control_ = std::move(control->first);
    address_ = control->second;
    EXPECT_TRUE(AdmitCommands(control_.get(), secret_));
  }
  ~GangNode() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void StartNode(const std::string& gpu_libraries = "") {
    NodeOptions options;
    options.gpu_libraries = gpu_libraries;
    options.run_directory = launcher_.run_directory = folder_ + "/runs";
    options.log_directory = folder_;
    options.names = {"host.example.org", "", "n2"};
    options.divvy = "/usr/bin/divvy";
    options.uid = ::geteuid();
    node_ = std::make_unique<Node>(std::move(options), launcher_, std::vector<GpuFacts>(4));
    node_->Join(controller_);
    node_->SetNote([this](const std::string& line) { notes_.push_back(line); });
  }
  /// A gang on n1, n2 and n3; this node is n2.
  static JobRecord Gang() {
    JobRecord record;
    record.id = JobId(17);
    record.attempt = kAttempt;
    record.state = JobState::kStarting;
    record.user = {::geteuid(), ::getegid(), "me"};
    record.gang.resize(3);
    for (std::size_t i = 0; i < 3; ++i) {
      record.gang[i].node = "n" + std::to_string(i + 1);
      record.gang[i].gpus = GpuSet::Of({static_cast<int>(i)});
      record.gang[i].tasks = 2;
    }
    record.gpus = GpuSet::Of({1});
    return record;
  }
  const LaunchRequest& Launch(std::uint32_t index, const JobSpec& spec = Script(), JobRecord record = Gang()) {
    controller_.live[record.id] = record;
    node_->SetGangKey(record.id, record.attempt, "key");
    node_->Execute(LaunchCommand{std::move(record), "", index}, std::make_shared<const JobSpec>(spec));
    EXPECT_FALSE(launcher_.launched.empty());
    return launcher_.launched.back();
  }
  static JobSpec Script() {
    JobSpec spec;
    spec.script = "#!/bin/sh\nsrun train\n";
    spec.directory = "/home/me";
    spec.output = "out.txt";
    return spec;
  }
  GoCommand Go(std::uint32_t attempt = kAttempt) const {
    return {JobId(17), attempt, {{"10.0.0.1", 1001}, {"10.0.0.2", 1002}, {"10.0.0.3", 1003}}, ""};
  }
  RunRecord Part(std::uint16_t port) const {
    RunRecord record;
    record.job = JobId(17);
    record.attempt = kAttempt;
    record.control = address_;
    record.secret = secret_;
    record.uid = ::geteuid();
    record.is_part = true;
    record.process = IdentifyProcess(::getpid());
    record.supervisor = record.process;
    record.port = port;
    return record;
  }
  void Report(SupervisorReport::Kind kind, const RunRecord& record) { node_->OnReport({kind, record, 0}); }
  void Prepared(std::uint16_t port = 1002) { Report(SupervisorReport::Kind::kPrepared, Part(port)); }
  /// The commands that its supervisor has received.
  Words Commands() {
    Words names;
    while (const auto command = ReceiveCommand(control_.get(), ::geteuid()))
      names.emplace_back(RecordFields(command->text).Text("command"));
    return names;
  }
  std::string Steps() const { return StepListPath(folder_ + "/runs", ::geteuid(), 17); }
  static std::string ValueOf(const LaunchRequest& request, const std::string& name) {
    for (const std::string& entry : request.environment) {
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    }
    return "(none)";
  }

  std::string folder_;
  KeptLaunches launcher_;
  KeptFacts controller_;
  std::unique_ptr<Node> node_;
  Descriptor control_;
  std::string address_;
  const std::string secret_ = DrawControlSecret();
  Words notes_;
};

TEST_F(GangNode, TheFirstNodeStartsTheJobsProgram) {
  const LaunchRequest& request = Launch(0);
  EXPECT_EQ(request.gang.starter, "/usr/bin/divvy");
  EXPECT_EQ(request.gang.index, 0u);
  EXPECT_EQ(request.gang.key, "key");
  EXPECT_EQ(request.script, Script().script);
  EXPECT_EQ(request.output, "/home/me/out.txt");
  EXPECT_EQ(ValueOf(request, "DIVVY_NODE"), "n2");
  for (const std::string& entry : request.environment) EXPECT_EQ(entry.find("key"), std::string::npos);
}

TEST_F(GangNode, ACommandIsStartedOncePerTaskOnAllNodes) {
  JobSpec spec;
  spec.command = {"train"};
  spec.directory = "/";
  EXPECT_EQ(Launch(0, spec).argv, (Words{"/usr/bin/divvy", "run", "--tasks=6", "--", "train"}));
}

TEST_F(GangNode, OtherNodesStartNoProgramOfTheUser) {
  JobSpec spec = Script();
  spec.wants_pty = true;
  spec.is_foreground = true;
  spec.input = "in.txt";
  const LaunchRequest& request = Launch(1, spec);
  EXPECT_EQ(request.gang.index, 1u);
  EXPECT_EQ(request.script, "");
  EXPECT_TRUE(request.argv.empty());
  EXPECT_FALSE(request.wants_pty);
  EXPECT_EQ(request.input, "");
  EXPECT_EQ(request.output, folder_ + "/17.log");
  EXPECT_EQ(request.directory, "/home/me");
  EXPECT_EQ(ValueOf(request, "CUDA_VISIBLE_DEVICES"), "1");
}

TEST_F(GangNode, LimitsFollowTheTaskCountOfTheNode) {
  JobRecord record = Gang();
  record.request.spreads_tasks = true;
  record.request.cpus = 12;
  record.request.memory = 6_GiB;
  record.gang[0].tasks = 3;
  record.gang[1].tasks = 1;
  const LaunchRequest& request = Launch(1, Script(), record);
  EXPECT_EQ(request.memory_limit, 1_GiB);
  EXPECT_EQ(ValueOf(request, "DIVVY_CPUS"), "2");
}

TEST_F(GangNode, SlurmVariablesDescribeAllNodes) {
  JobSpec spec = Script();
  spec.dialect = Dialect::kSlurm;
  spec.labels["slurm.ntasks-per-node"] = "2";
  JobRecord record = Gang();
  record.request.cpus = 4;
  const LaunchRequest& request = Launch(1, spec, record);
  EXPECT_EQ(ValueOf(request, "SLURM_JOB_NODELIST"), "n[1-3]");
  EXPECT_EQ(ValueOf(request, "SLURM_NNODES"), "3");
  EXPECT_EQ(ValueOf(request, "SLURM_JOB_NUM_NODES"), "3");
  EXPECT_EQ(ValueOf(request, "SLURM_NODEID"), "1");
  EXPECT_EQ(ValueOf(request, "SLURMD_NODENAME"), "n2");
  EXPECT_EQ(ValueOf(request, "SLURM_TASKS_PER_NODE"), "2(x3)");
  EXPECT_EQ(ValueOf(request, "SLURM_JOB_CPUS_PER_NODE"), "4(x3)");
  EXPECT_EQ(ValueOf(request, "SLURM_CPUS_ON_NODE"), "4");
  EXPECT_EQ(ValueOf(request, "SLURM_NTASKS"), "6");
  EXPECT_EQ(ValueOf(request, "SLURM_JOB_GPUS"), "1");
  EXPECT_EQ(ValueOf(request, "SLURM_GPUS_ON_NODE"), "1");
}

TEST_F(GangNode, CapturedNodeVariablesOfAnotherJobAreDropped) {
  JobSpec spec = Script();
  spec.capture.environment = {"MASTER_PORT=1", "MINE=2"};
  EXPECT_EQ(ValueOf(Launch(0, spec), "MASTER_PORT"), "(none)");
  EXPECT_EQ(ValueOf(Launch(0, spec), "MINE"), "2");
  spec.extra_environment = {"MASTER_PORT=29500"};
  EXPECT_EQ(ValueOf(Launch(0, spec), "MASTER_PORT"), "29500");
}

TEST_F(GangNode, ReportsThatItIsPreparedAndStartsOnOrder) {
  Launch(1);
  Prepared(0);
  EXPECT_EQ(controller_.Take(), Words());
  Prepared();
  EXPECT_EQ(controller_.Take(), Words{"prepared 17.3 1002"});
  node_->Execute(Go(), nullptr);
  EXPECT_EQ(Commands(), Words{"go"});
  EXPECT_FALSE(WentAt(Steps())) << "the supervisor says it";
  ASSERT_TRUE(SayGo(Steps()));
  std::ifstream file(Steps() + ".go");
  const auto gang = ReadGangText(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(gang) << gang.error().message;
  EXPECT_EQ(gang->own, 1u);
  EXPECT_EQ(gang->attempt, kAttempt);
  ASSERT_EQ(gang->members.size(), 3u);
  EXPECT_EQ(gang->members[2], (GangMember{"n3", {"10.0.0.3", 1003}, GpuSet::Of({2}), 2}));
  RunRecord gone = Part(1002);
  gone.has_gone = true;
  Report(SupervisorReport::Kind::kStarted, gone);
  EXPECT_EQ(controller_.Take(), Words{"started 17.3"});
  node_->Execute(Go(), nullptr);
  EXPECT_EQ(Commands(), Words());
}

TEST_F(GangNode, TheGoSignalIsRepeatedToAGuardThatTakesOver) {
  Launch(1);
  Prepared();
  node_->Execute(Go(), nullptr);
  Commands();
  controller_.Take();
  RunRecord guard = Part(1002);
  guard.supervisor.pid += 1;
  Report(SupervisorReport::Kind::kPrepared, guard);
  const Words commands = Commands();
  EXPECT_EQ(std::ranges::count(commands, "go"), 1);
  EXPECT_EQ(controller_.Take(), Words());
}

TEST_F(GangNode, AnInvalidGoSignalIsIgnoredAndLogged) {
  node_->Execute(Go(), nullptr);
  Launch(1);
  Prepared();
  node_->Execute(Go(kAttempt + 1), nullptr);
  GoCommand short_one = Go();
  short_one.addresses.pop_back();
  node_->Execute(short_one, nullptr);
  EXPECT_EQ(Commands(), Words());
  EXPECT_EQ(notes_, (Words{"event=go_ignored job=17 reason=\"not here\"",
                           "event=go_ignored job=17 attempt=4 reason=\"another attempt is here\"",
                           "event=go_ignored job=17 attempt=3 reason=\"its machines are not known\""}));
}

TEST_F(GangNode, AStopBeforeTheGoSignalReachesTheSupervisorOnceItListens) {
  Launch(1);
  node_->Execute(StopCommand{JobId(17), 15, 5s, ""}, nullptr);
  Prepared(0);
  EXPECT_EQ(Commands(), Words{"stop"});
  RunRecord ended = Part(0);
  ended.exit = Exit{.code = 143, .signal = 15};
  Report(SupervisorReport::Kind::kExited, ended);
  EXPECT_EQ(controller_.Take(), Words{"exited 17.3 143"});
}

TEST_F(GangNode, IfTheGoSignalCannotBeWrittenTheTasksEndWithTheReason) {
  Launch(1);
  Prepared();
  std::filesystem::remove_all(folder_ + "/runs/steps-" + std::to_string(::geteuid()));
  node_->Execute(Go(), nullptr);
  EXPECT_EQ(Commands(), Words{"stop"});
  controller_.Take();
  RunRecord ended = Part(1002);
  ended.exit = Exit{.code = 137, .signal = 9};
  Report(SupervisorReport::Kind::kExited, ended);
  EXPECT_EQ(controller_.Take(),
            Words{"exited 17.3 137cannot write '" + Steps() + ".going': No such file or directory"});
}

/// A run record as a supervisor leaves it, and a lock on it while the supervisor lives.
class LeftoverRuns : public GangNode {
 protected:
  void Leave(const RunRecord& record, bool is_locked) {
    RecordWriter text;
    AddWatch(record, text);
    AddProcess(record, text);
    const std::string path = folder_ + "/runs/17";
    std::ofstream(path) << text.text();
    if (!is_locked) return;
    lock_.Reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    ASSERT_EQ(::fcntl(lock_.get(), F_OFD_SETLK, &lock), 0);
  }
  void Adopt() {
    controller_.live[JobId(17)] = Gang();
    node_->SetWatch([](int, std::function<void()>) {});
    ASSERT_TRUE(node_->AdoptRuns(false));
  }
  Descriptor lock_;
};

TEST_F(LeftoverRuns, APreparedMemberIsReportedAsReadyAgain) {
  Leave(Part(1002), true);
  Adopt();
  EXPECT_EQ(controller_.Take(), Words{"prepared 17.3 1002"});
  Commands();
  node_->Execute(Go(), nullptr);
  EXPECT_EQ(Commands(), Words{"go"});
}

TEST_F(LeftoverRuns, AMemberThatIsStillPreparingIsNotReportedAsReady) {
  Leave(Part(0), true);
  Adopt();
  EXPECT_EQ(controller_.Take(), Words());
}

// An agent receives supervisors' reports before its controller has said which runs to take over.
TEST_F(LeftoverRuns, AnEndThatArrivesBeforeAdoptionIsReportedAfterwards) {
  RunRecord ended = Part(1002);
  ended.has_gone = true;
  Leave(ended, false);
  ended.exit = Exit();
  ended.exit->code = 53;
  RecordWriter text;
  AddExit(ended, text);
  std::ofstream(folder_ + "/runs/17", std::ios::app) << text.text();
  Report(SupervisorReport::Kind::kExited, ended);
  EXPECT_EQ(controller_.Take(), Words());
  Adopt();
  EXPECT_EQ(controller_.Take(), Words{"exited 17.3 53"});
}

TEST_F(LeftoverRuns, AStartedMemberIsReportedAsStarted) {
  RunRecord gone = Part(1002);
  gone.has_gone = true;
  Leave(gone, true);
  Adopt();
  EXPECT_EQ(controller_.Take(), Words{"started 17.3"});
}

TEST_F(LeftoverRuns, WithoutASupervisorTheNodeItselfWritesTheGoSignal) {
  Leave(Part(0), false);
  std::ofstream(Steps() + ".seat") << "port=1002\n";
  Adopt();
  EXPECT_EQ(controller_.Take(), Words{"prepared 17.3 1002"});
  node_->Execute(Go(), nullptr);
  EXPECT_TRUE(WentAt(Steps()));
  EXPECT_EQ(controller_.Take(), Words{"started 17.3"});
  // After another restart it finds that this was reported.
  StartNode();
  Adopt();
  EXPECT_EQ(controller_.Take(), Words{"started 17.3"});
}

// However long the environment is that the list is added to.
TEST_F(GangNode, EmulatedGpuLibrariesComeFirstWhateverTheJobsPath) {
  StartNode("/opt/gpus");
  JobRecord record = Gang();
  record.gang.clear();
  JobSpec spec = Script();
  for (int i = 0; i < 80; ++i) {
    EXPECT_EQ(ValueOf(Launch(0, spec, record), "LD_LIBRARY_PATH"), "/opt/gpus");
    spec.capture.environment.push_back("VARIABLE" + std::to_string(i) + "=of some length, so that it lies elsewhere");
  }
  spec.capture.environment.emplace_back("LD_LIBRARY_PATH=/mine");
  EXPECT_EQ(ValueOf(Launch(0, spec, record), "LD_LIBRARY_PATH"), "/opt/gpus:/mine");
}

TEST_F(GangNode, ATenantGetsTheKeepersVariablesOnceBeforeItsOwn) {
  JobRecord record = Gang();
  record.gang.clear();
  JobSpec spec = Script();
  spec.capture.environment = {"LD_PRELOAD=/mine.so"};
  node_->SetShareGrant(
      record.id, {{2}, GpuSet::Of({2, 3}), "/f", {"DIVVY_SHARE=/f", "LD_PRELOAD=/l.so", "CUDA_VISIBLE_DEVICES=GPU-2"}});
  const LaunchRequest granted = Launch(0, spec, record);
  EXPECT_EQ(ValueOf(granted, "LD_PRELOAD"), "/l.so:/mine.so");
  EXPECT_EQ(ValueOf(granted, "DIVVY_SHARE"), "/f");
  EXPECT_EQ(ValueOf(granted, "CUDA_VISIBLE_DEVICES"), "GPU-2");
  const LaunchRequest next = Launch(0, spec, record);
  EXPECT_EQ(ValueOf(next, "DIVVY_SHARE"), "(none)") << "a grant is of one launch";
  EXPECT_EQ(ValueOf(next, "LD_PRELOAD"), "/mine.so");
}

// Every container of the job gets this, including those of its steps.
TEST_F(GangNode, ContainersGetTheNodesRequirementsWithTheJob) {
  StartNode("/opt/gpus");
  JobRecord record = Gang();
  record.gang.clear();
  const auto needs_of = [&](const JobSpec& spec) {
    return ParseContainerNeeds(ValueOf(Launch(0, spec, record), std::string(kContainerNeedsVariable)));
  };
  const auto whole = needs_of(Script());
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->mounts, (std::vector<ContainerMount>{{"/opt/gpus", "/opt/gpus", false}}));
  EXPECT_EQ(whole->environment, Words{"LD_LIBRARY_PATH=/opt/gpus"});
  node_->SetShareGrant(record.id,
                       {{2}, GpuSet::Of({2, 3}), "/f", {"LD_PRELOAD=/l.so", "CUDA_MPS_PIPE_DIRECTORY=/mps"}});
  const auto part = needs_of(Script());
  ASSERT_TRUE(part);
  EXPECT_EQ(
      part->mounts,
      (std::vector<ContainerMount>{
          {"/opt/gpus", "/opt/gpus", false}, {"/f", "/f", false}, {"/l.so", "/l.so", true}, {"/mps", "/mps", false}}));
  EXPECT_EQ(part->environment, (Words{"LD_LIBRARY_PATH=/opt/gpus", "LD_PRELOAD=/l.so"}));
}

// Users have other uids on other nodes.
class NodeUsers : public GangNode {
 protected:
  /// The node of an agent that runs as root, where ada is 4711 and root is root.
  void StartAgents(bool runs_root_jobs) {
    NodeOptions options;
    options.run_directory = launcher_.run_directory = folder_ + "/runs";
    options.log_directory = folder_;
    options.names = {"host.example.org", "", "n2"};
    options.divvy = "/bin/true";
    options.may_change_user = true;
    options.runs_root_jobs = runs_root_jobs;
    options.find_user = [this](const std::string& name) -> std::optional<User> {
      if (is_silent_) return std::nullopt;
      is_silent_ = answers_once_;
      if (name == "ada") return User{4711, 4712, "ada"};
      return name == "root" ? std::optional(User{0, 0, "root"}) : std::nullopt;
    };
    node_ = std::make_unique<Node>(std::move(options), launcher_, std::vector<GpuFacts>(4));
    node_->Join(controller_);
  }
  /// Returns the error with which a job of this user ends before it starts; "" if it is launched.
  std::string Refusal(const User& user) {
    JobRecord record = Gang();
    record.gang.clear();
    record.user = user;
    controller_.live[record.id] = record;
    node_->Execute(LaunchCommand{record, "", 0}, std::make_shared<const JobSpec>(Script()));
    const Words said = controller_.Take();
    return said.empty() ? "" : said.front();
  }

  bool answers_once_ = false;  // The name service answers one query, and then no more.
  bool is_silent_ = false;
};

TEST_F(NodeUsers, AJobRunsAsTheLocalUserOfThatName) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  StartAgents(false);
  EXPECT_EQ(Refusal({1000, 1000, "ada"}), "");
  ASSERT_FALSE(launcher_.launched.empty());
  EXPECT_EQ(launcher_.launched.back().uid, 4711);
  EXPECT_EQ(launcher_.launched.back().gid, 4712);
}

TEST_F(NodeUsers, AFlakyNameServiceNeverMakesAJobRunAsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  StartAgents(false);
  answers_once_ = true;
  EXPECT_EQ(Refusal({1000, 1000, "ada"}), "");
  ASSERT_FALSE(launcher_.launched.empty());
  EXPECT_EQ(launcher_.launched.back().uid, 4711);
  EXPECT_EQ(launcher_.launched.back().gid, 4712);
  EXPECT_EQ(ValueOf(launcher_.launched.back(), "DIVVY_STEPS"), StepListPath(folder_ + "/runs", 4711, 17));
  EXPECT_EQ(node_->uid_of(JobId(17)), 4711);
  EXPECT_EQ(node_->StepsOf(controller_.live[JobId(17)]), StepListPath(folder_ + "/runs", 4711, 17));
}

TEST_F(NodeUsers, TheGoSignalUsesTheRunsUserThoughTheNameServiceFails) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  StartAgents(false);
  answers_once_ = true;
  JobRecord gang = Gang();
  gang.user = {1000, 1000, "ada"};
  Launch(1, Script(), gang);
  ASSERT_TRUE(MakeStepFolder(folder_ + "/runs", 4711, 4712));  // As its supervisor does.
  RunRecord part = Part(1002);
  part.uid = 4711;
  part.gid = 4712;
  Report(SupervisorReport::Kind::kPrepared, part);
  node_->Execute(Go(), nullptr);
  EXPECT_EQ(Commands(), Words{"go"});
  struct stat status = {};
  ASSERT_EQ(::stat((StepListPath(folder_ + "/runs", 4711, 17) + ".going").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 4711u);
  EXPECT_EQ(status.st_gid, 4712u);
}

TEST_F(NodeUsers, AMemberOfAnUnknownUserEndsInsteadOfRunningAsAnother) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  StartAgents(false);
  answers_once_ = true;
  JobRecord gang = Gang();
  gang.user = {1000, 1000, "ada"};
  Launch(1, Script(), gang);
  RunRecord part = Part(1002);  // A record as a supervisor of an older release wrote it: without the group.
  part.uid = 4711;
  Report(SupervisorReport::Kind::kPrepared, part);
  node_->Execute(Go(), nullptr);
  EXPECT_EQ(Commands(), Words{"stop"});
  controller_.Take();
  part.exit = Exit{.code = 137, .signal = 9};
  Report(SupervisorReport::Kind::kExited, part);
  EXPECT_EQ(controller_.Take(), Words{"exited 17.3 137node n2 has no user ada"});
}

// Its GPUs are released only after the engine was asked to remove the containers that a SIGKILL left.
TEST_F(NodeUsers, ContainersAreRemovedByTheRunsUidThoughTheNameServiceFails) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  StartAgents(false);
  answers_once_ = true;
  std::function<void()> on_removed;
  node_->SetWatch([&](int, std::function<void()> then) { on_removed = std::move(then); });
  EXPECT_EQ(Refusal({1000, 1000, "ada"}), "");
  ASSERT_TRUE(MakeStepFolder(folder_ + "/runs", 4711, 4712));
  const std::string log = ContainerLogPath(StepListPath(folder_ + "/runs", 4711, 17));
  std::ofstream(log) << "engine /bin/true\nbegun divvy-17-0\n";
  ASSERT_EQ(ReadContainerLogFile(log).left.size(), 1u);
  RunRecord ended = Part(0);
  ended.is_part = false;
  ended.uid = 4711;
  ended.gid = 4712;
  ended.exit = Exit{.code = 137, .signal = 9};
  Report(SupervisorReport::Kind::kExited, ended);
  EXPECT_EQ(controller_.Take(), Words{});
  ASSERT_TRUE(on_removed);
  on_removed();
  EXPECT_EQ(controller_.Take(), Words{"exited 17.3 137"});
}

TEST_F(NodeUsers, AnUnknownUserIsNamedWithTheNode) {
  StartAgents(false);
  EXPECT_EQ(Refusal({1001, 1001, "grace"}),
            "exited 17.3 127node n2 has no user grace; create the account there, or exclude the node with --exclude");
  EXPECT_TRUE(launcher_.launched.empty());
  EXPECT_EQ(node_->users().UserHere({1001, 1001, "grace"}), std::nullopt);
}

TEST_F(NodeUsers, RootJobsNeedTheNodesConsent) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root";
  StartAgents(false);
  EXPECT_NE(Refusal({0, 0, "root"}).find("n2 does not run jobs as root"), std::string::npos);
  // Whatever the controller's uid is.
  EXPECT_NE(Refusal({1000, 1000, "root"}).find("node n2 does not run jobs as root"), std::string::npos);
  EXPECT_TRUE(launcher_.launched.empty());
  StartAgents(true);
  EXPECT_EQ(Refusal({0, 0, "root"}), "");
}

}  // namespace node_test
}  // namespace divvy
