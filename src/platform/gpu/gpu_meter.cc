#include "platform/gpu/gpu_meter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace divvy {
namespace {

using samples::Metric;

constexpr double kPercent = 0.01;
constexpr double kMegahertz = 1e6;
constexpr double kKiB = 1024;
constexpr int kMaxMeterEvents = 256;
constexpr std::size_t kRoomForProcesses = 64;

}  // namespace

GpuMeter::GpuMeter(std::unique_ptr<NvmlLibrary> nvml) : nvml_(std::move(nvml)) {
  if (nvml_->create_events != nullptr && nvml_->create_events(&events_) != nvml::kSuccess) events_ = nullptr;
  FindDevices();
}

GpuMeter::~GpuMeter() {
  for (const Gpu& gpu : gpus_) {
    if (gpu.before != nullptr) nvml_->free_gpm_sample(gpu.before);
    if (gpu.now != nullptr) nvml_->free_gpm_sample(gpu.now);
  }
  if (events_ != nullptr && nvml_->free_events != nullptr) nvml_->free_events(events_);
}

void GpuMeter::FindDevices() {
  unsigned count = 0;
  if (nvml_->get_count(&count) != nvml::kSuccess) return;
  gpus_.resize(std::min<std::size_t>(count, GpuSet::kCapacity));
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = gpus_[i];
    if (nvml_->get_handle(static_cast<unsigned>(i), &gpu.device) != nvml::kSuccess) {
      gpu.device = nullptr;
      continue;
    }
    if (events_ != nullptr && nvml_->register_events != nullptr)
      gpu.hears_xids = nvml_->register_events(gpu.device, nvml::kEventXid, events_) == nvml::kSuccess;
    if (!nvml_->has_gpm()) continue;
    nvml::GpmSupport support{nvml::kGpmVersion, 0};
    gpu.has_gpm = nvml_->query_gpm(gpu.device, &support) == nvml::kSuccess && support.is_supported != 0 &&
                  nvml_->make_gpm_sample(&gpu.before) == nvml::kSuccess &&
                  nvml_->make_gpm_sample(&gpu.now) == nvml::kSuccess;
  }
}

void GpuMeter::DrainEvents() {
  if (events_ == nullptr || nvml_->wait_events == nullptr) return;
  nvml::Event event{};
  for (int i = 0; i < kMaxMeterEvents && nvml_->wait_events(events_, &event, 0) == nvml::kSuccess; ++i) {
    const auto gpu = std::ranges::find(gpus_, event.device, &Gpu::device);
    if ((event.type & nvml::kEventXid) == 0 || gpu == gpus_.end()) continue;
    gpu->xid = event.value;
    ++gpu->xids;
  }
}

void GpuMeter::Look(const std::string& node, double seconds, samples::Snapshot& out) {
  DrainEvents();
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = gpus_[i];
    if (gpu.device == nullptr && nvml_->get_handle(static_cast<unsigned>(i), &gpu.device) != nvml::kSuccess) {
      gpu.device = nullptr;
      continue;
    }
    samples::Sample sample;
    sample.subject.node = node;
    sample.subject.gpu = static_cast<int>(i);
    ReadState(gpu, sample.readings);
    // A lost GPU reports nothing, so the remaining queries are skipped.
    if (sample.readings.empty()) continue;
    ReadTraffic(gpu, seconds, sample.readings);
    ReadActivity(gpu, sample.readings);
    if (gpu.xid != 0) sample.readings.push_back({Metric::kGpuXid, static_cast<double>(gpu.xid)});
    std::ranges::sort(sample.readings, {}, &samples::Reading::metric);
    out.samples.push_back(std::move(sample));
    ReadCounters(gpu, static_cast<int>(i), out);
    ReadProcesses(gpu, static_cast<int>(i), out);
    ReadSlices(gpu, static_cast<int>(i), node, out);
  }
}

void GpuMeter::ReadState(Gpu& gpu, Readings& readings) {
  const auto add = [&](Metric metric, double value) { readings.push_back({metric, value}); };
  nvml::Memory memory{};
  if (nvml_->get_memory != nullptr && nvml_->get_memory(gpu.device, &memory) == nvml::kSuccess)
    add(Metric::kGpuMemoryUsed, static_cast<double>(memory.used));
  nvml::Utilisation use{};
  if (nvml_->get_utilisation != nullptr && nvml_->get_utilisation(gpu.device, &use) == nvml::kSuccess) {
    add(Metric::kGpuUtilization, use.gpu * kPercent);
    add(Metric::kGpuMemoryUtilization, use.memory * kPercent);
  }
  unsigned number = 0;
  if (nvml_->get_power != nullptr && nvml_->get_power(gpu.device, &number) == nvml::kSuccess)
    add(Metric::kGpuPower, number / 1000.0);
  if (nvml_->get_temperature != nullptr &&
      nvml_->get_temperature(gpu.device, nvml::kTemperatureOfGpu, &number) == nvml::kSuccess)
    add(Metric::kGpuTemperature, number);
  if (nvml_->get_clock != nullptr) {
    if (nvml_->get_clock(gpu.device, nvml::kClockSm, &number) == nvml::kSuccess)
      add(Metric::kGpuSmClock, number * kMegahertz);
    if (nvml_->get_clock(gpu.device, nvml::kClockMemory, &number) == nvml::kSuccess)
      add(Metric::kGpuMemoryClock, number * kMegahertz);
  }
  unsigned long long wide = 0;
  if (nvml_->get_clock_reasons != nullptr && nvml_->get_clock_reasons(gpu.device, &wide) == nvml::kSuccess)
    add(Metric::kGpuThrottle, static_cast<double>(wide & ~nvml::kReasonIdle));  // Idle does not count as throttling.
  if (nvml_->get_errors != nullptr &&
      nvml_->get_errors(gpu.device, nvml::kErrorUncorrected, nvml::kCounterSinceLoad, &wide) == nvml::kSuccess)
    add(Metric::kGpuEccErrors, static_cast<double>(wide));
}

// Reads counters, because nvmlDeviceGetPcieThroughput waits 20 ms for each direction.
void GpuMeter::ReadTraffic(Gpu& gpu, double seconds, Readings& readings) {
  if (nvml_->get_fields == nullptr) return;
  std::array<nvml::FieldValue, 4> fields{};
  fields[0].field = nvml::kFieldPcieReceived;
  fields[1].field = nvml::kFieldPcieSent;
  fields[2].field = nvml::kFieldNvlinkReceived;
  fields[3].field = nvml::kFieldNvlinkSent;
  fields[2].scope = fields[3].scope = nvml::kAllLinks;
  if (nvml_->get_fields(gpu.device, static_cast<int>(fields.size()), fields.data()) != nvml::kSuccess) return;
  const auto add = [&](const nvml::FieldValue& field, Rate& rate, Metric metric, double unit, bool is_short) {
    if (field.result != nvml::kSuccess) return;
    const std::uint64_t count = is_short ? field.value.as_unsigned : field.value.as_unsigned_long_long;
    if (const auto each = rate.Next(count, seconds, is_short)) readings.push_back({metric, *each * unit});
  };
  add(fields[0], gpu.pcie_received, Metric::kGpuPcieReceived, 1, fields[0].value_type == nvml::kValueUnsigned);
  add(fields[1], gpu.pcie_sent, Metric::kGpuPcieSent, 1, fields[1].value_type == nvml::kValueUnsigned);
  add(fields[2], gpu.nvlink_received, Metric::kGpuNvlinkReceived, kKiB, false);
  add(fields[3], gpu.nvlink_sent, Metric::kGpuNvlinkSent, kKiB, false);
}

void GpuMeter::ReadActivity(Gpu& gpu, Readings& readings) {
  if (!gpu.has_gpm || nvml_->take_gpm_sample(gpu.device, gpu.now) != nvml::kSuccess) return;
  if (gpu.has_before) {
    nvml::GpmMetrics metrics{};
    metrics.version = nvml::kGpmVersion;
    metrics.count = 2;
    metrics.first = gpu.before;
    metrics.second = gpu.now;
    constexpr std::array<Metric, 2> kWanted = {Metric::kGpuSmActivity, Metric::kGpuTensorActivity};
    metrics.metrics[0].metric = nvml::kGpmSmUtilisation;
    metrics.metrics[1].metric = nvml::kGpmTensorUtilisation;
    const bool are_told = nvml_->get_gpm_metrics(&metrics) == nvml::kSuccess;
    for (std::size_t i = 0; are_told && i < kWanted.size(); ++i) {
      const nvml::GpmMetric& told = metrics.metrics[i];
      if (told.result == nvml::kSuccess && std::isfinite(told.value))
        readings.push_back({kWanted[i], told.value * kPercent});
    }
  }
  std::swap(gpu.before, gpu.now);
  gpu.has_before = true;
}

void GpuMeter::ReadCounters(const Gpu& gpu, int index, samples::Snapshot& out) {
  samples::GpuCounters counters;
  counters.gpu = index;
  unsigned long long millijoules = 0;
  if (nvml_->get_energy != nullptr && nvml_->get_energy(gpu.device, &millijoules) == nvml::kSuccess)
    counters.energy_millijoules = millijoules;
  if (gpu.hears_xids) counters.xid_errors = gpu.xids;
  if (counters.energy_millijoules || counters.xid_errors) out.counters.push_back(counters);
}

void GpuMeter::ReadProcesses(Gpu& gpu, int index, samples::Snapshot& out) {
  if (nvml_->list_compute == nullptr) return;
  listed_.resize(std::max(listed_.size(), kRoomForProcesses));
  auto count = static_cast<unsigned>(listed_.size());
  nvml::Return result = nvml_->list_compute(gpu.device, &count, listed_.data());
  if (result == nvml::kInsufficientSize) {
    listed_.resize(count + kRoomForProcesses);
    count = static_cast<unsigned>(listed_.size());
    result = nvml_->list_compute(gpu.device, &count, listed_.data());
  }
  if (result != nvml::kSuccess || count == 0) return;
  const std::size_t first = out.processes.size();
  for (unsigned i = 0; i < count; ++i) {
    samples::ProcessUse process;
    process.pid = listed_[i].pid;
    process.gpu = index;
    if (listed_[i].used_memory != nvml::kMemoryNotAvailable)
      process.memory_bytes = static_cast<double>(listed_[i].used_memory);
    out.processes.push_back(process);
  }
  if (nvml_->get_process_use == nullptr) return;
  used_.resize(std::max(used_.size(), kRoomForProcesses));
  unsigned samples = static_cast<unsigned>(used_.size());
  result = nvml_->get_process_use(gpu.device, used_.data(), &samples, gpu.processes_seen_us);
  if (result == nvml::kInsufficientSize) {
    used_.resize(samples + kRoomForProcesses);
    samples = static_cast<unsigned>(used_.size());
    result = nvml_->get_process_use(gpu.device, used_.data(), &samples, gpu.processes_seen_us);
  }
  // No new samples of a process mean no use of the GPU. If the driver does not report use at all, it stays unknown.
  if (result != nvml::kSuccess && result != nvml::kNotFound) return;
  for (std::size_t i = first; i < out.processes.size(); ++i) out.processes[i].utilization = 0;
  for (unsigned i = 0; result == nvml::kSuccess && i < samples; ++i) {
    gpu.processes_seen_us = std::max(gpu.processes_seen_us, used_[i].timestamp_us);
    for (std::size_t k = first; k < out.processes.size(); ++k) {
      samples::ProcessUse& process = out.processes[k];
      if (process.pid == used_[i].pid) process.utilization = std::max(process.utilization, used_[i].sm * kPercent);
    }
  }
}

void GpuMeter::ReadSlices(const Gpu& gpu, int index, const std::string& node, samples::Snapshot& out) {
  unsigned current = 0;
  unsigned pending = 0;
  if (!nvml_->has_mig() || nvml_->get_mig_mode(gpu.device, &current, &pending) != nvml::kSuccess ||
      current != nvml::kMigOn)
    return;
  constexpr unsigned kMostInstances = 7;
  for (unsigned i = 0; i < kMostInstances; ++i) {
    nvml::Device mig = nullptr;
    unsigned id = 0;
    nvml::Memory memory{};
    if (nvml_->get_mig_device(gpu.device, i, &mig) != nvml::kSuccess || nvml_->get_memory == nullptr ||
        nvml_->get_slice_id(mig, &id) != nvml::kSuccess || nvml_->get_memory(mig, &memory) != nvml::kSuccess)
      continue;
    samples::Sample sample;
    sample.subject = {samples::Of::kSlice, node, index, static_cast<int>(id), 0};
    sample.readings.push_back({Metric::kGpuMemoryUsed, static_cast<double>(memory.used)});
    out.samples.push_back(std::move(sample));
  }
}

}  // namespace divvy
