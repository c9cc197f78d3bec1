// Answers about samples, and to jobs that report their own metrics.
#include <gtest/gtest.h>

#include "daemon/api/routes_test_world.h"

namespace divvy {
namespace routes_samples_test {

using namespace std::chrono_literals;

bool Answers(World& world, const std::string& job, const std::string& body, const std::string& text) {
  Client client(world.directory_ + "/socket");
  client.Post("/v1/jobs/" + job + "/metrics", body);
  return world.AnswerHas(client, text);
}

TEST(OwnMetricsRoute, AcceptsMetricsOfTheCurrentRun) {
  World world;
  const JobId id = world.Submit("train");
  world.Settle();
  const std::string job = ToString(id);
  EXPECT_TRUE(Answers(world, job, R"({"values":{"loss":0.3,"step":10}})", "taken"));
  EXPECT_TRUE(Answers(world, job, R"({"values":{"loss":0.3},"attempt":1})", "taken"));
  EXPECT_TRUE(Answers(world, job, R"({"values":{"loss":0.3},"attempt":7})", "restarted since"));
  EXPECT_TRUE(Answers(world, job, R"({"values":{}})", "'values' has 1 to 64 numbers"));
  EXPECT_TRUE(Answers(world, job, R"({"values":{"a\nb":1}})", "not a valid metric name"));
  EXPECT_TRUE(Answers(world, "4711", R"({"values":{"loss":1}})", "not_found"));
  samples::Snapshot seen;
  seen.at = static_cast<samples::Second>(ToSeconds(world.clock_.Now()));
  seen.samples = {{{samples::Of::kNode, "n1", -1, -1, 0}, {}}, {{samples::Of::kJob, "n1", -1, -1, id.value()}, {}}};
  world.samples_->Add(seen, seen.at);
  Client client(world.directory_ + "/socket");
  client.Get("/v1/latest");
  EXPECT_TRUE(world.AnswerHas(client, R"("own":{"loss":0.3,"step":10})")) << client.Received();
}

TEST(SeriesRoute, PointsIsAWholeNumberWithinItsBounds) {
  World world;
  for (const char* points : {"0", "x", "2.5", "4001", "-1"}) {
    Client client(world.directory_ + "/socket");
    client.Get("/v1/series?of=cluster&points=" + std::string(points));
    EXPECT_TRUE(world.AnswerHas(client, "'points' goes from 1 to 4000, not '" + std::string(points) + "'")) << points;
  }
}

TEST(OwnMetricsRoute, AcceptsLastValuesShortlyAfterTheEnd) {
  World world;
  const JobId id = world.Submit("train");
  world.controller_.OnStarted(id, 1, world.clock_.Now());
  world.Settle();
  world.Exit(id);
  world.Settle();
  EXPECT_TRUE(Answers(world, ToString(id), R"({"values":{"loss":0.3}})", "taken"));
  world.clock_.Advance(1min);
  EXPECT_TRUE(Answers(world, ToString(id), R"({"values":{"loss":0.3}})", "does not run"));
}

}  // namespace routes_samples_test
}  // namespace divvy
