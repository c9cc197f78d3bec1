#include "cli/client/process_text.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace process_text_test {

constexpr double kGiB = 1024.0 * 1024 * 1024;

wire::LatestAnswer Seen() {
  wire::LatestAnswer latest;
  wire::LatestGpu second{"n1", 1, 0, {{"gpu_utilization", 1}}, {}};
  second.processes = {{4712, JobId(17), 8 * kGiB, std::nullopt}, {99, std::nullopt, kGiB, 0.1}};
  wire::LatestGpu first{"n1", 0, 0, {{"gpu_utilization", 1}}, {}};
  first.processes = {{4711, JobId(17), 4 * kGiB, 0.714, 1.504, 2 * kGiB, 0, 3145728.4}, {4713, JobId(18), kGiB, 0.1}};
  latest.gpus = {second, first, {"n1", 2, 0, {}, {}}};
  latest.cluster["gpus_total"] = 3;
  return latest;
}

std::vector<wire::GpuView> Gpus() {
  wire::GpuView gpu;
  gpu.node = "n1";
  gpu.index = 0;
  gpu.processes = {{4711, "ada", "python3", 0, 60, false, JobId(17), false}};
  return {gpu};
}

TEST(Processes, AreListedForAJobByGpu) {
  const auto processes = ProcessesOf(JobId(17), Seen(), Gpus());
  const std::vector<std::string> lines = ProcessLines(processes, 4);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "pid 4711 python3 on GPU n1:0: 71%, 4 GiB");
  EXPECT_EQ(lines[1], "pid 4712 on GPU n1:1: 8 GiB");
  EXPECT_EQ(ProcessLines(processes, 1).back(), "and 1 more (divvy metrics --processes)");
}

TEST(Processes, AreShownAsATable) {
  const auto processes = ProcessesOf(JobId(17), Seen(), Gpus());
  ListingOptions options;
  options.csv = true;
  EXPECT_EQ(*ProcessTable(processes, "n1", options),
            "node,gpu,pid,user,use_percent,memory_bytes,cpu_cores,host_memory_bytes,read_bytes_per_second,"
            "written_bytes_per_second,command\n"
            "n1,0,4711,ada,71,4294967296,1.504,2147483648,0,3145728,python3\n"
            "n1,1,4712,,,8589934592,,,,,\n");
  options.csv = false;
  const std::string table = *ProcessTable(processes, "", options);
  EXPECT_EQ(table.substr(0, table.find('\n')), "GPU   PID  USER  USE  MEMORY   CPU  RESIDENT   READ  WRITTEN  COMMAND");
  EXPECT_NE(table.find("4711  ada   71%   4 GiB  1.50     2 GiB"), std::string::npos) << table;
}

TEST(Processes, AreNarrowedToTheGpusOfOneJob) {
  const wire::LatestAnswer answer = OnlyProcessesOf(JobId(17), Seen());
  ASSERT_EQ(answer.gpus.size(), 2U);
  EXPECT_EQ(answer.gpus[0].processes.size(), 1U);
  EXPECT_TRUE(answer.cluster.empty());
}

}  // namespace process_text_test
}  // namespace divvy::cli
