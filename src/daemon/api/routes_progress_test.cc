// Answers to jobs that report their progress.
#include <gtest/gtest.h>

#include "daemon/api/routes_test_world.h"

namespace divvy {
namespace routes_progress_test {

using namespace std::chrono_literals;

/// Sends one report on a new connection, and returns true if the answer has `text`.
bool Answers(World& world, JobId job, const std::string& body, const std::string& text) {
  Client client(world.directory_ + "/socket");
  client.Post("/v1/jobs/" + ToString(job) + "/progress", body);
  return world.AnswerHas(client, text);
}

TEST(ProgressRoute, AcceptsAFractionOrStepsAndReturnsTheExpectedEnd) {
  World world;
  const JobId job = world.Submit("train");
  world.Settle();
  EXPECT_TRUE(Answers(world, job, R"({"fraction":0.25})", R"("fraction":0.25,"expected_end":null)"));
  world.controller_.OnStarted(job, 1, world.clock_.Now());
  world.clock_.Advance(100s);
  EXPECT_TRUE(Answers(world, job, R"({"step":50,"steps":100,"attempt":1})", R"("fraction":0.5,"expected_end":)"));
  Client client(world.directory_ + "/socket");
  client.Get("/v1/jobs/" + ToString(job));
  EXPECT_TRUE(world.AnswerHas(client, R"("progress":{"fraction":0.5,"step":50,"steps":100,)"));
}

TEST(ProgressRoute, RefusesInvalidProgressWithOneLine) {
  World world;
  const JobId job = world.Submit("train");
  world.Settle();
  EXPECT_TRUE(Answers(world, job, R"({"fraction":0.5})", "200 OK"));
  for (const std::string body :
       {R"({"fraction":1.5})", R"({"fraction":-1})", R"({"fraction":1e999})", R"({"fraction":NaN})",
        R"({"fraction":"much"})", R"({"step":5,"steps":4})", R"({"step":5})", R"({})",
        R"({"fraction":0.6,"step":6,"steps":10})", R"({"fraction":0.6,"attempt":-1})"}) {
    EXPECT_TRUE(Answers(world, job, body, "400 ")) << body;
  }
  EXPECT_TRUE(Answers(world, job, R"({"fraction":0.4})", "409 ")) << "back";
  EXPECT_TRUE(Answers(world, job, R"({"fraction":0.6,"attempt":9})", "409 ")) << "another run";
  EXPECT_TRUE(Answers(world, JobId(99), R"({"fraction":0.6})", "404 "));
  EXPECT_EQ(world.controller_.Find(job)->progress.done, 500'000'000);
}

}  // namespace routes_progress_test
}  // namespace divvy
