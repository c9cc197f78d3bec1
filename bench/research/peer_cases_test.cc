#include "research/peer_cases.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "simulate/traces/test_files.h"

namespace divvy::research {
namespace peer_cases_test {

// One node with two GPUs, and one team with a quota of both.
constexpr std::string_view kFrame = R"("Nodes": {"n": {"GPUs": 2}}, "Queues": [{"Name": "q", "DeservedGPUs": 2}])";

std::string Running(const std::string& name, const std::string& more) {
  return R"({"Name": ")" + name + R"(", "QueueName": "q", "Priority": "$constants.PriorityTrainNumber", )" + more +
         R"(, "Tasks": [{"State": "$pod_status.Running", "NodeName": "n"}]})";
}

std::string Waiting(const std::string& name, const std::string& priority, const std::string& more) {
  return R"({"Name": ")" + name + R"(", "QueueName": "q", "Priority": "$constants.)" + priority + R"(", )" + more +
         R"(, "Tasks": [{"State": "$pod_status.Pending"}]})";
}

class PeerCases : public simulate::TestFiles {
 protected:
  PeerReport Run(const std::string& source, const std::string& jobs, const std::string& expected,
                 const std::string& frame = std::string(kFrame)) const {
    const std::string path =
        File("cases.json", R"([{"id": "one", "source": ")" + source + R"(", )" + frame + R"(, "Jobs": [)" + jobs +
                               R"(], "JobExpectedResults": {)" + expected + "}}]");
    auto report = RunPeerFiles({path});
    EXPECT_TRUE(report) << report.error().message;
    return *report;
  }
};

std::string Expect(const std::string& job, const std::string& state) {
  return "\"" + job + R"(": {"Status": "$pod_status.)" + state + "\"}";
}

TEST_F(PeerCases, ARunOfAllActionsEndsAsExpected) {
  const PeerReport report = Run("integration_tests/x",
                                Running("a", R"("RequiredGPUsPerTask": 2)") + "," +
                                    Waiting("b", "PriorityBuildNumber", R"("RequiredGPUsPerTask": 1)"),
                                Expect("a", "Pending") + "," + Expect("b", "Running"));
  EXPECT_EQ(report.passed, 1) << PeerReportText(report);
}

TEST_F(PeerCases, OneActionShowsTheVictimsAndTheJobThatWaitsForThem) {
  const std::string jobs = Running("a", R"("RequiredGPUsPerTask": 2)") + "," +
                           Waiting("b", "PriorityBuildNumber", R"("RequiredGPUsPerTask": 1)");
  const std::string expected = Expect("a", "Releasing") + "," + Expect("b", "Pipelined");
  EXPECT_EQ(Run("preempt/x", jobs, expected).passed, 1);
  // The same outcome must fail in a case about consolidation, because consolidation moves jobs but ends none.
  const PeerReport other = Run("consolidation/x", jobs, expected);
  EXPECT_EQ(other.passed, 0);
  ASSERT_EQ(other.failed.size(), 1u);
  EXPECT_NE(other.failed.front().difference.find("expected that a task leaves"), std::string::npos);
}

TEST_F(PeerCases, FailsIfNoKnownReasonExplainsADifference) {
  const PeerReport report = Run("integration_tests/x",
                                Running("a", R"("RequiredGPUsPerTask": 2)") + "," +
                                    Waiting("b", "PriorityTrainNumber", R"("RequiredGPUsPerTask": 1)"),
                                Expect("a", "Pending") + "," + Expect("b", "Running"));
  EXPECT_EQ(report.passed, 0);
  EXPECT_EQ(report.failed.size(), 1u);
  EXPECT_NE(PeerReportJson(report).find(R"("failed": [{"id": "one")"), std::string::npos);
}

TEST_F(PeerCases, AcceptsADifferentResultThatServesTheSameJobsAtLowerCost) {
  const PeerReport report =
      Run("preempt/x",
          Running("a", R"("RequiredGPUsPerTask": 0.5)") + "," + Running("b", R"("RequiredGPUsPerTask": 1)") + "," +
              Waiting("c", "PriorityBuildNumber", R"("RequiredGPUsPerTask": 0.6)"),
          Expect("a", "Running") + "," + Expect("b", "Releasing") + "," + Expect("c", "Pipelined"));
  ASSERT_EQ(report.deviations.size(), 1u) << PeerReportText(report);
  EXPECT_TRUE(report.deviations.front().deviation.starts_with("superseded: the same jobs are served at less cost"));
}

TEST_F(PeerCases, NamesAMissingFeatureOnlyIfItExplainsTheDifference) {
  const std::string frame =
      R"("Nodes": {"n": {"GPUs": 2}}, "Queues": [{"Name": "q", "DeservedGPUs": 2, "MaxAllowedCPUs": 1}])";
  const std::string job = Waiting("b", "PriorityTrainNumber", R"("RequiredGPUsPerTask": 1, "RequiredCPUsPerTask": 2)");
  EXPECT_EQ(Run("allocate/x", job, Expect("b", "Binding"), frame).passed, 1);
  const PeerReport report = Run("allocate/x", job, Expect("b", "Pending"), frame);
  ASSERT_EQ(report.deviations.size(), 1u);
  EXPECT_EQ(report.deviations.front().deviation, "not modelled: teams with quotas or limits of CPUs and memory");
}

TEST_F(PeerCases, FractionsByMemoryAndMigInstancesCountAsQuantities) {
  EXPECT_EQ(Run("allocate/x",
                Waiting("a", "PriorityTrainNumber", R"("RequiredGpuMemory": 60)") + "," +
                    Waiting("b", "PriorityTrainNumber", R"("RequiredGpuMemory": 60)") + "," +
                    Waiting("c", "PriorityTrainNumber", R"("RequiredGpuMemory": 40)") + "," +
                    Waiting("d", "PriorityTrainNumber", R"("RequiredGpuMemory": 60)"),
                Expect("a", "Binding") + "," + Expect("b", "Binding") + "," + Expect("c", "Binding") + "," +
                    Expect("d", "Pending"))
                .passed,
            1);
  const std::string frame =
      R"("Nodes": {"n": {"MigStrategy": "mixed", "MigInstances": {"mig-1g.10gb": 1}}}, "Queues": [{"Name": "q", "DeservedGPUs": 2}])";
  const auto task = [](const std::string& name, const std::string& profile) {
    return R"({"Name": ")" + name + R"(", "QueueName": "q", "Priority": 50, "Tasks": [{"State": "Pending", )" +
           R"("RequiredMigInstances": {")" + profile + R"(": 1}}]})";
  };
  EXPECT_EQ(Run("allocate/x", task("a", "mig-1g.10gb") + "," + task("b", "mig-1g.10gb") + "," + task("c", "mig-1g.5gb"),
                Expect("a", "Binding") + "," + Expect("b", "Pending") + "," + Expect("c", "Pending"), frame)
                .passed,
            1);
}

TEST_F(PeerCases, ABrokenGangIsQueuedAgainAsAWhole) {
  const std::string gang = R"({"Name": "g", "QueueName": "q", "Priority": 50, "RequiredGPUsPerTask": 1, "Tasks": [)"
                           R"({"State": "Running", "NodeName": "n"}, {"State": "Pending"}]})";
  EXPECT_EQ(Run("integration_tests/x", gang + "," + Running("a", R"("RequiredGPUsPerTask": 1)"),
                Expect("g", "Pending") + "," + Expect("a", "Running"))
                .passed,
            1);
  EXPECT_EQ(Run("integration_tests/x", gang, Expect("g", "Running")).passed, 1);
}

TEST_F(PeerCases, NamesFilesThatAreNotPeerCases) {
  const std::string path = File("cases.json", "{]");
  const auto broken = RunPeerFiles({path});
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find(path), std::string::npos);
  EXPECT_FALSE(RunPeerFiles({path + ".none"}));
}

TEST_F(PeerCases, AllAvailableCasesPassOrDeviateForAKnownReason) {
  const std::filesystem::path folder = std::filesystem::path(DIVVY_SOURCE_DIR) / ".." / "shared" / "peer-cases";
  std::vector<std::string> files;
  for (const char* name : {"kai_integration.json", "kai_single_action.json"}) {
    if (std::filesystem::exists(folder / name)) files.push_back((folder / name).string());
  }
  if (files.empty()) GTEST_SKIP() << "no peer cases in " << folder.lexically_normal() << " (docs/peer-cases.md)";
  const auto report = RunPeerFiles(files);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->failed.empty()) << PeerReportText(*report);
  EXPECT_GE(report->passed, 230);
}

}  // namespace peer_cases_test
}  // namespace divvy::research
