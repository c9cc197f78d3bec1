#include "platform/gpu/use_probe.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "platform/gpu/gpu_meter.h"
#include "platform/gpu/process_meter.h"
#include "platform/os/host_meter.h"

namespace divvy {
namespace {

using samples::Metric;
using samples::Of;
using samples::Sample;
using samples::Snapshot;

double SecondsSinceBoot() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

const double* Find(const Sample& sample, Metric metric) {
  for (const samples::Reading& reading : sample.readings) {
    if (reading.metric == metric) return &reading.value;
  }
  return nullptr;
}

// A run with exclusive GPUs uses what these GPUs report.
void AddWholeGpus(const UseTarget& target, const Snapshot& seen, std::vector<samples::Reading>& readings) {
  constexpr std::array<Metric, 5> kOfGpus = {Metric::kGpuUtilization, Metric::kGpuSmActivity, Metric::kGpuMemoryUsed,
                                             Metric::kGpuPower, Metric::kGpuTensorActivity};
  for (const Metric metric : kOfGpus) {
    double sum = 0;
    double most = 0;
    int count = 0;
    for (const Sample& sample : seen.samples) {
      if (sample.subject.of != Of::kGpu || !target.gpus.Contains(static_cast<GpuIndex>(sample.subject.gpu))) continue;
      if (const double* value = Find(sample, metric)) {
        sum += *value;
        most = std::max(most, *value);
        ++count;
      }
    }
    const bool is_mean = samples::FactsOf(metric).join == samples::Join::kMean;
    if (count > 0) readings.push_back({metric, is_mean ? sum / count : sum});
    if (count > 1 && metric == Metric::kGpuMemoryUsed) readings.push_back({Metric::kGpuMemoryMost, most});
  }
}

/// Estimates what processes that have ended used of one GPU of a run with fractions. The driver lists only living
/// processes, so a program that lives for less than a second is in no list.
///
/// Returns 0 if nothing was used, or if the run's living processes there show the use. Returns nullopt if the GPU was
/// used by an unknown process and several runs share it.
std::optional<double> UseOfEnded(const UseTarget& target, int gpu, const std::vector<UseTarget>& targets,
                                 const Snapshot& seen) {
  double known = 0;
  bool is_alone = true;
  for (const samples::ProcessUse& process : seen.processes) {
    if (process.gpu != gpu) continue;
    if (process.job == target.job) return 0;
    known += std::max(process.utilization, 0.0);
    is_alone = false;
  }
  const auto sample = std::ranges::find(
      seen.samples, gpu, [](const Sample& one) { return one.subject.of == Of::kGpu ? one.subject.gpu : -1; });
  const double* use = sample == seen.samples.end() ? nullptr : Find(*sample, Metric::kGpuUtilization);
  // The GPU's use must be more than twice the use of the known processes, because both are measured over different
  // intervals and need not be equal.
  if (use == nullptr || *use <= 2 * known) return 0;
  for (const UseTarget& other : targets)
    is_alone &= other.job == target.job || other.is_parked || !other.gpus.Contains(static_cast<GpuIndex>(gpu));
  return is_alone ? std::optional(*use) : std::nullopt;
}

// A run with GPU fractions uses what its processes use; utilisation is the mean over its GPUs.
void AddParts(const UseTarget& target, const std::vector<UseTarget>& targets, const Snapshot& seen,
              std::vector<samples::Reading>& readings) {
  double memory = 0;
  double utilization = 0;
  bool is_known = !target.has_slices;
  for (const samples::ProcessUse& process : seen.processes) {
    if (process.job != target.job) continue;
    memory += process.memory_bytes;
    utilization += std::max(process.utilization, 0.0);
    is_known &= process.utilization >= 0;
  }
  for (const int gpu : target.gpus.ToVector()) {
    const std::optional<double> ended = UseOfEnded(target, gpu, targets, seen);
    is_known &= ended.has_value();
    utilization += ended.value_or(0);
  }
  const int gpus = std::max(target.gpus.size(), 1);
  if (is_known) readings.push_back({Metric::kGpuUtilization, std::min(utilization / gpus, 1.0)});
  readings.push_back({Metric::kGpuMemoryUsed, memory});
}

// True for metrics of work on GPUs, as opposed to allocated resources.
bool IsOfWork(const samples::Reading& reading) {
  return reading.metric == Metric::kGpuUtilization || reading.metric == Metric::kGpuSmActivity ||
         reading.metric == Metric::kGpuTensorActivity;
}

class RealUseProbe final : public UseProbe {
 public:
  RealUseProbe(std::unique_ptr<GpuMeter> gpus, ReadIo read_io)
      : gpus_(std::move(gpus)), processes_(std::move(read_io)) {}

  Snapshot Look(samples::Second at, const std::string& node, const std::vector<UseTarget>& targets) override {
    Snapshot seen;
    seen.at = at;
    const double seconds = SecondsSinceBoot();
    if (gpus_) gpus_->Look(node, seconds, seen);
    const auto uses = processes_.Look(targets, seconds);
    for (samples::ProcessUse& process : seen.processes) AddHostUse(process);
    Sample& host = seen.samples.emplace_back();
    host.subject.of = Of::kNode;
    host.subject.node = node;
    host_.Look(seconds, host.readings);
    for (const UseTarget& target : targets) seen.samples.push_back(SampleOf(target, targets, node, uses, seen));
    return seen;
  }

 private:
  // Adds the use of CPU, memory and disks to a process on a GPU, if it belongs to a job: ProcessMeter has measured it.
  void AddHostUse(samples::ProcessUse& process) const {
    process.job = processes_.JobOf(process.pid);
    const auto use = processes_.UseOf(process.pid);
    if (!use) return;
    process.cpu_cores = use->cpu_cores.value_or(-1);
    process.host_memory_bytes = use->memory_bytes;
    process.read_bytes_per_second = use->read_bytes_per_second.value_or(-1);
    process.written_bytes_per_second = use->written_bytes_per_second.value_or(-1);
  }

  static Sample SampleOf(const UseTarget& target, const std::vector<UseTarget>& targets, const std::string& node,
                         const std::map<std::uint64_t, ProcessMeter::Use>& uses, const Snapshot& seen) {
    Sample sample;
    sample.subject = {Of::kJob, node, -1, -1, target.job};
    if (!target.gpus.empty() && !target.has_parts) AddWholeGpus(target, seen, sample.readings);
    if (!target.gpus.empty() && target.has_parts) AddParts(target, targets, seen, sample.readings);
    if (target.is_paused || target.is_parked) std::erase_if(sample.readings, IsOfWork);
    const auto use = uses.find(target.job);
    if (use == uses.end()) return sample;
    const auto add = [&](Metric metric, const std::optional<double>& value) {
      if (value) sample.readings.push_back({metric, *value});
    };
    if (!target.is_paused) add(Metric::kCpuCores, use->second.cpu_cores);
    add(Metric::kMemoryUsed, use->second.memory_bytes);
    add(Metric::kIoRead, use->second.read_bytes_per_second);
    add(Metric::kIoWritten, use->second.written_bytes_per_second);
    return sample;
  }

  std::unique_ptr<GpuMeter> gpus_;  // Null if there are no GPUs.
  ProcessMeter processes_;
  HostMeter host_;
};

}  // namespace

std::unique_ptr<UseProbe> OpenUseProbe(bool has_gpus, const std::string& library_path, const std::string& world_path,
                                       ReadIo read_io) {
  std::unique_ptr<GpuMeter> gpus;
  if (has_gpus) {
    if (auto nvml = NvmlLibrary::Load(library_path, world_path)) gpus = std::make_unique<GpuMeter>(*std::move(nvml));
  }
  return std::make_unique<RealUseProbe>(std::move(gpus), std::move(read_io));
}

}  // namespace divvy
