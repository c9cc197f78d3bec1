#include "samples/metric.h"

namespace divvy::samples {
namespace {

// 0.005 is finer than NVML's whole percent, and offsets of it from a mean usually fit in a byte.
constexpr double kRatio = 0.005;
constexpr double kMemory = 1 << 20;
// Rates are stored as multiples of 64 KiB/s, a thousandth of a slow disk's rate: they vary every second anyway.
constexpr double kRate = 1 << 16;
constexpr double kMegahertz = 1e6;

constexpr std::array<MetricFacts, kMetrics> kFacts = {{
    {"gpu_utilization", "ratio", kRatio, Fold::kMean, Join::kMean},
    {"gpu_memory_utilization", "ratio", kRatio, Fold::kMean, Join::kMean},
    {"gpu_sm_activity", "ratio", kRatio, Fold::kMean, Join::kMean},
    {"gpu_memory_used_bytes", "bytes", kMemory, Fold::kMean, Join::kSum},
    {"gpu_power_watts", "watts", 1, Fold::kMean, Join::kSum},
    {"gpu_temperature_celsius", "celsius", 1, Fold::kMean, Join::kMean},
    {"gpu_sm_clock_hertz", "hertz", kMegahertz, Fold::kMean, Join::kMean},
    {"gpu_memory_clock_hertz", "hertz", kMegahertz, Fold::kMean, Join::kMean},
    {"gpu_throttle", "bits", 1, Fold::kBits, Join::kSum},
    {"gpu_pcie_rx_bytes_per_second", "bytes_per_second", kRate * 16, Fold::kMean, Join::kSum},
    {"gpu_pcie_tx_bytes_per_second", "bytes_per_second", kRate * 16, Fold::kMean, Join::kSum},
    {"gpu_nvlink_rx_bytes_per_second", "bytes_per_second", kRate * 16, Fold::kMean, Join::kSum},
    {"gpu_nvlink_tx_bytes_per_second", "bytes_per_second", kRate * 16, Fold::kMean, Join::kSum},
    {"gpu_ecc_errors", "count", 1, Fold::kLast, Join::kSum},
    {"gpu_xid", "code", 1, Fold::kLast, Join::kSum},
    {"cpu_cores", "cores", 0.01, Fold::kMean, Join::kSum},
    {"cpu_utilization", "ratio", kRatio, Fold::kMean, Join::kMean},
    {"memory_used_bytes", "bytes", kMemory, Fold::kMean, Join::kSum},
    {"io_read_bytes_per_second", "bytes_per_second", kRate, Fold::kMean, Join::kSum},
    {"io_written_bytes_per_second", "bytes_per_second", kRate, Fold::kMean, Join::kSum},
    {"network_received_bytes_per_second", "bytes_per_second", kRate, Fold::kMean, Join::kSum},
    {"network_sent_bytes_per_second", "bytes_per_second", kRate, Fold::kMean, Join::kSum},
    {"gpus_total", "gpus", 0.01, Fold::kMean, Join::kSum},
    {"gpus_allocated", "gpus", 0.01, Fold::kMean, Join::kSum},
    {"gpus_used", "gpus", 0.01, Fold::kMean, Join::kSum},
    {"jobs_queued", "jobs", 1, Fold::kMean, Join::kSum},
    {"jobs_running", "jobs", 1, Fold::kMean, Join::kSum},
    {"gpu_memory_most_bytes", "bytes", kMemory, Fold::kMean, Join::kMost},
    {"gpu_tensor_activity", "ratio", kRatio, Fold::kMean, Join::kMean},
    {"team_share", "gpus", 0.01, Fold::kMean, Join::kSum},
    {"team_quota", "gpus", 0.01, Fold::kMean, Join::kSum},
    {"team_limit", "gpus", 0.01, Fold::kMean, Join::kSum},
    {"own_lines_left_out", "lines", 1, Fold::kMean, Join::kMost},
    {"own_names_left_out", "names", 1, Fold::kMean, Join::kMost},
}};

}  // namespace

const MetricFacts& FactsOf(Metric metric) { return kFacts[static_cast<std::size_t>(metric)]; }

std::optional<Metric> MetricByName(std::string_view name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<Metric>(i);
  }
  return std::nullopt;
}

}  // namespace divvy::samples
