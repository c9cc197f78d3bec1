// The page for scrapers under the names of NVIDIA's DCGM exporter, as dashboards made for that one ask for them.
#include "daemon/metrics_page.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "daemon/routes_test_world.h"

namespace divvy {
namespace {

using samples::Metric;

std::vector<GpuFacts> OneGpu(const std::string& uuid) {
  GpuFacts facts;
  facts.uuid = uuid;
  facts.model = "NVIDIA H100 80GB HBM3";
  facts.pci_address = "00000000:17:00.0";
  facts.memory_total = Bytes(std::int64_t{80} << 30);
  return {facts};
}

/// Two machines with a GPU each.
class DcgmNames : public testing::Test {
 protected:
  DcgmNames() {
    world_.controller_.SetOwnName("n1");
    NodeCapacity capacity;
    capacity.gpus = OneGpu("GPU-one");
    world_.controller_.SetCapacity(std::move(capacity));
    NodeRow row;
    row.name = row.fingerprint = "n2";
    row.facts.gpus = OneGpu("GPU-two");
    row.facts.cpus = 8;
    world_.controller_.OnNodeRow(row);
    samples::Snapshot seen;
    seen.at = static_cast<samples::Second>(ToSeconds(world_.clock_.Now()));
    const std::vector<samples::Reading> readings = {{Metric::kGpuUtilization, 0.5},
                                                    {Metric::kGpuMemoryUtilization, 0.25},
                                                    {Metric::kGpuMemoryUsed, 1024.0 * 1024 * 1024},
                                                    {Metric::kGpuPower, 350},
                                                    {Metric::kGpuTemperature, 61},
                                                    {Metric::kGpuSmClock, 1980e6},
                                                    {Metric::kGpuTensorActivity, 0.125}};
    for (const char* node : {"n1", "n2"}) seen.samples.push_back({{samples::Of::kGpu, node, 0, -1, 0}, readings});
    world_.samples_->Add(seen, seen.at);
  }
  /// The values of a name, by Hostname.
  std::map<std::string, std::string> Of(const std::string& name) {
    std::istringstream page(
        MetricsText({*world_.core_, world_.samples_.get(), nullptr, true}, wire::Exposed::kPrometheus));
    std::map<std::string, std::string> values;
    for (std::string line; std::getline(page, line);) {
      if (!line.starts_with(name + "{")) continue;
      constexpr std::string_view kHost = "Hostname=\"";
      const auto host = line.find(kHost) + kHost.size();
      values[line.substr(host, line.find('"', host) - host)] = line.substr(line.rfind(' ') + 1);
      labels_ = line.substr(name.size(), line.rfind(' ') - name.size());
    }
    return values;
  }

  World world_;
  std::string labels_;
};

TEST_F(DcgmNames, AreThoseThatThePublicDashboardAsksForInItsUnits) {
  // Grafana's 12239 asks for these.
  const std::array<std::pair<const char*, const char*>, 7> kPanels = {{{"DCGM_FI_DEV_GPU_TEMP", "61"},
                                                                       {"DCGM_FI_DEV_POWER_USAGE", "350"},
                                                                       {"DCGM_FI_DEV_SM_CLOCK", "1980"},
                                                                       {"DCGM_FI_DEV_GPU_UTIL", "50"},
                                                                       {"DCGM_FI_DEV_MEM_COPY_UTIL", "25"},
                                                                       {"DCGM_FI_DEV_FB_USED", "1024"},
                                                                       {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.125"}}};
  for (const auto& [name, value] : kPanels) {
    const auto values = Of(name);
    EXPECT_EQ(values, (std::map<std::string, std::string>{{"n1", value}, {"n2", value}})) << name;
  }
}

TEST_F(DcgmNames, HaveThatExportersLabels) {
  Of("DCGM_FI_DEV_GPU_TEMP");
  EXPECT_EQ(labels_,
            "{gpu=\"0\",UUID=\"GPU-two\",pci_bus_id=\"00000000:17:00.0\",device=\"nvidia0\","
            "modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"n2\"}");
}

}  // namespace
}  // namespace divvy
