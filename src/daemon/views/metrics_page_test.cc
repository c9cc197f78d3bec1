// The metrics page under the names of NVIDIA's DCGM exporter, as dashboards for that exporter query them.
#include "daemon/views/metrics_page.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "daemon/api/routes_test_world.h"

namespace divvy {
namespace metrics_page_test {

using samples::Metric;

std::vector<GpuFacts> OneGpu(const std::string& uuid) {
  GpuFacts facts;
  facts.uuid = uuid;
  facts.model = "NVIDIA H100 80GB HBM3";
  facts.pci_address = "00000000:17:00.0";
  facts.memory_total = Bytes(std::int64_t{80} << 30);
  return {facts};
}

/// Two nodes with one GPU each.
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
    world_.controller_.OnNodeReconciled("n2");
    See({"n1", "n2"});
  }
  /// Adds a sample for the GPUs of these nodes.
  void See(const std::vector<const char*>& nodes) {
    samples::Snapshot seen;
    seen.at = static_cast<samples::Second>(ToSeconds(world_.clock_.Now()));
    const std::vector<samples::Reading> readings = {{Metric::kGpuUtilization, 50 * 0.01},
                                                    {Metric::kGpuMemoryUtilization, 0.25},
                                                    {Metric::kGpuMemoryUsed, 1024.0 * 1024 * 1024},
                                                    {Metric::kGpuPower, 350},
                                                    {Metric::kGpuTemperature, 61},
                                                    {Metric::kGpuSmClock, 1980e6},
                                                    {Metric::kGpuTensorActivity, 0.125}};
    for (const char* node : nodes) seen.samples.push_back({{samples::Of::kGpu, node, 0, -1, 0}, readings});
    for (const char* node : nodes) {
      seen.samples.push_back({{samples::Of::kNode, node, -1, -1, 0}, {{Metric::kCpuCores, 1}}});
      seen.counters = {{0, 22'075'200'000'001, 2}};
      world_.samples_->Add(seen, seen.at);
      seen.samples.clear();
    }
  }
  std::string Page(const Counters* counters = nullptr, const WasteTracker* waste = nullptr) {
    return MetricsText({*world_.driver_, world_.samples_.get(), counters, {{"up", 1}, {"away", 1}}, true, waste},
                       wire::Exposed::kPrometheus);
  }
  /// The values of a metric, by Hostname.
  std::map<std::string, std::string> Of(const std::string& name) {
    std::istringstream page(Page());
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

TEST_F(DcgmNames, MatchThePublicDashboardInItsUnits) {
  // The queries of Grafana's dashboard 12239.
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

TEST_F(DcgmNames, HaveTheLabelsOfTheDcgmExporter) {
  Of("DCGM_FI_DEV_GPU_TEMP");
  EXPECT_EQ(labels_,
            "{gpu=\"0\",UUID=\"GPU-two\",pci_bus_id=\"00000000:17:00.0\",device=\"nvidia0\","
            "modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"n2\"}");
}

TEST_F(DcgmNames, EnergyIsExactInBothUnits) {
  EXPECT_EQ(Of("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").at("n2"), "22075200000001");
  const std::string page = Page();
  EXPECT_NE(page.find("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_gpu_energy_joules_total{node=\"n1\",gpu=\"0\"} 22075200000.001\n"), std::string::npos)
      << page;
  EXPECT_NE(page.find("divvy_gpu_xid_errors_total{node=\"n1\",gpu=\"0\"} 2\n"), std::string::npos);
}

class MetricsPage : public DcgmNames {};

TEST_F(MetricsPage, ADisconnectedNodeHasNoCurrentValues) {
  EXPECT_NE(Page().find("divvy_gpu_healthy{node=\"n2\""), std::string::npos);
  world_.controller_.OnNodeDisconnected("n2");
  const std::string page = Page();
  for (const std::string name : {"divvy_gpu_healthy", "divvy_gpu_utilization_ratio", "DCGM_FI_DEV_GPU_TEMP"})
    EXPECT_NE(page.find("\n" + name + "{"), std::string::npos) << name << ": n1's is there";
  EXPECT_EQ(page.find("divvy_gpu_healthy{node=\"n2\""), std::string::npos);
  EXPECT_EQ(page.find("divvy_gpu_utilization_ratio{node=\"n2\""), std::string::npos);
  EXPECT_EQ(Of("DCGM_FI_DEV_GPU_TEMP").count("n2"), 0U);
  EXPECT_NE(page.find("divvy_gpu_memory_total_bytes{node=\"n2\""), std::string::npos) << "that it has all the same";
  EXPECT_NE(page.find("divvy_nodes{state=\"away\"} 1\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_nodes{state=\"drained\"} 0\n"), std::string::npos);
}

TEST_F(MetricsPage, AGpuWithoutRecentSamplesHasNoValues) {
  samples::Snapshot next;
  next.at = static_cast<samples::Second>(ToSeconds(world_.clock_.Now())) + 1;
  next.samples.push_back({{samples::Of::kNode, "n1", -1, -1, 0}, {{Metric::kCpuCores, 0.1 + 0.2}}});
  next.samples.push_back({{samples::Of::kSlice, "n1", 0, 13, 0}, {{Metric::kGpuMemoryUsed, 4096}}});
  world_.samples_->Add(next, next.at);
  const std::string page = Page();
  EXPECT_EQ(page.find("divvy_gpu_utilization_ratio{node=\"n1\""), std::string::npos);
  EXPECT_NE(page.find("divvy_gpu_utilization_ratio{node=\"n2\",gpu=\"0\"} 0.5\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_node_cpu_busy_cores{node=\"n1\"} 0.3\n"), std::string::npos) << "no digits of binary";
  EXPECT_NE(page.find("divvy_slice_memory_used_bytes{node=\"n1\",gpu=\"0\",instance=\"13\"} 4096\n"),
            std::string::npos);
}

TEST_F(MetricsPage, ShowsNodeResourcesAndHowFreeGpusAreDistributed) {
  const std::string page = Page();
  EXPECT_NE(page.find("divvy_node_cpu_cores{node=\"n2\"} 8\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_gpus_free_on_one_node 1\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_fragmentation_ratio 0.5\n"), std::string::npos) << page;
}

TEST_F(MetricsPage, HasTheMoneyOfProvidersAndTeams) {
  MetricsAbout about{*world_.driver_, nullptr, nullptr, {}};
  wire::ProviderView provider;
  provider.name = "aws";
  provider.state = "failing";
  provider.hourly = 24.5;
  provider.this_month = 310.25;
  about.providers = {provider};
  about.team_nodes = {{"vision", {24.5, 120}}};
  const std::string page = MetricsText(about, wire::Exposed::kPrometheus);
  EXPECT_NE(page.find("divvy_provider_cost_per_hour{provider=\"aws\"} 24.5\n"), std::string::npos) << page;
  EXPECT_NE(page.find("divvy_provider_cost_this_month{provider=\"aws\"} 310.25\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_provider_failing{provider=\"aws\"} 1\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_team_nodes_cost_per_hour{team=\"vision\"} 24.5\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_team_nodes_cost_this_month{team=\"vision\"} 120\n"), std::string::npos);
}

TEST_F(MetricsPage, CountsAllocatedGpusThatAreIdle) {
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  const Time begun = world_.clock_.Now();
  const auto result =
      world_.controller_.Submit(std::move(spec), 0, Caller{{0, 0, "ada"}, false}, begun, world_.driver_->Outcomes());
  ASSERT_TRUE(result);
  world_.driver_->Touch();
  world_.Settle();
  world_.controller_.OnStarted(result->id, world_.controller_.Find(result->id)->attempt, begun);
  WasteTracker waste({}, "n1");
  const auto first = static_cast<samples::Second>(ToSeconds(begun));
  for (samples::Second at = first + 10; at < first + 7200; at += 10) {
    samples::Snapshot seen;
    seen.at = at;
    for (const char* node : {"n1", "n2"}) {
      seen.samples.push_back({{samples::Of::kGpu, node, 0, -1, 0}, {{Metric::kGpuUtilization, 0}}});
      seen.samples.push_back({{samples::Of::kNode, node, -1, -1, 0}, {{Metric::kCpuCores, 0}}});
    }
    world_.samples_->Add(seen, at);
    waste.Look(world_.controller_, *world_.samples_, at);
  }
  const std::string page = Page(nullptr, &waste);
  EXPECT_NE(page.find("divvy_gpus_wasted{kind=\"idle\"} 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("divvy_gpus_wasted{kind=\"underused\"} 0\n"), std::string::npos) << "from the start";
}

TEST_F(MetricsPage, CountsTrialsAndParkedJobs) {
  const std::string page = Page();
  EXPECT_NE(page.find("divvy_time_sharing_jobs{state=\"parked\"} 0\n"), std::string::npos) << page;
  EXPECT_NE(page.find("divvy_time_sharing_parks_total 0\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_time_sharing_lost_seconds_total 0\n"), std::string::npos);
}

TEST_F(MetricsPage, CountsEndedRuns) {
  Counters counters;
  EXPECT_NE(Page(&counters).find("divvy_job_run_seconds_count 0\n"), std::string::npos);
  const JobId job = world_.Submit("train");
  world_.Settle();
  const Time begun = world_.clock_.Now();
  // A change is reported once it is durable; the job may have progressed by then.
  counters.OnChanges(world_.controller_, {{job, JobState::kQueued}}, begun);
  JobRecord record = *world_.controller_.Find(job);
  ASSERT_EQ(record.state, JobState::kStarting) << "it was decided on";
  world_.controller_.OnStarted(job, record.attempt, begun);
  counters.OnChanges(world_.controller_, {{job, JobState::kRunning}}, begun);
  counters.OnChanges(world_.controller_, {{job, JobState::kSucceeded}}, begun + std::chrono::seconds(20));
  counters.OnChanges(world_.controller_, {{job, JobState::kSucceeded}}, begun + std::chrono::seconds(30));
  const std::string page = Page(&counters);
  EXPECT_NE(page.find("divvy_job_run_seconds_count 1\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_job_run_seconds_sum 20\n"), std::string::npos);
  EXPECT_NE(page.find("divvy_preemptions_total 0\n"), std::string::npos);
}

TEST_F(MetricsPage, AnArrayElementHasItsDisplayId) {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "sweep";
  const auto array = world_.controller_.Submit(std::move(spec), 2, Caller{{0, 0, "ada"}, false}, world_.clock_.Now(),
                                               world_.driver_->Outcomes());
  ASSERT_TRUE(array);
  world_.driver_->Touch();
  world_.Settle();
  const JobId first = ElementId(array->id, 0);
  ASSERT_NE(world_.controller_.Find(first), nullptr);
  samples::Snapshot next;
  next.at = static_cast<samples::Second>(ToSeconds(world_.clock_.Now())) + 1;
  next.samples.push_back({{samples::Of::kJob, "n1", -1, -1, first.value()}, {{Metric::kCpuCores, 1}}});
  world_.samples_->Add(next, next.at);
  EXPECT_NE(Page().find("divvy_job_cpu_busy_cores{id=\"" + ToString(array->id) + "_0\",node=\"n1\",user=\"ada\""),
            std::string::npos)
      << Page();
}

TEST_F(DcgmNames, ARunThatEndsBeforeItsReportedStartIsCounted) {
  Counters counters;
  const JobId job = world_.Submit("blink");
  world_.Settle();
  const Time begun = world_.clock_.Now();
  world_.controller_.OnStarted(job, 1, begun);
  world_.controller_.OnExited(job, 1, {}, begun, begun);
  ASSERT_EQ(world_.controller_.Find(job), nullptr);
  counters.OnChanges(world_.controller_, {{job, JobState::kStarting}, {job, JobState::kRunning}}, begun);
  counters.OnChanges(world_.controller_, {{job, JobState::kSucceeded}}, begun);
  EXPECT_NE(Page(&counters).find("divvy_job_run_seconds_count 1\n"), std::string::npos);
}

}  // namespace metrics_page_test
}  // namespace divvy
