// Starting or signalling a job's step from outside: permissions, and the protocol of the connection afterwards.
#include <gtest/gtest.h>

#include <unistd.h>

#include <vector>

#include "daemon/api/routes_test_world.h"
#include "daemon/fleet/step_callers.h"

namespace divvy {
namespace routes_steps_test {

using namespace std::chrono_literals;

JobId SubmitAs(World& world, std::int64_t uid) {
  JobSpec spec;
  spec.command = {"true"};
  const auto result =
      world.controller_.Submit(std::move(spec), 0, Caller{{uid, uid, "user" + std::to_string(uid)}, false},
                               world.clock_.Now(), world.driver_->Outcomes());
  world.driver_->Touch();
  world.Settle();
  return result->id;
}

bool Answers(World& world, const std::string& id, const std::string& headers, const std::string& text,
             const std::string& query = "") {
  Client client(world.directory_ + "/socket");
  client.Say("POST /v1/jobs/" + id + "/steps" + query + " HTTP/1.1\r\nHost: d\r\nContent-Length: 0\r\n" + headers +
             "\r\n");
  return world.AnswerHas(client, text);
}

const std::string kUpgrade = "Connection: Upgrade\r\nUpgrade: divvy-step/1\r\n";

TEST(StepRoute, IsForTheJobsOwnUser) {
  World world;
  const JobId others = SubmitAs(world, 4711);
  EXPECT_TRUE(Answers(world, ToString(others), kUpgrade, "user4711's, and only the owner may start steps in it"));
}

TEST(StepRoute, NamesTheReasonForARefusal) {
  World world;
  EXPECT_TRUE(Answers(world, "99", kUpgrade, "there is no job 99"));
  const JobId own = SubmitAs(world, ::geteuid());
  EXPECT_TRUE(Answers(world, ToString(own), "", "HTTP/1.1 400 "));
  world.Exit(own);
  world.Settle();
  EXPECT_TRUE(Answers(world, ToString(own), kUpgrade, "job " + ToString(own) + " has ended"));
}

// The jobs of this world have no supervisor. By then the connection uses step frames, so the error is sent in them.
TEST(StepRoute, ErrorsAfterTheUpgradeAreSentInFrames) {
  World world;
  const JobId own = SubmitAs(world, ::geteuid());
  EXPECT_TRUE(Answers(world, ToString(own), kUpgrade, "divvy: error: the run record of job " + ToString(own)));
  EXPECT_TRUE(Answers(world, ToString(own), kUpgrade, "HTTP/1.1 101 Switching Protocols", "?stop=1"));
}

TEST(StepCallers, OneUsersLimitDoesNotAffectOthers) {
  boost::asio::io_context loop;
  StepCallers callers(loop);
  std::vector<StepCallers::Admitted> held;
  for (std::size_t i = 0; i < StepCallers::kMostOfOne; ++i) {
    auto admitted = callers.Admit(7);
    ASSERT_TRUE(admitted);
    held.push_back(*std::move(admitted));
  }
  EXPECT_EQ(callers.Admit(7).error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(callers.Admit(8));
  held.pop_back();
  EXPECT_TRUE(callers.Admit(7));
}

}  // namespace routes_steps_test
}  // namespace divvy
