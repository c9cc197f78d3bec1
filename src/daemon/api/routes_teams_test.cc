// The routes of teams, reservations and reports, over the socket.
#include "daemon/api/routes_test_world.h"

namespace divvy {
namespace routes_teams_test {

class RoutesTeams : public ::testing::Test {
 protected:
  /// Returns true if the answer to this request contains `text`.
  bool Posts(const std::string& path, const std::string& body, const std::string& text) {
    Client client(world_.directory_ + "/socket");
    client.Post(path, body);
    return Has(client, text);
  }
  bool Gets(const std::string& path, const std::string& text) {
    Client client(world_.directory_ + "/socket");
    client.Get(path);
    return Has(client, text);
  }
  bool Has(Client& client, const std::string& text) {
    return world_.TurnUntil([&] {
      world_.Settle();
      world_.Read();
      return client.Received().find("\r\n\r\n") != std::string::npos;
    }) && (client.Received().find(text) != std::string::npos || (ADD_FAILURE() << client.Received(), false));
  }

  World world_;
};

// The caller of these tests is an administrator only if they run as root. The controller's tests cover everything else.
TEST_F(RoutesTeams, ATeamIsCreatedChangedShownAndRemoved) {
  if (::getuid() != 0) GTEST_SKIP() << "it takes an administrator";
  EXPECT_TRUE(Posts("/v1/teams", R"({"name":"vision","is_new":true,"quota":2.5,"add_users":["ada"]})",
                    R"({"message":"team vision added)"));
  EXPECT_TRUE(
      Posts("/v1/teams", R"({"name":"vision","limit":2})", "its limit of 2 GPUs is below its quota of 2.5 GPUs"));
  EXPECT_TRUE(Gets("/v1/teams", R"("name":"vision","parent":"","depth":0,"quota":2.5,"limit":null)"));
  EXPECT_TRUE(Posts("/v1/teams", R"({"name":"vision","clear":["quota"]})", "team vision changed"));
  EXPECT_TRUE(Gets("/v1/teams", R"("quota":null)"));
  EXPECT_TRUE(Posts("/v1/teams/users", R"({"user":"ada","limits":{"running":3}})", "user ada is changed"));
  EXPECT_TRUE(Gets("/v1/teams", R"("running_limit":3,"most_running":3,)"));
  EXPECT_TRUE(Posts("/v1/teams/users", R"({"user":"ada","caps":{"running":4}})", "user ada is changed"));
  EXPECT_TRUE(Gets("/v1/teams", R"("running_limit":4,"most_running":4,)"));
  EXPECT_TRUE(Posts("/v1/teams/users", R"({"user":"*","gpus":2})", "user * is changed"));
  EXPECT_TRUE(Gets("/v1/teams", R"("gpu_limit":2)"));
  EXPECT_TRUE(Posts("/v1/teams/users", R"({"user":"*","gpus":-2})", "is a whole number from 0 to 1000000"));
  EXPECT_TRUE(Posts("/v1/teams/users", R"({"user":"*","gpus":1.5})", "gpus"));
  EXPECT_TRUE(Posts("/v1/teams/quotas", R"({"are_on":true})", "quotas are on"));
  EXPECT_TRUE(Gets("/v1/teams", R"("blocker":"team vision has no quota)"));
  EXPECT_TRUE(Posts("/v1/teams/remove", R"({"name":"vision"})", "team vision is gone"));
  EXPECT_TRUE(Posts("/v1/teams/remove", R"({"name":"vision"})", "there is no team vision"));
}

TEST_F(RoutesTeams, AReservationWithoutRoomIsRefusedWithTheReason) {
  if (::getuid() != 0) GTEST_SKIP() << "it takes an administrator";
  EXPECT_TRUE(
      Posts("/v1/reservations", R"({"gpus":1,"user":"ada","duration_s":3600})", "no node that accepts work has a GPU"));
  EXPECT_TRUE(Posts("/v1/reservations", R"({"gpus":1,"user":"ada","duration_s":3600,"every":"year"})",
                    "'year' is not an interval: expected once, day, weekday or week"));
  EXPECT_TRUE(Posts("/v1/reservations/cancel", R"({"which":"7"})", "there is no reservation '7'"));
  EXPECT_TRUE(Gets("/v1/reservations", "[]"));
}

TEST_F(RoutesTeams, PredictionsAreReportedFromTheHistory) {
  for (int i = 0; i < 3; ++i) {
    const JobId job = world_.Submit("train");
    world_.Settle();
    world_.clock_.Advance(std::chrono::minutes(10));
    world_.Exit(job);
    world_.Settle();
  }
  EXPECT_TRUE(Gets("/v1/reports/predictions",
                   R"("rows":[{"group":"","user":"","is_all":true,"predicted":2,"unpredicted":1,"median_ratio":1)"));
}

TEST_F(RoutesTeams, IdRangesIncludeEndedJobs) {
  for (int i = 0; i < 3; ++i) {
    const JobId job = world_.Submit("train" + std::to_string(i));
    world_.Settle();
    if (i < 2) world_.Exit(job);
    world_.Settle();
  }
  EXPECT_TRUE(Gets("/v1/jobs?ids=2-9&all=1", R"([{"id":2,"display_id":"2","name":"train1")"));
  EXPECT_TRUE(Gets("/v1/jobs?ids=2-9&all=1", R"({"id":3,"display_id":"3","name":"train2")"));
  EXPECT_TRUE(Gets("/v1/jobs?ids=1-9", R"([{"id":3,)"));
}

TEST_F(RoutesTeams, UsageIncludesRunningAndEndedJobs) {
  const JobId job = world_.Submit("train");
  world_.Settle();
  world_.clock_.Advance(std::chrono::minutes(30));
  EXPECT_TRUE(Gets("/v1/reports/usage?by=name", R"("rows":[{"group":"train","jobs":1,"running":1,"failed":0,)"));
  world_.Exit(job);
  world_.Settle();
  EXPECT_TRUE(Gets("/v1/reports/usage?by=name", R"("rows":[{"group":"train","jobs":1,"running":0,"failed":0,)"));
  EXPECT_TRUE(Gets("/v1/reports/fairness", R"("slowdown_median":1)"));
  EXPECT_TRUE(Gets("/v1/reports/usage?by=colour",
                   "'by' is user, team, name, model, pool, node, hour or job in this report, not 'colour'"));
  EXPECT_TRUE(Gets("/v1/reports/fairness?by=hour", R"("by":"hour")"));
  EXPECT_TRUE(
      Gets("/v1/reports/fairness?by=node", "'by' is user, team, name, model, pool or hour in this report, not 'node'"));
  EXPECT_TRUE(Gets("/v1/reports/usage?since=yesterday", "'since' is seconds since 1970, not 'yesterday'"));
  EXPECT_TRUE(Gets("/v1/reports/usage?since=9e9", "'since' is in the future"));
  EXPECT_TRUE(Gets("/v1/reports/usage?since=9e8&until=8e8", "'since' must be before 'until'"));
}

}  // namespace routes_teams_test
}  // namespace divvy
