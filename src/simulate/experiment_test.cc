// Policies by name, modified clusters, parallel runs.
#include "simulate/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace divvy::simulate {
namespace experiment_test {

PolicyChoice Policy(std::string_view text) { return ParsePolicy(text, {}).value(); }

std::string Shown(const TraceCluster& cluster) {
  std::string text;
  for (const NodeGroup& group : cluster.groups) {
    text += (text.empty() ? "" : ",") + std::to_string(group.count) + "x" + std::to_string(group.gpus);
    if (!group.model.empty()) text += ":" + group.model;
  }
  return text;
}

std::string Changed(std::string_view cluster, std::string_view change) {
  const auto changed = WhatIf(ParseCluster(cluster).value(), change);
  return changed ? Shown(*changed) : changed.error().message;
}

TEST(Experiment, DivvysPoliciesUseTheEngineAndReferencesAreNamed) {
  EXPECT_FALSE(Policy("fifo").reference);
  EXPECT_EQ(Policy("shortest").engine.rules.order, QueuePolicy::kShortest);
  EXPECT_EQ(Policy("shortest:true").engine.predicting, Predicting::kTrue);
  EXPECT_EQ(Policy("shortest:true").label, "shortest:true");
  ASSERT_TRUE(Policy("sjf-strict").reference);
  EXPECT_EQ(Policy("sjf-strict").reference->order, BaselineOrder::kShortest);
  EXPECT_FALSE(Policy("sjf-strict").reference->skips);
  EXPECT_TRUE(Policy("gtf-skip").reference->skips);
}

TEST(Experiment, AnUnknownPolicyIsRefusedWithTheNearestName) {
  const std::string message = ParsePolicy("shortst", {}).error().message;
  EXPECT_NE(message.find("did you mean shortest?"), std::string::npos) << message;
  EXPECT_NE(message.find("small-first, fifo, fair, shortest, time-sharing, fifo-strict"), std::string::npos) << message;
  EXPECT_NE(ParsePolicy("fifo:never", {}).error().message.find("history, true or none"), std::string::npos);
  EXPECT_NE(ParsePolicy("sjf-skip:true", {}).error().message.find("knows the true run times"), std::string::npos);
  EXPECT_FALSE(ParsePolicy("fifo-skip-strict", {}));
}

TEST(Experiment, TimeSharingHasAContract) {
  ASSERT_TRUE(Policy("time-sharing").time_sharing);
  EXPECT_EQ(Policy("time-sharing").time_sharing->options.at_most, 0.2);
  EXPECT_EQ(Policy("time-sharing:5%").time_sharing->options.at_most, 0.05);
  EXPECT_FALSE(Policy("time-sharing:none").time_sharing->options.at_most);
  EXPECT_FALSE(Policy("fifo").time_sharing);
  for (const char* wrong :
       {"time-sharing:5", "time-sharing:-1%", "time-sharing:nan%", "time-sharing:", "time-sharing:2000%"})
    EXPECT_NE(ParsePolicy(wrong, {}).error().message.find("expected 0% to 1000%, or none"), std::string::npos) << wrong;
}

TEST(Experiment, GpusAreAddedInNodesOfTheClustersSize) {
  EXPECT_EQ(Changed("2x8:H100", "+8 H100"), "2x8:H100,1x8:H100");
  EXPECT_EQ(Changed("2x8:H100", "+20"), "2x8:H100,2x8:H100,1x4:H100");
  EXPECT_EQ(Changed("2x8:H100", "+2x4:B200"), "2x8:H100,2x4:B200");
  EXPECT_EQ(Changed("1x8", "+4 L40S"), "1x8,1x4:L40S");
  EXPECT_EQ(Changed("1x8:H100-80GB", "+8 h100"), "1x8:H100-80GB,1x8:H100-80GB") << "one model has one name";
}

TEST(Experiment, GpusAreRemovedFromTheEnd) {
  EXPECT_EQ(Changed("4x8", "-8"), "3x8");
  EXPECT_EQ(Changed("4x8", "-10"), "2x8,1x6");
  EXPECT_EQ(Changed("1x8:a,1x4:b", "-4 b"), "1x8:a");
  EXPECT_EQ(Changed("1x8:a,1x4:b", "-6 a"), "1x2:a,1x4:b");
  EXPECT_EQ(Changed("2x8:H100-80GB", "-8 h100"), "1x8:H100-80GB");
  EXPECT_NE(Changed("1x8", "-8").find("has fewer GPUs"), std::string::npos);
  EXPECT_NE(Changed("1x8:a", "-4 b").find("of model b"), std::string::npos);
  EXPECT_NE(Changed("1x8", "8").find("is not a change of the cluster"), std::string::npos);
  EXPECT_NE(Changed("1x8", "+x").find("is not a change of the cluster"), std::string::npos);
}

TEST(Experiment, AShiftedTraceHasTheSameJobsAtOtherTimes) {
  Workload workload;
  for (int i = 0; i < 50; ++i) {
    TraceJob job;
    job.id = std::to_string(i);
    job.submit = TimeFromSeconds(10'000 + 100 * i);
    workload.jobs.push_back(job);
  }
  const Workload shaken = Shaken(workload, 7);
  EXPECT_EQ(shaken.jobs, Shaken(workload, 7).jobs);
  EXPECT_NE(shaken.jobs, Shaken(workload, 8).jobs);
  ASSERT_EQ(shaken.jobs.size(), workload.jobs.size());
  for (const TraceJob& job : shaken.jobs) {
    const Time before = TimeFromSeconds(10'000 + 100 * std::stod(job.id));
    EXPECT_LE(job.submit - before, std::chrono::minutes(30));
    EXPECT_GE(job.submit - before, -std::chrono::minutes(30));
  }
  EXPECT_TRUE(std::ranges::is_sorted(shaken.jobs, {}, &TraceJob::submit));
}

TEST(Experiment, RunsKeepThePlansOrderWhateverTheThreadCount) {
  Workload workload;
  for (int i = 0; i < 40; ++i) {
    TraceJob job;
    job.id = std::to_string(i);
    job.gpus = 1 + i % 8;
    job.submit = TimeFromSeconds(i);
    job.runtime = TimeFromSeconds(100 + i * 13 % 50).time_since_epoch();
    workload.jobs.push_back(job);
  }
  std::vector<PlannedRun> plan;
  for (const char* name : {"small-first", "fifo-strict", "shortest:true"})
    plan.push_back({name, Policy(name), ParseCluster("1x8").value(), &workload});
  double last = 0;
  const auto one = RunAll(plan, 1, [&](double share) { last = share; }).value();
  EXPECT_EQ(last, 1);
  const auto two = RunAll(plan, 2).value();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(one[i].policy, plan[i].label);
    EXPECT_EQ(one[i].replayed.outcomes, two[i].replayed.outcomes);
    EXPECT_EQ(one[i].metrics.all.jobs, 40);
  }
  plan[1].cluster = ParseCluster("1x8,1x4").value();
  const auto failed = RunAll(plan, 2);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message.substr(0, 13), "fifo-strict: ");
}

}  // namespace experiment_test
}  // namespace divvy::simulate
