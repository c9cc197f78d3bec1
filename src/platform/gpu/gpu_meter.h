// Measures the use of the GPUs through NVML.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/gpus/gpu.h"
#include "platform/gpu/nvml.h"
#include "platform/os/rate.h"
#include "samples/sample.h"

namespace divvy {

class GpuMeter {
 public:
  explicit GpuMeter(std::unique_ptr<NvmlLibrary> nvml);
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  /// Appends one sample for each GPU that answers and for each MIG instance, and the processes on them. The jobs of
  /// these processes are not set.
  void Look(const std::string& node, double seconds, samples::Snapshot& out);

 private:
  struct Gpu {
    nvml::Device device = nullptr;
    bool has_gpm = false;
    nvml::GpmSample before = nullptr;
    nvml::GpmSample now = nullptr;
    bool has_before = false;
    unsigned long long processes_seen_us = 0;
    bool hears_xids = false;
    unsigned long long xid = 0;  // The newest XID; 0: there was none.
    std::uint64_t xids = 0;      // Number of XIDs.
    Rate pcie_received, pcie_sent, nvlink_received, nvlink_sent;
  };
  using Readings = std::vector<samples::Reading>;

  void FindDevices();
  void DrainEvents();
  void ReadState(Gpu& gpu, Readings& readings);
  void ReadTraffic(Gpu& gpu, double seconds, Readings& readings);
  void ReadActivity(Gpu& gpu, Readings& readings);
  void ReadCounters(const Gpu& gpu, int index, samples::Snapshot& out);
  void ReadProcesses(Gpu& gpu, int index, samples::Snapshot& out);
  void ReadSlices(const Gpu& gpu, int index, const std::string& node, samples::Snapshot& out);

  std::unique_ptr<NvmlLibrary> nvml_;
  nvml::EventSet events_ = nullptr;
  std::vector<Gpu> gpus_;  // By index.
  std::vector<nvml::ProcessUse> listed_;
  std::vector<nvml::ProcessUtilisation> used_;
};

}  // namespace divvy
