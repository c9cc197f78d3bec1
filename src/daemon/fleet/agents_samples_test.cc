// Samples of an agent's node on their way to the controller.
#include "daemon/agent/agent_samples.h"

#include <algorithm>

#include "daemon/fleet/agents_test_pair.h"
#include "samples/block.h"

namespace divvy {
namespace agents_samples_test {

using samples::Metric;
using samples::Of;

class SamplesFromAgents : public AgentsWorld {
 protected:
  SamplesFromAgents() {
    StartAgent();
    Settle();
  }
  /// Lets a second pass in which the node has used something.
  void PassSecond() {
    Pass(1s);
    samples::Snapshot snapshot;
    snapshot.at = static_cast<samples::Second>(ToSeconds(agent_->session->Now()));
    snapshot.samples.push_back({{Of::kGpu, "whoever", 0, -1, 0}, {{Metric::kGpuUtilization, 0.5, ""}}});
    for (const int job : {5, 6})
      snapshot.samples.push_back(
          {{Of::kJob, "whoever", -1, -1, static_cast<std::uint64_t>(job)}, {{Metric::kCpuCores, 1, ""}}});
    snapshot.samples.push_back({{Of::kCluster, "", -1, -1, 0}, {{Metric::kGpusTotal, 1000, ""}}});
    snapshot.samples.push_back({{Of::kTeam, "vision", -1, -1, 0}, {{Metric::kTeamShare, 1000, ""}}});
    sent_.Add(std::move(snapshot), agent_->session->is_watched());
    Settle();
  }
  AgentSamples sent_{[this](const std::string& bytes) { return agent_->session->SendSamples(bytes); }};
};

TEST_F(SamplesFromAgents, ArriveInBatchesOfTenSeconds) {
  for (int i = 0; i < 9; ++i) PassSecond();
  EXPECT_TRUE(samples_.empty());
  PassSecond();
  EXPECT_EQ(samples_.size(), 10U);
  EXPECT_EQ(sent_.kept(), 0U);
}

TEST_F(SamplesFromAgents, ArriveEachSecondWhileAClientWatches) {
  agents_->SetWatched(true);
  Settle();
  PassSecond();
  PassSecond();
  EXPECT_EQ(samples_.size(), 2U);
  agents_->SetWatched(false);
  Settle();
  PassSecond();
  EXPECT_EQ(samples_.size(), 2U);
}

TEST_F(SamplesFromAgents, AreThoseOfTheNodeAndItsOwnJobs) {
  Launch(5);
  Settle();
  for (int i = 0; i < 10; ++i) PassSecond();
  ASSERT_EQ(samples_.size(), 10U);
  const auto& last = samples_.back().samples;
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0].subject, (samples::Subject{Of::kGpu, "n1", 0, -1, 0}));
  EXPECT_EQ(last[1].subject, (samples::Subject{Of::kJob, "n1", -1, -1, 5}));
}

// Batches arrive every ten seconds, and a run may be shorter than that.
TEST_F(SamplesFromAgents, SamplesThatArriveAfterTheEndBelongToTheirRun) {
  Launch(5);
  Settle();
  for (int i = 0; i < 4; ++i) PassSecond();
  fleet_.ports["n1"]->Execute(ForgetCommand{JobId(5), 1, "n1"}, nullptr);
  for (int i = 0; i < 6; ++i) PassSecond();
  ASSERT_EQ(samples_.size(), 10U);
  const auto is_of_job = [](const samples::Snapshot& seen) {
    return std::ranges::any_of(seen.samples, [](const auto& one) { return one.subject.of == Of::kJob; });
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(is_of_job(samples_[static_cast<std::size_t>(i)])) << i;
  EXPECT_FALSE(is_of_job(samples_.back())) << "it was over by then";
}

TEST_F(SamplesFromAgents, SamplesOfADisconnectArriveAfterTheReconnect) {
  is_partitioned_ = true;
  wire_.CutAll();
  for (int i = 0; i < 25; ++i) PassSecond();
  EXPECT_TRUE(samples_.empty());
  EXPECT_EQ(sent_.kept(), 25U);
  is_partitioned_ = false;
  for (int i = 0; i < 60 && sent_.kept() > 10; ++i) PassSecond();
  ASSERT_GT(samples_.size(), 25U);
  for (std::size_t i = 1; i < samples_.size(); ++i) EXPECT_EQ(samples_[i].at, samples_[i - 1].at + 1);
}

TEST_F(SamplesFromAgents, ALongDisconnectKeepsALimitedNumberOfSamples) {
  is_partitioned_ = true;
  wire_.CutAll();
  for (int i = 0; i < 700; ++i) {
    samples::Snapshot snapshot;
    snapshot.at = 1000 + i;
    sent_.Add(snapshot, false);
  }
  EXPECT_EQ(sent_.kept(), AgentSamples::kMostKept);
}

class SamplesFromAgentsWithClockSkew : public AgentsWorld {};

TEST_F(SamplesFromAgentsWithClockSkew, TimestampsAreConvertedToTheControllersClock) {
  skew_ = 3600s;
  StartAgent();
  Settle();
  samples::Snapshot snapshot;
  snapshot.at = static_cast<samples::Second>(ToSeconds(agent_->session->Now()));
  snapshot.samples.push_back({{Of::kNode, "n1", -1, -1, 0}, {{Metric::kCpuCores, 1, ""}}});
  ASSERT_TRUE(agent_->session->SendSamples(samples::EncodeSnapshots({snapshot})));
  Settle();
  ASSERT_EQ(samples_.size(), 1U);
  EXPECT_NEAR(static_cast<double>(samples_[0].at), static_cast<double>(snapshot.at - 3600), 2);
}

TEST_F(SamplesFromAgentsWithClockSkew, InvalidBytesEndTheConnection) {
  StartAgent();
  Settle();
  ASSERT_TRUE(agents_->Of("n1").is_connected());
  ASSERT_TRUE(agent_->session->SendSamples("\xff\xff\xff"));
  wire_.Carry();
  EXPECT_FALSE(agents_->Of("n1").is_connected());
}

}  // namespace agents_samples_test
}  // namespace divvy
