// Entry points about present use: throttle reasons, processes, and multiprocessor counters.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvml_world.h"
#include "process_alive.h"

using namespace divvy::nvml;       // NOLINT: the entry points are outside the namespace by their ABI.
using namespace divvy::emulation;  // NOLINT: same reason.

namespace {

uint64_t NowNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// A process's use of a GPU at this process's last query.
struct Known {
  uint64_t busy_ns;
  uint64_t at_ns;
  uint64_t start_ticks;
};
Known known[kMaxGpus][kMaxCudaProcesses];

// Returns the use in percent since the last query.
unsigned UseOf(const CudaProcess& process, unsigned slot, unsigned gpu, uint64_t now) {
  Known& last = known[gpu][slot];
  const uint64_t busy = __atomic_load_n(&process.uses[gpu].busy_ns, __ATOMIC_RELAXED);
  unsigned percent = 0;
  if (last.start_ticks == process.start_ticks && now > last.at_ns && busy > last.busy_ns)
    percent = static_cast<unsigned>((busy - last.busy_ns) * 100 / (now - last.at_ns));
  last = {busy, now, process.start_ticks};
  return percent > 100 ? 100 : percent;
}

// A sample of the counters: the GPU's utilisation at that time.
struct Counters {
  unsigned busy;
};

}  // namespace

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (reasons == nullptr) return kInvalidArgument;
  *reasons = BusyNow(look) == 0 ? kReasonIdle : 0;
  return kSuccess;
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilisation* list, unsigned* count, unsigned long long) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (count == nullptr) return kInvalidArgument;
  unsigned found = 0;
  const uint64_t now = NowNanoseconds();
  for (unsigned i = 0; OpenCuda() != nullptr && i < kMaxCudaProcesses; ++i) {
    const CudaProcess& process = OpenCuda()->processes[i];
    if (process.uses[look.index].busy_ns == 0 || !IsUsingCuda(process)) continue;
    if (list != nullptr && found < *count) {
      const unsigned sm = UseOf(process, i, look.index, now);
      list[found] = {process.pid, now / 1000, sm, sm * 2 / 5, 0, 0};
    }
    ++found;
  }
  const bool fits = list != nullptr && found <= *count;
  *count = found;
  if (found == 0) return kNotFound;
  return fits ? kSuccess : kInsufficientSize;
}

Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (support == nullptr || support->version != kGpmVersion) return kInvalidArgument;
  support->is_supported = look.facts->compute_capability >= 90 ? 1 : 0;  // Supported from Hopper on.
  return kSuccess;
}

Return nvmlGpmSampleAlloc(GpmSample* sample) {
  if (sample == nullptr) return kInvalidArgument;
  *sample = static_cast<GpmSample>(calloc(1, sizeof(Counters)));
  return *sample == nullptr ? kInsufficientResources : kSuccess;
}

Return nvmlGpmSampleFree(GpmSample sample) {
  free(sample);
  return kSuccess;
}

Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (sample == nullptr) return kInvalidArgument;
  reinterpret_cast<Counters*>(sample)->busy = BusyNow(look);
  return kSuccess;
}

// Assumes that kernels fill the GPU: multiprocessors are as busy as the GPU was in the last second, tensor cores half
// as busy.
Return nvmlGpmMetricsGet(GpmMetrics* metrics) {
  if (metrics == nullptr || metrics->version != kGpmVersion) return kInvalidArgument;
  if (metrics->first == nullptr || metrics->second == nullptr) return kInvalidArgument;
  for (unsigned i = 0; i < metrics->count; ++i) {
    GpmMetric& metric = metrics->metrics[i];
    const bool is_of_tensors = metric.metric == kGpmTensorUtilisation;
    metric.result = metric.metric == kGpmSmUtilisation || is_of_tensors ? kSuccess : kNotSupported;
    const double busy = reinterpret_cast<Counters*>(metrics->second)->busy;
    metric.value = metric.result != kSuccess ? 0 : is_of_tensors ? busy / 2 : busy;
    metric.short_name = metric.long_name = metric.unit = nullptr;
  }
  return kSuccess;
}
