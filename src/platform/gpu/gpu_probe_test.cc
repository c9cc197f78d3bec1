// Tests the probe with the real, loaded stand-in library: the code path of a real driver.
#include "platform/gpu/gpu_probe.h"
#include "platform/emulation/emulation_cuda_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "platform/emulation/emulation.h"
#include "platform/gpu/gpu_health.h"
#include "platform/gpu/gpu_probe_fake.h"
#include "platform/gpu/gpu_process.h"

namespace divvy {
namespace gpu_probe_test {

/// A child process that runs `work` and is killed at the end of the test at the latest.
class Child {
 public:
  explicit Child(const std::function<void()>& work = [] {}) : pid_(fork()) {
    if (pid_ != 0) return;
    work();
    for (;;) pause();
  }
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void Kill() { kill(pid_, SIGKILL); }
  /// Kills it without reaping it, which leaves a zombie.
  void KillAndLeave() {
    Kill();
    siginfo_t how;
    waitid(P_PID, static_cast<id_t>(pid_), &how, WEXITED | WNOWAIT);
  }
  void End() {
    if (pid_ <= 0) return;
    Kill();
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class EmulatedServer : public testing::Test {
 protected:
  ~EmulatedServer() override { std::filesystem::remove_all(directory_); }

  void Start(const std::string& spec) {
    const auto facts = ParseGpuDescription(spec);
    ASSERT_TRUE(facts.has_value()) << facts.error().message;
    described_ = *facts;
    const auto library = WriteEmulation(*facts, directory_);
    ASSERT_TRUE(library.has_value()) << library.error().message;
    library_ = *library;
    Reopen();
  }

  void Reopen() {
    probe_.reset();
    auto probe = OpenNvml(library_);
    ASSERT_TRUE(probe.has_value()) << probe.error().message;
    probe_ = *std::move(probe);
  }

  GpuObservation Look(GpuIndex gpu, const std::set<std::int64_t>& supervisors = {}) {
    const auto seen = probe_->Observe(GpuSet::Of({gpu}), true, supervisors);
    EXPECT_EQ(seen.size(), 1U);
    return seen.empty() ? GpuObservation() : seen[0];
  }

  std::string Drive(const std::string& words) {
    std::vector<std::string> list;
    for (std::size_t at = 0; at < words.size();) {
      const std::size_t end = std::min(words.find(' ', at), words.size());
      list.push_back(words.substr(at, end - at));
      at = end + 1;
    }
    const Status status = DriveEmulation(directory_, list);
    return status ? "" : status.error().message;
  }

  const std::string directory_ = [] {
    std::string path = testing::TempDir() + "divvy-emulation-XXXXXX";
    return std::string(mkdtemp(path.data()));
  }();
  std::string library_;
  std::vector<GpuFacts> described_;
  std::unique_ptr<GpuProbe> probe_;
};

TEST_F(EmulatedServer, ShowsExactlyTheDescribedGpus) {
  for (const char* spec : {"8xH100-80GB", "4xA100-40GB,2xV100-16GB", "8xV100-32GB", "16xH200", "4xH100-94GB", "2xH100",
                           "3xZX9-7GB", "1xT4", "64xT4"}) {
    Start(spec);
    const auto facts = probe_->Facts();
    ASSERT_TRUE(facts.has_value()) << facts.error().message;
    EXPECT_EQ(*facts, described_) << spec;
  }
  EXPECT_EQ(probe_->driver(), "580.95.05");
}

TEST_F(EmulatedServer, ShowsLinksAndMigOfADescriptionFile) {
  Start(
      "[gpu]\nmodel = A100-40GB\ncount = 4\nmig = on\n[links]\n"
      "X NV4 PIX SYS\nNV4 X PXB PHB\nPIX PXB X NODE\nSYS PHB NODE X\n");
  EXPECT_EQ(*probe_->Facts(), described_);
}

TEST_F(EmulatedServer, IsIdleAndHealthyAtFirst) {
  Start("2xH100");
  const auto seen = probe_->Observe(GpuSet::FirstN(8), true, {});
  ASSERT_EQ(seen.size(), 2U) << "indices that do not exist are left out";
  EXPECT_EQ(seen[1].index, 1);
  EXPECT_TRUE(seen[1].is_present);
  EXPECT_EQ(seen[1].fault, "");
  EXPECT_EQ(seen[1].memory_used, Bytes(0));
  EXPECT_EQ(seen[1].utilisation_percent, 0);
  EXPECT_GT(seen[1].temperature_celsius, 0);
  EXPECT_GT(seen[1].power_watts, 0);
  EXPECT_TRUE(seen[1].processes.empty());
}

TEST_F(EmulatedServer, ShowsAProcessUntilItEnds) {
  Start("2xH100");
  Child child;
  ASSERT_EQ(Drive("add-process 1 " + std::to_string(child.pid()) + " 10GiB"), "");
  ASSERT_EQ(Drive("add-process 1 " + std::to_string(getpid()) + " 1GiB graphics"), "");
  EXPECT_TRUE(Look(0).processes.empty());

  GpuObservation seen = Look(1);
  ASSERT_EQ(seen.processes.size(), 2U);
  EXPECT_EQ(seen.memory_used, 11_GiB);
  const bool child_first = seen.processes[0].identity.pid == child.pid();
  const GpuProcess& its = seen.processes[child_first ? 0 : 1];
  const GpuProcess& own = seen.processes[child_first ? 1 : 0];
  EXPECT_EQ(its.memory_used, 10_GiB);
  EXPECT_FALSE(its.is_graphics);
  EXPECT_TRUE(own.is_graphics);
  EXPECT_EQ(own.uid, static_cast<std::int64_t>(getuid()));
  EXPECT_NE(own.user, "");
  EXPECT_NE(own.command.find("platform_test"), std::string::npos) << own.command;
  EXPECT_LE(own.command.size(), 80U);
  EXPECT_EQ(own.identity.start_ticks, ReadGpuProcessStat(getpid())->start_ticks);
  const double age = ToSeconds(Duration(std::chrono::system_clock::now().time_since_epoch())) - ToSeconds(own.started);
  EXPECT_GT(age, -2.0);
  EXPECT_LT(age, 600.0);

  child.KillAndLeave();
  seen = Look(1);
  ASSERT_EQ(seen.processes.size(), 1U) << "a zombie holds no GPU";
  EXPECT_EQ(seen.memory_used, 1_GiB);
  ASSERT_EQ(Drive("remove-process 1 " + std::to_string(getpid())), "");
  EXPECT_TRUE(Look(1).processes.empty());
}

TEST_F(EmulatedServer, FindsTheSupervisorAmongTheAncestors) {
  Start("1xT4");
  Child child;
  ASSERT_EQ(Drive("add-process 0 " + std::to_string(child.pid()) + " 1GiB"), "");
  EXPECT_EQ(Look(0).processes.at(0).supervisor_pid, 0);
  EXPECT_EQ(Look(0, {getppid() + 1'000'000, getpid()}).processes.at(0).supervisor_pid, getpid());
  EXPECT_EQ(Look(0, {child.pid(), getpid()}).processes.at(0).supervisor_pid, child.pid()) << "the nearest";
}

TEST_F(EmulatedServer, ShowsMoreProcessesThanFitTheFirstQuery) {
  Start("1xT4");
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 40; ++i) {
    children.push_back(std::make_unique<Child>());
    ASSERT_EQ(Drive("add-process 0 " + std::to_string(children.back()->pid()) + " 1MiB"), "");
  }
  EXPECT_EQ(Look(0).processes.size(), 40U);
  EXPECT_EQ(Look(0).memory_used, 40_MiB);
}

TEST_F(EmulatedServer, ShowsUtilizationAtOnce) {
  Start("1xA100");
  ASSERT_EQ(Drive("utilisation 0 87 40"), "");
  ASSERT_EQ(Drive("memory 0 3GiB"), "");
  ASSERT_EQ(Drive("temperature 0 71"), "");
  const GpuObservation seen = Look(0);
  EXPECT_EQ(seen.utilisation_percent, 87);
  EXPECT_EQ(seen.memory_utilisation_percent, 40);
  EXPECT_EQ(seen.memory_used, 3_GiB);
  EXPECT_EQ(seen.temperature_celsius, 71);
}

TEST_F(EmulatedServer, FencesAGpuAfterAnXidUntilTheReset) {
  Start("2xH100");
  ASSERT_EQ(Drive("xid 1 48"), "");
  EXPECT_EQ(Look(1).fault, "XID 48 (double-bit ECC error)");
  EXPECT_EQ(Look(1).fault, "XID 48 (double-bit ECC error)") << "stays";
  EXPECT_TRUE(Look(1).is_present);
  EXPECT_EQ(Look(0).fault, "");
  Reopen();
  EXPECT_EQ(Look(1).fault, "the driver requires a reset of the GPU") << "a new daemon has not seen the XID";
  ASSERT_EQ(Drive("restore 1"), "");
  EXPECT_EQ(Look(1).fault, "");
}

TEST_F(EmulatedServer, DoesNotFenceAGpuForApplicationErrors) {
  Start("1xH100");
  for (const char* code : {"13", "31", "43", "45", "63", "94"}) {
    ASSERT_EQ(Drive(std::string("xid 0 ") + code), "");
    EXPECT_EQ(Look(0).fault, "") << code;
  }
}

TEST_F(EmulatedServer, FindsAFencingXidAmongMany) {
  Start("1xH100");
  ASSERT_EQ(Drive("xid 0 119"), "");
  for (int i = 0; i < 10; ++i) ASSERT_EQ(Drive("xid 0 31"), "");
  EXPECT_EQ(Look(0).fault, "XID 119 (GSP firmware does not answer)");
}

TEST_F(EmulatedServer, LosesAGpuAndGetsItBack) {
  Start("2xH100");
  const auto before = probe_->Facts();
  ASSERT_EQ(Drive("lose 0"), "");
  EXPECT_FALSE(Look(0).is_present);
  EXPECT_EQ(Look(0).fault, "XID 79 (fallen off the bus)");
  EXPECT_TRUE(Look(1).is_present);

  Reopen();
  const auto facts = probe_->Facts();
  ASSERT_TRUE(facts.has_value());
  ASSERT_EQ(facts->size(), 2U) << "the others keep their index";
  EXPECT_EQ(facts->at(0).uuid, "");
  EXPECT_EQ(facts->at(1).uuid, described_[1].uuid);
  EXPECT_FALSE(Look(0).is_present);
  EXPECT_EQ(Look(0).fault, "the driver has lost it");

  ASSERT_EQ(Drive("restore 0"), "");
  EXPECT_TRUE(Look(0).is_present);
  EXPECT_EQ(Look(0).fault, "");
  EXPECT_EQ(*probe_->Facts(), *before);
}

TEST_F(EmulatedServer, KeepsItsStateIfTheSameGpusAreDescribedAgain) {
  Start("2xH100");
  ASSERT_EQ(Drive("utilisation 0 50"), "");
  Start("2xH100");
  EXPECT_EQ(Look(0).utilisation_percent, 50);
  Start("3xH100");
  EXPECT_EQ(Look(0).utilisation_percent, 0);
}

TEST_F(EmulatedServer, SurvivesAWriterKilledHalfway) {
  Start("1xH100");
  ASSERT_EQ(Drive("utilisation 0 50"), "");
  Child writer([this] {
    // Does what EmulatedWorld does, but stops before the last step: the lock is held, and the spare copy is half
    // written.
    const int fd = open(EmulatedWorldPath(directory_).c_str(), O_RDWR);
    void* mapped = mmap(nullptr, sizeof(emulation::World), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    auto& gpu = static_cast<emulation::World*>(mapped)->gpus[0];
    flock(fd, LOCK_EX);
    std::memset(&gpu.states[(gpu.version + 1) & 1], 0xFF, sizeof(emulation::WorldState) / 2);
    raise(SIGKILL);
  });
  writer.KillAndLeave();
  writer.End();
  EXPECT_EQ(Look(0).utilisation_percent, 50);
  EXPECT_EQ(Look(0).fault, "");
  ASSERT_EQ(Drive("utilisation 0 60"), "") << "the lock went with the writer";
  EXPECT_EQ(Look(0).utilisation_percent, 60);
}

TEST_F(EmulatedServer, NeverShowsAPartialChangeWhileWritersAreKilled) {
  Start("1xH100");
  for (int round = 0; round < 20; ++round) {
    Child writer([this] {
      auto world = EmulatedWorld::Open(EmulatedWorldPath(directory_));
      for (int i = 0; world; i = (i + 1) % 101) {
        if (!world->SetUtilisation(0, i, i)) return;
      }
    });
    for (int look = 0; look < 50; ++look) {
      const GpuObservation seen = Look(0);
      ASSERT_EQ(seen.utilisation_percent, seen.memory_utilisation_percent);
    }
    writer.Kill();
  }
}

TEST_F(EmulatedServer, RefusesInvalidCommands) {
  Start("2xT4");
  const std::pair<std::string, std::string> kCases[] = {
      {"", "needs an action"},
      {"lsoe 0", "did you mean lose?"},
      {"explode 0", "is not an action of divvy emulate"},
      {"lose", "usage: divvy emulate lose GPU"},
      {"lose 0 1", "usage: divvy emulate lose GPU"},
      {"lose 2", "no emulated GPU 2: there are 2, from 0"},
      {"lose 64", "is not the index of a GPU"},
      {"lose x", "\"x\" is not the index of a GPU"},
      {"xid 0 0", "expected an XID from 1 to 999"},
      {"xid 0 12345", "is not an XID"},
      {"utilisation 0 101", "is not a percentage"},
      {"temperature 0 hot", "is not a temperature"},
      {"memory 0 99GiB", "it cannot use"},
      {"memory 0 lots", "is not a memory size"},
      {"add-process 0 1", "usage: divvy emulate"},
      {"add-process 0 me 1GiB", "is not a process id"},
      {"add-process 0 1 1GiB compute", "is not allowed after the memory"},
      {"add-process 0 2147483647 1GiB", "there is no process 2147483647"},
      {"remove-process 0 1", "does not use emulated GPU 0"},
      {"cuda-fault 0", "usage: divvy emulate"},
      {"cuda-fault 9 sticky 700", "there is no emulated GPU 9"},
      {"cuda-fault 0 bad-luck", "is not a CUDA fault"},
      {"cuda-fault 0 copy-rate fast", "is not a memory size"},
  };
  for (const auto& [words, expected] : kCases) {
    const std::string message = Drive(words);
    EXPECT_NE(message.find(expected), std::string::npos) << words << " -> " << message;
  }
  const Status status = DriveEmulation(directory_ + "/nowhere", {"lose", "0"});
  EXPECT_NE(status.error().message.find("no emulated GPUs at"), std::string::npos);
}

TEST_F(EmulatedServer, ProgramsFindBothLibrariesThroughTheirEnvironment) {
  Start("1xT4");
  const auto environment = EmulationEnvironment(directory_, "/opt/mine");
  ASSERT_EQ(environment.size(), 2U);
  EXPECT_EQ(environment[0], std::pair(std::string("DIVVY_EMULATE"), EmulatedWorldPath(directory_)));
  EXPECT_EQ(environment[1], std::pair(std::string("LD_LIBRARY_PATH"), directory_ + ":/opt/mine"));
  EXPECT_EQ(EmulationEnvironment(directory_, "")[1].second, directory_);
  for (const char* file : {"/libnvidia-ml.so.1", "/libcuda.so.1"}) {
    EXPECT_TRUE(std::filesystem::exists(directory_ + file)) << file;
  }
  EXPECT_TRUE(ReadEmulatedUses(directory_).value().empty());
  EXPECT_EQ(Drive("cuda-fault 0 refuse-restore"), "");
  EXPECT_EQ(Drive("cuda-fault 0 none"), "");
}

TEST_F(EmulatedServer, RefusesADamagedStateFile) {
  Start("1xT4");
  probe_.reset();
  std::filesystem::resize_file(EmulatedWorldPath(directory_), 100);
  const auto probe = OpenNvml(library_);
  ASSERT_FALSE(probe.has_value());
  EXPECT_EQ(probe.error().code, ErrorCode::kUnreachable);
  EXPECT_EQ(EmulatedWorld::Open(EmulatedWorldPath(directory_)).error().code, ErrorCode::kCorruptData);
  Start("1xT4");
  EXPECT_EQ(probe_->Facts()->size(), 1U) << "written anew";
}

TEST_F(EmulatedServer, UsesTheNamedStateDirectory) {
  Start("1xT4");
  const std::string library = library_;
  probe_.reset();
  const auto elsewhere = ParseGpuDescription("3xT4");
  ASSERT_TRUE(WriteEmulation(*elsewhere, directory_ + "/other").has_value());
  const auto probe = OpenNvml(library, EmulatedWorldPath(directory_ + "/other"));
  ASSERT_TRUE(probe.has_value()) << probe.error().message;
  EXPECT_EQ((*probe)->Facts()->size(), 3U);
}

TEST(Nvml, IsUnreachableWithoutALibrary) {
  const auto probe = OpenNvml("/nonexistent/libnvidia-ml.so.1");
  ASSERT_FALSE(probe.has_value());
  EXPECT_EQ(probe.error().code, ErrorCode::kUnreachable);
  EXPECT_NE(probe.error().message.find("/nonexistent/libnvidia-ml.so.1"), std::string::npos);
}

TEST(Nvml, IsUnreachableThroughAnUnrelatedLibrary) {
  const auto probe = OpenNvml("libc.so.6");
  ASSERT_FALSE(probe.has_value());
  EXPECT_NE(probe.error().message.find("libc.so.6 is not NVML"), std::string::npos) << probe.error().message;
}

TEST(GpuHealth, NamesTheErrorsThatFenceAGpu) {
  EXPECT_EQ(XidText(79), "XID 79 (fallen off the bus)");
  EXPECT_EQ(XidText(13), "XID 13");
  EXPECT_TRUE(FencingXid(13).empty());
  EXPECT_TRUE(FencingXid(0).empty());
}

TEST(FakeGpuProbe, ShowsWhatTheTestSets) {
  FakeGpuProbe probe(*ParseGpuDescription("2xT4"));
  probe.state[1].fault = "XID 48";
  const auto seen = probe.Observe(GpuSet::FirstN(2), true, {});
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].index, 1);
  EXPECT_EQ(seen[1].fault, "XID 48");
  probe.ForgetFaults(GpuSet::FirstN(2));
  EXPECT_EQ(probe.Observe(GpuSet::FirstN(2), true, {})[1].fault, "");
}

}  // namespace gpu_probe_test
}  // namespace divvy
