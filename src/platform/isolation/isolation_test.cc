#include "platform/isolation/isolation.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/isolation/device_program.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/isolation/job_mounts.h"
#include "platform/supervisor/launch_test_world.h"

namespace divvy {
namespace isolation_test {

std::vector<GpuFacts> Gpus(int count) {
  std::vector<GpuFacts> gpus(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    gpus[static_cast<std::size_t>(i)].index = static_cast<GpuIndex>(i);
    gpus[static_cast<std::size_t>(i)].pci_address = "00000000:" + std::to_string(i) + "F:00.0";
  }
  return gpus;
}

// Two harmless devices stand in for GPUs: /dev/zero's number is the job's GPU, /dev/full's is another job's.
class IsolatedJob : public LaunchTest {
 protected:
  void SetUp() override {
    if (!IsRoot()) GTEST_SKIP() << "needs root, to make device files";
    Make("gpu0", 5);
    Make("gpu1", 7);
    if (::access(Work("gpu1").c_str(), R_OK) != 0 || !CanOpen(Work("gpu1"))) {
      GTEST_SKIP() << "devices do not open in " << Work("") << " (nodev)";
    }
  }
  void Make(const std::string& name, unsigned minor) {
    ::mknod(Work(name).c_str(), S_IFCHR | 0666, makedev(1, minor));
    ::chmod(Work(name).c_str(), 0666);
  }
  static bool CanOpen(const std::string& file) { return Descriptor(::open(file.c_str(), O_RDONLY)).is_open(); }
  bool Works(DeviceLock lock) {
    IsolationWishes wishes;
    wishes.device_files = Work("gpu*");
    if (lock == DeviceLock::kController) return CgroupRoots::Find().device_controller().has_value();
    wishes.devices = lock == DeviceLock::kMounts ? "mounts" : "cgroup";
    const auto here = ChooseIsolation(wishes, Gpus(2), true);
    return here && here->lock == lock;
  }
  /// Opens its own GPU, another job's GPU, and another job's GPU under an unknown name.
  LaunchRequest Curious(DeviceLock lock) {
    LaunchRequest request =
        Shell("for i in gpu0 gpu1 other; do head -c 1 $i 2>&1 | wc -c; head -c 1 $i >/dev/null; done");
    request.isolation.lock = lock;
    request.isolation.closed_devices = {Work("gpu1"), Work("absent")};
    return request;
  }
  std::int64_t RefusedOf(const LaunchRequest& request) { return exited_[request.job.value()].refused_devices; }
};

TEST_F(IsolatedJob, IsDeniedOthersDevicesByTheDeviceProgramAndTheDenialIsCounted) {
  if (!Works(DeviceLock::kProgram)) GTEST_SKIP() << "no cgroup v2 that takes a device program";
  Make("other", 7);
  const LaunchRequest request = Curious(DeviceLock::kProgram);
  EXPECT_EQ(Run(request).failure, "");
  EXPECT_EQ(Output().find("Permission denied"), std::string::npos) << Output();
  EXPECT_NE(Output().find("'gpu1' for reading: Operation not permitted"), std::string::npos) << Output();
  EXPECT_NE(Output().find("'other' for reading: Operation not permitted"), std::string::npos) << Output();
  EXPECT_EQ(Output().find("'gpu0'"), std::string::npos) << Output();
  EXPECT_EQ(RefusedOf(request), 4);
  EXPECT_TRUE(CanOpen(Work("gpu1"))) << "it is closed to others than the job";
  for (const std::string& file : JobCgroup::Open(exited_[request.job.value()].cgroup).procs_files()) {
    EXPECT_FALSE(std::filesystem::exists(file)) << "the cgroup is left";
  }
}

TEST_F(IsolatedJob, CannotCreateADeviceFileForOthersDevices) {
  if (!Works(DeviceLock::kProgram)) GTEST_SKIP() << "no cgroup v2 that takes a device program";
  LaunchRequest request = Shell("mknod mine c 1 7");
  request.isolation = Curious(DeviceLock::kProgram).isolation;
  EXPECT_EQ(Run(request).code, 1);
  EXPECT_EQ(RefusedOf(request), 1);
}

TEST_F(IsolatedJob, IsDeniedNothingIfItOpensOnlyItsOwnDevices) {
  if (!Works(DeviceLock::kProgram)) GTEST_SKIP() << "no cgroup v2 that takes a device program";
  LaunchRequest request = Shell("head -c 1 gpu0 >/dev/null && head -c 1 /dev/random >/dev/null");
  request.isolation = Curious(DeviceLock::kProgram).isolation;
  request.uid = request.gid = kNobody;
  EXPECT_EQ(Run(request).code, 0) << Output();
  EXPECT_EQ(RefusedOf(request), 0);
  EXPECT_GT(exited_[request.job.value()].exit->memory_peak, 100_KiB) << "the largest process is not known";
}

TEST_F(IsolatedJob, DenialsAreCountedAfterItsSupervisorWasKilled) {
  if (!Works(DeviceLock::kProgram)) GTEST_SKIP() << "no cgroup v2 that takes a device program";
  LaunchRequest request = Shell("head -c 1 gpu1; echo one; while [ ! -e go ]; do sleep 0.01; done; head -c 1 gpu1");
  request.isolation = Curious(DeviceLock::kProgram).isolation;
  const RunRecord record = Start(request);
  ASSERT_TRUE(AwaitOutput("one\n"));
  EXPECT_EQ(JobCgroup::Open(record.cgroup).RefusedDevices(), 1) << "while it runs";
  ::kill(static_cast<pid_t>(record.supervisor.pid), SIGKILL);
  ASSERT_TRUE(AwaitReports([&] { return started_[request.job.value()].supervisor == record.guard; }));
  std::ofstream(Work("go")) << "\n";
  EXPECT_EQ(AwaitExit(request.job).code, 1);
  EXPECT_EQ(RefusedOf(request), 2);
  EXPECT_FALSE(std::filesystem::exists(record.cgroup));
}

TEST_F(IsolatedJob, IsDeniedOthersDevicesByTheDeviceController) {
  if (!Works(DeviceLock::kController)) GTEST_SKIP() << "no cgroup v1 with the controller of devices";
  Make("other", 7);
  Run(Curious(DeviceLock::kController));
  EXPECT_NE(Output().find("'gpu1' for reading: Operation not permitted"), std::string::npos) << Output();
  EXPECT_NE(Output().find("'other' for reading: Operation not permitted"), std::string::npos) << Output();
  EXPECT_EQ(Output().find("'gpu0'"), std::string::npos) << Output();
}

TEST_F(IsolatedJob, IsDeniedOthersDevicesByMounts) {
  if (!Works(DeviceLock::kMounts)) GTEST_SKIP() << "no mount namespace";
  LaunchRequest request = Curious(DeviceLock::kMounts);
  request.uid = request.gid = kNobody;
  Run(request);
  EXPECT_NE(Output().find("'gpu1' for reading: Permission denied"), std::string::npos) << Output();
  EXPECT_EQ(Output().find("'gpu0'"), std::string::npos) << Output();
  EXPECT_TRUE(CanOpen(Work("gpu1"))) << "it is closed to others than the job";
}

// A compromised daemon chooses what is denied, and may put any file at the path that it names.
TEST_F(IsolatedJob, OnlyDeviceFilesAreMountedOver) {
  if (!Works(DeviceLock::kMounts)) GTEST_SKIP() << "no mount namespace";
  std::filesystem::create_directory(Work("folder"));
  std::filesystem::create_symlink(Work("folder"), Work("link"));
  std::ofstream(Work("file")) << "text";
  for (const char* name : {"folder", "link", "file"}) {
    LaunchRequest request = Shell("echo it runs");
    request.isolation.lock = DeviceLock::kMounts;
    request.isolation.closed_devices = {Work(name)};
    Run(request);
    EXPECT_NE(0, exited_[request.job.value()].exit->code) << name;
    EXPECT_EQ(Output().find("it runs"), std::string::npos) << name;
  }
  LaunchRequest request = Shell("echo it runs");
  request.isolation.lock = DeviceLock::kMounts;
  request.isolation.closed_devices.assign(600, Work("gpu1"));
  Run(request);
  EXPECT_NE(exited_[request.job.value()].exit->failure.find("at most 512 devices"), std::string::npos);
}

// Simulates a daemon without root, in a process that has become "nobody".
TEST_F(IsolatedJob, IsDeniedOthersDevicesInAUserNamespaceAndCannotUndoIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(90);
    ::prctl(PR_SET_DUMPABLE, 1);  // Dumpable, like a process that was started as "nobody".
    const auto plan = PlanMounts({.closed_devices = {Work("gpu1")}});
    if (!plan || !plan->needs_user_namespace) ::_exit(91);
    if (EnterMounts(*plan) != 0) ::_exit(92);
    if (::chdir(Work("").c_str()) != 0) ::_exit(93);
    const char* text =
        "exec >out 2>&1; head -c 1 gpu0 >/dev/null || exit 1; umount gpu1 && exit 2;"
        "unshare -rm umount \"$PWD/gpu1\" && exit 3; head -c 1 gpu1 && exit 4; exit 0";
    ::execl("/bin/sh", "sh", "-c", text, nullptr);
    ::_exit(94);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 92) GTEST_SKIP() << "this kernel gives users no user namespaces";
  EXPECT_EQ(WEXITSTATUS(status), 0) << Output();
  EXPECT_NE(Output().find("'gpu1' for reading: Permission denied"), std::string::npos) << Output();
}

TEST(JobCgroup, IsAnErrorIfDevicesCannotBeDeniedWhileOtherLimitsAreSkipped) {
  const CgroupRoots none = CgroupRoots::Find("");
  CgroupLimits limits;
  limits.memory = 1_GiB;
  limits.cores = "0";
  limits.processes = 5;
  const auto group = JobCgroup::Create(none, "/nowhere", "17", limits);
  ASSERT_TRUE(group);
  EXPECT_TRUE(group->is_empty());
  limits.closed_devices = {"/dev/full"};
  const auto refused = JobCgroup::Create(none, "/nowhere", "17", limits);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no cgroup that can deny devices"), std::string::npos);
}

class LimitedJob : public LaunchTest {
 protected:
  static bool Has(CgroupController controller) { return CgroupRoots::Find().of(controller).has_value(); }
};

TEST_F(LimitedJob, CannotStartMoreProcessesThanItsLimit) {
  if (!Has(CgroupController::kProcesses)) GTEST_SKIP() << "no cgroup that counts processes";
  const std::string text = "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; kill $(jobs -p); echo all";
  LaunchRequest request = Shell(text);
  request.isolation.processes = 6;
  Run(request);
  EXPECT_EQ(Output().find("all"), std::string::npos) << Output();
  Run(Shell(text));
  EXPECT_NE(Output().find("all"), std::string::npos) << Output();
}

TEST_F(LimitedJob, StaysOnItsCores) {
  if (!Has(CgroupController::kCores)) GTEST_SKIP() << "no cgroup that keeps cores";
  LaunchRequest request = Shell("grep Cpus_allowed_list /proc/self/status");
  request.isolation.cores = "0";
  request.memory_limit = 64_MiB;  // Another hierarchy, or the same.
  EXPECT_EQ(Run(request).failure, "");
  EXPECT_EQ(Output(), "Cpus_allowed_list:\t0\n");
}

TEST_F(LimitedJob, HasItsOwnTmpThatIsRemovedWithIt) {
  if (!CanMount()) GTEST_SKIP() << "no mount namespace";
  const std::string mark = "divvy-isolation-test." + std::to_string(::getpid());
  LaunchRequest request = Shell("echo x >/tmp/" + mark + "; echo y >/dev/shm/" + mark + "; ls /tmp /dev/shm; id -u");
  request.isolation.has_own_tmp = request.isolation.has_own_shm = true;
  if (IsRoot()) request.uid = request.gid = kNobody;
  request.output = Work("out");  // Stays visible because the run directory is next to it.
  EXPECT_EQ(Run(request).failure, "");
  // The first folder on the path to the run directory, if that is under /tmp.
  std::string folder;
  if (home_.starts_with("/tmp/")) folder = home_.substr(5, home_.find('/', 5) - 5) + "\n";
  const std::string user = std::to_string(IsRoot() ? kNobody : static_cast<std::int64_t>(::getuid()));
  EXPECT_EQ(Output(), "/dev/shm:\n" + mark + "\n\n/tmp:\n" + mark + "\n" + folder + user + "\n");
  EXPECT_FALSE(std::filesystem::exists("/tmp/" + mark));
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + mark));
  const std::string own_tmp = exited_[request.job.value()].own_tmp;
  ASSERT_NE(own_tmp, "");
  // The end is reported before the folder is removed.
  EXPECT_FALSE(std::filesystem::exists(own_tmp));
  RemoveOldTmps();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(own_tmp).parent_path()));
}

TEST_F(LimitedJob, HasItsOwnShmBesideTheSharedTmp) {
  if (!CanMount()) GTEST_SKIP() << "no mount namespace";
  const std::string mark = "divvy-isolation-test." + std::to_string(::getpid());
  LaunchRequest request = Shell("echo x >/dev/shm/" + mark + "; ls /dev/shm; echo y >/tmp/" + mark);
  request.isolation.has_own_shm = true;
  EXPECT_EQ(Run(request).failure, "");
  EXPECT_EQ(Output(), mark + "\n");
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + mark));
  EXPECT_TRUE(std::filesystem::remove("/tmp/" + mark)) << "its /tmp is another";
}

TEST_F(LimitedJob, IsThrottledWhenItsCpuTimeIsUsedUp) {
  const CgroupRoots roots = CgroupRoots::Find();
  if (!roots.of(CgroupController::kCpu)) GTEST_SKIP() << "no cgroup that limits CPU time";
  CgroupLimits limits;
  limits.cpus = 1;
  const auto group = JobCgroup::Create(roots, RunDirectory(), "quota", limits);
  ASSERT_TRUE(group) << group.error().message;
  const auto text_of = [&](const std::string& file) {
    std::ifstream in(group->text() + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const bool is_unified = roots.of(CgroupController::kCpu)->is_unified;
  EXPECT_EQ(text_of(is_unified ? "/cpu.max" : "/cpu.cfs_quota_us"), is_unified ? "100000 100000\n" : "100000\n");
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    group->Remove();
    GTEST_SKIP() << "one core gives no more time than one has";
  }
  // Three processes that would use all CPU time, until they have been throttled.
  std::vector<pid_t> children;
  const pid_t test = ::getpid();
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    std::ofstream(group->procs_files().front()) << 0;
    while (::getppid() == test) continue;
    ::_exit(0);
  }
  const auto used = [&] {
    double seconds = 0;
    for (const pid_t child : children) {
      clockid_t clock{};
      timespec time{};
      if (::clock_getcpuclockid(child, &clock) != 0 || ::clock_gettime(clock, &time) != 0) continue;
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    }
    return seconds;
  };
  // The limit is one processor's time. The slack covers what was used before the first process joined the cgroup. On a
  // busy machine the processes get less anyway and nothing is throttled, but they may never get more.
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  const auto got_more = [&] { return used() > 1.1 * passed() + 0.5; };
  const auto waited = [&] {
    const std::string stat = text_of("/cpu.stat");
    const auto at = stat.find("nr_throttled ");
    return at != std::string::npos && stat[at + std::string_view("nr_throttled ").size()] != '0';
  };
  while (!waited() && !got_more() && passed() < 10) ::usleep(10'000);
  const double had = used();
  const double over = passed();
  const bool was_held = waited();
  EXPECT_TRUE(was_held || had <= 1.1 * over + 0.5)
      << had << " s of CPU time in " << over << " s, and nobody waited: " << text_of("/cpu.stat");
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  group->Remove();
  if (!was_held) GTEST_SKIP() << "others left it only " << had << " s of CPU time in " << over << " s";
}

TEST(OwnFolders, FollowTheJobsSettingAndOtherwiseTheNodes) {
  const auto of = [](const IsolationWishes& wishes, const OwnFolders& asked) {
    Isolation here;
    here.wishes = wishes;
    JobIsolation job;
    EXPECT_TRUE(SetOwnFolders(here, asked, job));
    return std::pair(job.has_own_tmp, job.has_own_shm);
  };
  IsolationWishes with_tmp, with_shm;
  with_tmp.has_own_tmp = true;
  with_shm.has_own_shm = true;
  EXPECT_EQ(of({}, {}), std::pair(false, false));
  EXPECT_EQ(of(with_tmp, {}), std::pair(true, true));
  EXPECT_EQ(of(with_shm, {}), std::pair(false, true));
  EXPECT_EQ(of({}, {true, std::nullopt}), std::pair(true, true));
  EXPECT_EQ(of({}, {true, false}), std::pair(true, false));
  EXPECT_EQ(of(with_tmp, {false, std::nullopt}), std::pair(false, false));
  EXPECT_EQ(of(with_tmp, {std::nullopt, false}), std::pair(true, false));
}

TEST(OwnFolders, AreRefusedIfTheNodeCannotProvideThem) {
  Isolation here;
  here.no_mounts = "no mount namespace can be made: Operation not permitted";
  JobIsolation job;
  EXPECT_EQ(SetOwnFolders(here, {std::nullopt, true}, job).error().message,
            "--private-shm does not work on this node: no mount namespace can be made: Operation not permitted");
  EXPECT_TRUE(SetOwnFolders(here, {false, false}, job));
}

TEST_F(LimitedJob, GetsNoNewPrivileges) {
  LaunchRequest request = Shell("grep NoNewPrivs /proc/self/status");
  request.isolation.keeps_privileges = false;
  Run(request);
  EXPECT_EQ(Output(), "NoNewPrivs:\t1\n");
  Run(Shell("grep NoNewPrivs /proc/self/status"));
  EXPECT_EQ(Output(), "NoNewPrivs:\t0\n");
}

TEST_F(LimitedJob, IsKilledAsAWholeInACgroupV2) {
  const CgroupRoots roots = CgroupRoots::Find();
  if (!roots.of(CgroupController::kDevices)) GTEST_SKIP() << "no cgroup v2";
  CgroupLimits limits;
  limits.closed_devices = {"/dev/full"};
  const auto group = JobCgroup::Create(roots, RunDirectory(), "kill", limits);
  ASSERT_TRUE(group) << group.error().message;
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream(group->procs_files().front()) << 0;
    ::kill(::getpid(), SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(group->Kill());
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  group->Remove();
  EXPECT_FALSE(std::filesystem::exists(group->text()));
}

class CgroupMounts : public ::testing::Test {
 protected:
  CgroupMounts() {
    std::string pattern = testing::TempDir() + "divvy-cgroups.XXXXXX";
    home_ = ::mkdtemp(pattern.data());
  }
  ~CgroupMounts() override { std::filesystem::remove_all(home_); }
  std::string Mount(const std::string& name, const std::string& file, const std::string& text) {
    std::filesystem::create_directory(home_ + "/" + name);
    std::ofstream(home_ + "/" + name + "/" + file) << text << "\n";
    return home_ + "/" + name;
  }

  std::string home_;
};

TEST_F(CgroupMounts, V2MountsHaveTheControllersThatTheyList) {
  if (!IsRoot()) GTEST_SKIP() << "cgroups are root's";
  const std::string directory = Mount("all", "cgroup.controllers", "cpuset cpu io memory");
  const CgroupRoots roots = CgroupRoots::Find("cgroup2 " + directory + " cgroup2 rw,nsdelegate 0 0\n");
  EXPECT_EQ(roots.of(CgroupController::kMemory), (CgroupRoot{directory, true}));
  EXPECT_EQ(roots.of(CgroupController::kDevices), (CgroupRoot{directory, true}));
  EXPECT_FALSE(roots.of(CgroupController::kProcesses));
  EXPECT_FALSE(roots.device_controller());
  EXPECT_EQ(roots.Text(), "memory, cores, CPU time by cgroup v2");
}

TEST_F(CgroupMounts, MixedV1AndV2MountsProvideEachControllerOnce) {
  if (!IsRoot()) GTEST_SKIP() << "cgroups are root's";
  const std::string unified = Mount("unified", "cgroup.controllers", "pids");
  const std::string memory = Mount("memory", "memory.stat", "");
  const std::string devices = Mount("devices", "devices.list", "a *:* rwm");
  const std::string mounts = "x " + memory + " cgroup rw,memory 0 0\nx " + devices +
                             " cgroup rw,nosuid,devices 0 0\nx " + unified + " cgroup2 rw 0 0\n";
  const CgroupRoots roots = CgroupRoots::Find(mounts);
  EXPECT_EQ(roots.of(CgroupController::kMemory), (CgroupRoot{memory, false}));
  EXPECT_EQ(roots.of(CgroupController::kProcesses), (CgroupRoot{unified, true}));
  EXPECT_EQ(roots.of(CgroupController::kDevices), (CgroupRoot{unified, true}));
  EXPECT_EQ(roots.device_controller(), (CgroupRoot{devices, false}));
  EXPECT_EQ(roots.Text(), "memory by cgroup v1; processes by cgroup v2");
}

TEST_F(CgroupMounts, AnAllowListOfDevicesCannotDenyDevices) {
  if (!IsRoot()) GTEST_SKIP() << "cgroups are root's";
  const std::string devices = Mount("devices", "devices.list", "c 1:3 rwm\nc 195:* rwm");
  EXPECT_FALSE(CgroupRoots::Find("x " + devices + " cgroup rw,devices 0 0\n").device_controller());
}

TEST(Isolation, EmulatedGpusHaveAdvisoryIsolationUnlessTheyHaveFiles) {
  const auto here = ChooseIsolation({}, Gpus(4), true);
  ASSERT_TRUE(here);
  EXPECT_EQ(here->lock, DeviceLock::kNone);
  EXPECT_EQ(here->gpus, "advisory (CUDA_VISIBLE_DEVICES)");
  EXPECT_TRUE(IsolationOf(*here, Gpus(4), GpuSet::Of({1}), false).closed_devices.empty());
}

TEST(Isolation, OffDeniesNothing) {
  IsolationWishes wishes;
  wishes.devices = "off";
  wishes.device_files = "/dev/full*";
  const auto here = ChooseIsolation(wishes, Gpus(2), true);
  ASSERT_TRUE(here);
  EXPECT_EQ(here->lock, DeviceLock::kNone);
}

TEST(Isolation, DeniesGpusThatAreNotTheJobs) {
  Isolation here;
  here.lock = DeviceLock::kProgram;
  here.device_files = {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"};
  const JobIsolation job = IsolationOf(here, Gpus(3), GpuSet::Of({1, 2}), false);
  EXPECT_EQ(job.lock, DeviceLock::kProgram);
  EXPECT_EQ(job.closed_devices, std::vector<std::string>{"/dev/nvidia0"});
  EXPECT_EQ(VisibleDevices(job, GpuSet::Of({1, 2}), GpuSet::Of({1, 2})), "0,1");
  EXPECT_EQ(IsolationOf(here, Gpus(3), GpuSet(), false).closed_devices, here.device_files);
}

TEST(Isolation, DeniesNothingToAJobWithAllGpusOrAnElasticJob) {
  Isolation here;
  here.lock = DeviceLock::kMounts;
  here.device_files = {"/dev/nvidia0", "/dev/nvidia1"};
  const JobIsolation all = IsolationOf(here, Gpus(2), GpuSet::FirstN(2), false);
  EXPECT_EQ(all.lock, DeviceLock::kNone);
  const JobIsolation elastic = IsolationOf(here, Gpus(2), GpuSet::Of({1}), true);
  EXPECT_EQ(elastic.lock, DeviceLock::kNone);
  EXPECT_EQ(VisibleDevices(elastic, GpuSet::Of({1}), GpuSet::Of({1})), "1");
}

TEST(Isolation, RequiredIsolationIsEnforcedOrRefused) {
  IsolationWishes wishes;
  wishes.is_required = true;
  const auto no_files = ChooseIsolation(wishes, Gpus(4), true);
  ASSERT_FALSE(no_files);
  EXPECT_NE(no_files.error().message.find("emulated GPUs have no device files"), std::string::npos);
  wishes.devices = "off";
  const auto off = ChooseIsolation(wishes, Gpus(4), true);
  ASSERT_FALSE(off);
  EXPECT_NE(off.error().message.find("devices = \"off\""), std::string::npos);
  EXPECT_TRUE(ChooseIsolation(wishes, {}, true)) << "a machine without GPUs has nothing to close";

  Isolation here;
  EXPECT_TRUE(CheckRequired(here, "an elastic job"));
  here.wishes.is_required = true;
  EXPECT_TRUE(CheckRequired(here, ""));
  EXPECT_EQ(CheckRequired(here, "an elastic job").error().code, ErrorCode::kFailedPrecondition);
}

TEST(Isolation, NearCoresAreThoseOfTheGpusNumaNodes) {
  Isolation here;
  here.wishes.keeps_near_gpus = true;
  here.node_cores = {{0, 1, 2, 3}, {4, 5}};
  std::vector<GpuFacts> gpus = Gpus(3);
  gpus[0].numa_node = 0;
  gpus[1].numa_node = 1;
  EXPECT_EQ(IsolationOf(here, gpus, GpuSet::Of({1}), false).cores, "4-5");
  EXPECT_EQ(IsolationOf(here, gpus, GpuSet::Of({0, 1}), false).cores, "0-5");
  EXPECT_EQ(IsolationOf(here, gpus, GpuSet::Of({1, 2}), false).cores, "") << "one is near nobody knows what";
  EXPECT_EQ(IsolationOf(here, gpus, GpuSet(), false).cores, "");
}

TEST_F(CgroupMounts, DriverFilesGiveTheDeviceNumberOfEachGpu) {
  const auto tell = [&](const std::string& address, const std::string& number) {
    const std::string folder = home_ + "/gpus/" + address;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/information") << "Model: \t\t NVIDIA A100\nDevice Minor: \t " << number << "\n";
  };
  tell("0000:0f:00.0", "3");
  tell("0000:1f:00.0", "0");
  EXPECT_EQ(NvidiaDeviceFiles(Gpus(2), home_), (std::vector<std::string>{"/dev/nvidia3", "/dev/nvidia0"}));
  EXPECT_TRUE(NvidiaDeviceFiles(Gpus(3), home_).empty()) << "one is not told";
}

}  // namespace isolation_test
}  // namespace divvy
