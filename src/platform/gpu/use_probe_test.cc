// Tests the use probe with the stand-in library and real processes.
#include "platform/gpu/use_probe.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "platform/emulation/emulation.h"
#include "platform/gpu/process_meter.h"

namespace divvy {
namespace use_probe_test {

using samples::Metric;
using samples::Of;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class UseOfEmulatedGpus : public testing::Test {
 protected:
  UseOfEmulatedGpus() {
    std::string name = testing::TempDir() + "divvy-use-test.XXXXXX";
    directory_ = ::mkdtemp(name.data());
    const auto library = WriteEmulation(*ParseGpuDescription("2xH100-80GB"), directory_);
    EXPECT_TRUE(library);
    probe_ = OpenUseProbe(true, *library, EmulatedWorldPath(directory_));
    auto world = EmulatedWorld::Open(EmulatedWorldPath(directory_));
    EXPECT_TRUE(world);
    world_.emplace(*std::move(world));
  }
  ~UseOfEmulatedGpus() override {
    probe_.reset();
    std::filesystem::remove_all(directory_);
  }
  static std::optional<double> Value(const samples::Snapshot& seen, const samples::Subject& subject, Metric metric) {
    for (const samples::Sample& sample : seen.samples) {
      if (sample.subject != subject) continue;
      for (const samples::Reading& reading : sample.readings) {
        if (reading.metric == metric) return reading.value;
      }
    }
    return std::nullopt;
  }
  static samples::Subject Gpu(int index) { return {Of::kGpu, "n1", index, -1, 0}; }
  static samples::Subject Job(std::uint64_t id) { return {Of::kJob, "n1", -1, -1, id}; }

  std::string directory_;
  std::unique_ptr<UseProbe> probe_;
  std::optional<EmulatedWorld> world_;
};

TEST_F(UseOfEmulatedGpus, AnIdleGpuIsCoolSlowAndUnused) {
  const auto seen = probe_->Look(100, "n1", {});
  EXPECT_EQ(seen.at, 100);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuUtilization), 0);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuPower), 70);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuSmClock), 345e6);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuThrottle), 0);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuEccErrors), 0);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuXid), std::nullopt);
  EXPECT_TRUE(Value(seen, Gpu(1), Metric::kGpuMemoryUsed).has_value());
  EXPECT_GT(Value(seen, {Of::kNode, "n1", -1, -1, 0}, Metric::kMemoryUsed), 0);
}

TEST_F(UseOfEmulatedGpus, UtilizationOfAMigInstanceIsUnknownAndNotZero) {
  UseTarget target;
  target.job = 17;
  target.roots = {::getpid()};
  target.gpus = GpuSet::Of({0});
  target.has_parts = true;
  const auto part = probe_->Look(100, "n1", {target});
  EXPECT_EQ(Value(part, Job(17), Metric::kGpuUtilization), 0) << "no process of it is on the GPU";
  target.has_slices = true;
  const auto slice = probe_->Look(101, "n1", {target});
  EXPECT_EQ(Value(slice, Job(17), Metric::kGpuUtilization), std::nullopt);
  EXPECT_EQ(Value(slice, Job(17), Metric::kGpuMemoryUsed), 0);
}

TEST_F(UseOfEmulatedGpus, AGpuInMigModeReportsNoUtilization) {
  ASSERT_TRUE(world_->SetMig(0, true));
  const auto seen = probe_->Look(100, "n1", {});
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuUtilization), std::nullopt);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuMemoryUtilization), std::nullopt);
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuPower), 70);
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuUtilization), 0);
}

TEST_F(UseOfEmulatedGpus, ABusyGpuDrawsPowerAndItsJobUsesIt) {
  ASSERT_TRUE(world_->SetUtilisation(1, 80, 40));
  ASSERT_TRUE(world_->RaiseXid(1, 31));
  UseTarget target;
  target.job = 17;
  target.roots = {::getpid()};
  target.gpus = GpuSet::Of({0, 1});
  const auto first = probe_->Look(100, "n1", {target});
  const auto seen = probe_->Look(101, "n1", {target});
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuUtilization), 0.8);
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuMemoryUtilization), 0.4);
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuPower), 550);
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuSmClock), 1980e6);
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuSmActivity), 0.8);
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuTensorActivity), 0.4);
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuTensorActivity), 0.2);  // The mean of two GPUs.
  EXPECT_EQ(Value(seen, Gpu(1), Metric::kGpuXid), 31);
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuUtilization), 0.4);  // The mean of two GPUs.
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuPower), 620);
  const auto most = std::max(Value(seen, Gpu(0), Metric::kGpuMemoryUsed), Value(seen, Gpu(1), Metric::kGpuMemoryUsed));
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuMemoryMost), most);
  EXPECT_EQ(Value(first, Job(17), Metric::kCpuCores), std::nullopt);  // A rate needs two calls.
  EXPECT_TRUE(Value(seen, Job(17), Metric::kCpuCores).has_value());
  EXPECT_GT(Value(seen, Job(17), Metric::kMemoryUsed), 0);
}

TEST_F(UseOfEmulatedGpus, APausedJobsUtilizationIsUnknownButItsMemoryIsKnown) {
  UseTarget target;
  target.job = 17;
  target.roots = {::getpid()};
  target.gpus = GpuSet::Of({0, 1});
  target.is_paused = true;
  (void)probe_->Look(100, "n1", {target});
  auto seen = probe_->Look(101, "n1", {target});
  for (const Metric metric :
       {Metric::kGpuUtilization, Metric::kGpuSmActivity, Metric::kGpuTensorActivity, Metric::kCpuCores})
    EXPECT_EQ(Value(seen, Job(17), metric), std::nullopt) << samples::FactsOf(metric).name;
  EXPECT_TRUE(Value(seen, Job(17), Metric::kGpuMemoryUsed).has_value());
  EXPECT_GT(Value(seen, Job(17), Metric::kMemoryUsed), 0);
  target.is_paused = false;
  seen = probe_->Look(102, "n1", {target});
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuUtilization), 0);
  EXPECT_TRUE(Value(seen, Job(17), Metric::kCpuCores).has_value());
}

TEST_F(UseOfEmulatedGpus, AParkedTenantNeitherUsesNorWastesItsGpu) {
  UseTarget target;
  target.job = 17;
  target.roots = {::getpid()};
  target.gpus = GpuSet::Of({0});
  target.has_parts = true;
  target.is_parked = true;
  (void)probe_->Look(100, "n1", {target});
  auto seen = probe_->Look(101, "n1", {target});
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuUtilization), std::nullopt);
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuMemoryUsed), 0);
  EXPECT_TRUE(Value(seen, Job(17), Metric::kCpuCores).has_value()) << "its program goes on";
  target.is_parked = false;
  seen = probe_->Look(102, "n1", {target});
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuUtilization), 0);
}

TEST_F(UseOfEmulatedGpus, AJobWithAFractionUsesWhatItsProcessesUse) {
  ASSERT_TRUE(world_->AddProcess(0, ::getpid(), 3_GiB));
  ASSERT_TRUE(world_->SetUtilisation(0, 90));
  UseTarget target;
  target.job = 17;
  target.roots = {::getpid()};
  target.gpus = GpuSet::Of({0});
  target.has_parts = true;
  const auto seen = probe_->Look(100, "n1", {target});
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuMemoryUsed), static_cast<double>((3_GiB).count()));
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuUtilization), 0);  // The process computes nothing.
  ASSERT_EQ(seen.processes.size(), 1U);
  EXPECT_EQ(seen.processes[0].pid, ::getpid());
  EXPECT_EQ(seen.processes[0].job, 17U);
  EXPECT_EQ(seen.processes[0].gpu, 0);
  EXPECT_GT(seen.processes[0].host_memory_bytes, 0);
  EXPECT_EQ(seen.processes[0].cpu_cores, -1) << "a rate needs two looks";
  EXPECT_GE(probe_->Look(101, "n1", {target}).processes[0].cpu_cores, 0);
  EXPECT_EQ(probe_->Look(102, "n1", {}).processes[0].host_memory_bytes, -1) << "it is no job's";
}

// Its programs live for less than a second: the driver lists none of them, but the GPU was used.
TEST_F(UseOfEmulatedGpus, UtilizationByEndedProcessesCountsForAJobThatIsAloneOnTheGpu) {
  ASSERT_TRUE(world_->SetUtilisation(0, 40));
  UseTarget target;
  target.job = 17;
  target.gpus = GpuSet::Of({0, 1});
  target.has_parts = true;
  EXPECT_EQ(Value(probe_->Look(100, "n1", {target}), Job(17), Metric::kGpuUtilization), 0.2);  // The mean of two GPUs.
  // With two jobs either may have used it, so it is unknown.
  UseTarget other = target;
  other.job = 18;
  other.gpus = GpuSet::Of({0});
  const auto seen = probe_->Look(101, "n1", {target, other});
  EXPECT_EQ(Value(seen, Job(17), Metric::kGpuUtilization), std::nullopt);
  EXPECT_EQ(Value(seen, Job(18), Metric::kGpuUtilization), std::nullopt);
  other.is_parked = true;
  EXPECT_EQ(Value(probe_->Look(102, "n1", {target, other}), Job(17), Metric::kGpuUtilization), 0.2)
      << "who is on the host is not there";
  other.is_parked = false;
  ASSERT_TRUE(world_->SetUtilisation(0, 0));
  const auto idle = probe_->Look(103, "n1", {target, other});
  EXPECT_EQ(Value(idle, Job(17), Metric::kGpuUtilization), 0);
  EXPECT_EQ(Value(idle, Job(18), Metric::kGpuUtilization), 0);
}

TEST_F(UseOfEmulatedGpus, EnergyIsPowerOverTimeAndXidsAreCounted) {
  ASSERT_TRUE(world_->SetUtilisation(1, 80));
  const double begin = Now();  // Other work may delay each call, so the limits use the clock.
  const auto first = probe_->Look(100, "n1", {});
  const double looked = Now();
  ASSERT_EQ(first.counters.size(), 2U);
  EXPECT_EQ(first.counters[1].gpu, 1);
  EXPECT_EQ(first.counters[1].xid_errors, 0U);
  ASSERT_TRUE(world_->RaiseXid(1, 31));
  ASSERT_TRUE(world_->RaiseXid(1, 13));
  while (Now() < looked + 0.02) ::sched_yield();
  const double least = Now() - looked;
  const auto seen = probe_->Look(101, "n1", {});
  const double most = Now() - begin;
  EXPECT_EQ(seen.counters[1].xid_errors, 2U);
  EXPECT_EQ(seen.counters[0].xid_errors, 0U);
  const auto drawn = static_cast<double>(*seen.counters[1].energy_millijoules - *first.counters[1].energy_millijoules);
  // The GPU draws 550 W; the counter has whole millijoules.
  EXPECT_LE(drawn, 550e3 * most + 1);
  EXPECT_GE(drawn, 550e3 * least - 1);
  EXPECT_LT(*seen.counters[0].energy_millijoules - *first.counters[0].energy_millijoules, drawn) << "it does nothing";
}

TEST_F(UseOfEmulatedGpus, ALostGpuReportsNothing) {
  ASSERT_TRUE(world_->Lose(0));
  const auto seen = probe_->Look(100, "n1", {});
  EXPECT_EQ(Value(seen, Gpu(0), Metric::kGpuMemoryUsed), std::nullopt);
  EXPECT_TRUE(Value(seen, Gpu(1), Metric::kGpuMemoryUsed).has_value());
}

TEST(UseProbe, WithoutADriverOnlyTheNodeIsSampled) {
  const auto probe = OpenUseProbe(true, "/nowhere/libnvidia-ml.so.1");
  const auto seen = probe->Look(1, "n1", {});
  ASSERT_EQ(seen.samples.size(), 1U);
  EXPECT_EQ(seen.samples[0].subject.of, Of::kNode);
}

// A child computes until it is killed. Its time counts for its job even after it has ended and was reaped.
TEST(ProcessMeter, CountsTheCpuTimeOfShortLivedProcesses) {
  ProcessMeter meter;
  UseTarget target;
  target.job = 5;
  target.roots = {::getpid()};
  meter.Look({target}, Now());
  const double begin = Now();
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) {
    }
  }
  double cores = 0;
  double own = 0;  // The child's own use.
  // The test passes however little CPU time a busy machine gives it.
  for (double last = Now(); (cores == 0 || own == 0) && Now() < begin + 30; last = Now()) {
    while (Now() < last + 0.2) ::sched_yield();
    cores = std::max(cores, meter.Look({target}, Now())[5].cpu_cores.value_or(0));
    if (const auto use = meter.UseOf(child)) own = use->cpu_cores.value_or(0);
  }
  EXPECT_EQ(meter.JobOf(child), 5U);
  EXPECT_GT(cores, 0);
  EXPECT_GT(own, 0);
  EXPECT_GT(meter.UseOf(child)->memory_bytes, 0);
  EXPECT_EQ(meter.UseOf(1), std::nullopt) << "it is no target's";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  // CPU time is counted in steps of 10 ms: over a shorter interval it would look like many cores.
  for (const double last = Now(); Now() < last + 0.2;) ::sched_yield();
  const auto uses = meter.Look({target}, Now());
  EXPECT_EQ(meter.JobOf(child), 0U);
  EXPECT_FALSE(meter.UseOf(child));
  EXPECT_LT(meter.UseOf(::getpid()).value().cpu_cores.value_or(0), 2) << "the child's time is not its own";
  EXPECT_GE(uses.at(5).cpu_cores.value_or(-1), 0);
}

TEST(Rate, NeedsTwoSamplesAndRestartsWithItsCounter) {
  Rate rate;
  EXPECT_EQ(rate.Next(100, 1), std::nullopt);
  EXPECT_EQ(rate.Next(150, 2), 50);
  EXPECT_EQ(rate.Next(10, 3), std::nullopt);
  EXPECT_EQ(rate.Next(20, 4), 10);
  Rate wraps;
  wraps.Next(0xFFFFFFF0, 1, true);
  EXPECT_EQ(wraps.Next(0x10, 2, true), 0x20);
}

}  // namespace use_probe_test
}  // namespace divvy
