#include "daemon/views/cluster_sample.h"

#include <gtest/gtest.h>

#include "daemon/telemetry/samples_test_world.h"

namespace divvy {
namespace cluster_sample_test {

constexpr samples::Second kNow = 1'790'000'100;

class ClusterSamplerTest : public testing::Test {
 protected:
  ClusterSamplerTest() : controller_(Policy(), Limits(), 1), store_({}, {}) {
    controller_.SetCapacity(MachineOfH100s(4));
  }
  void Make(TeamChange change) {
    change.is_new = true;
    ASSERT_TRUE(controller_.SetTeam(change, root_, TimeFromSeconds(kNow)));
  }
  void Submit(const std::string& team, int gpus) {
    JobSpec spec;
    spec.command = {"true"};
    spec.team = team;
    spec.request.gpus = gpus;
    spec.preemptible = Preemptible::kRequeue;  // Only such jobs may exceed their team's quota, on borrowed GPUs.
    spec.is_preemptible_set = true;
    const auto nothing = [](JobId) -> std::optional<JobRecord> { return std::nullopt; };
    ASSERT_TRUE(controller_.Submit(std::move(spec), 0, root_, TimeFromSeconds(kNow), nothing));
  }
  /// The present sample of a team; empty if there is none.
  std::vector<samples::Reading> Of(const std::string& team) {
    for (const samples::Sample& sample : sampler_.Look(controller_, store_, kNow).samples) {
      if (sample.subject.of == samples::Of::kTeam && sample.subject.node == team) return sample.readings;
    }
    return {};
  }

  Caller root_{{0, 0, "root"}, true};
  Controller controller_;
  MetricStore store_;
  ClusterSampler sampler_;
};

TEST_F(ClusterSamplerTest, RecordsTheCurrentShareOfEachTeam) {
  using samples::Metric;
  TeamChange vision;
  vision.name = "vision";
  vision.quota = 2.5;
  vision.add_users = {"root"};
  Make(vision);
  TeamChange speech;
  speech.name = "speech";
  speech.limit = 3;
  speech.add_users = {"root"};
  Make(speech);
  Submit("vision", 4);
  EXPECT_EQ(Of("vision"), (std::vector<samples::Reading>{{Metric::kTeamShare, 4}, {Metric::kTeamQuota, 2.5}}));
  EXPECT_EQ(Of("speech"), (std::vector<samples::Reading>{{Metric::kTeamShare, 0}, {Metric::kTeamLimit, 3}}));
  Submit("speech", 2);
  ASSERT_EQ(Of("speech").size(), 2u);
  EXPECT_GT(Of("speech").front().value, 0) << "what it wants is its as far as it goes";
  EXPECT_LT(Of("vision").front().value, 4);
  EXPECT_TRUE(Of("nobody").empty());
}

}  // namespace cluster_sample_test
}  // namespace divvy
