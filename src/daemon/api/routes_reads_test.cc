#include "daemon/api/routes_test_world.h"

namespace divvy {
namespace routes_reads_test {

TEST(RoutesReads, AListingOfAllJobsIsReadOutsideTheEventLoop) {
  World world;
  const JobId old = world.Submit("old");
  world.Settle();
  world.Exit(old);
  world.Submit("new");
  world.Settle();
  Client lists(world.directory_ + "/socket"), asks(world.directory_ + "/socket");
  lists.Get("/v1/jobs?all=1");
  ASSERT_TRUE(world.WaitsForTheReader());
  EXPECT_EQ(world.store_.histories, 0);
  // Other requests are answered meanwhile.
  asks.Get("/v1/status");
  EXPECT_TRUE(world.AnswerHas(asks, "\"jobs_total\":2"));
  EXPECT_EQ(lists.Received(), "");
  world.Read();
  EXPECT_TRUE(world.AnswerHas(lists, "\"name\":\"old\""));
  EXPECT_NE(lists.Received().find("\"name\":\"new\""), std::string::npos);
  EXPECT_EQ(world.store_.histories, 1);
}

TEST(RoutesReads, AListingOfActiveJobsNeedsNoReader) {
  World world;
  world.Submit("new");
  world.Settle();
  Client client(world.directory_ + "/socket");
  client.Get("/v1/jobs");
  EXPECT_TRUE(world.AnswerHas(client, "\"name\":\"new\""));
  EXPECT_TRUE(world.reads_.empty());
}

TEST(RoutesReads, AJobThatEndsDuringAListingIsInItOnce) {
  World world;
  const JobId job = world.Submit("ends");
  const JobId unstored = world.Submit("ended");
  world.Settle();
  world.Exit(unstored);  // Not yet durable when the listing is requested.
  Client client(world.directory_ + "/socket");
  client.Get("/v1/jobs?all=1");
  ASSERT_TRUE(world.WaitsForTheReader());
  world.Exit(job);
  world.Settle();
  world.Read();
  ASSERT_TRUE(world.AnswerHas(client, "\"name\":\"ended\""));
  const std::string text = client.Received();
  const auto at = text.find("\"name\":\"ends\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.find("\"name\":\"ends\"", at + 1), std::string::npos);
  EXPECT_EQ(text.find("\"name\":\"ended\""), text.rfind("\"name\":\"ended\""));
}

TEST(RoutesReads, AnOldJobIsReadOutsideTheEventLoopAndAnActiveOneAtOnce) {
  World world;
  const JobId old = world.Submit("old");
  world.Settle();
  world.Exit(old);
  world.Submit("new");
  world.Settle();
  Client client(world.directory_ + "/socket");
  client.Get("/v1/jobs/2");
  EXPECT_TRUE(world.AnswerHas(client, "\"name\":\"new\""));
  EXPECT_TRUE(world.reads_.empty());
  const int specs = world.store_.specs;
  client.Get("/v1/jobs/1");
  ASSERT_TRUE(world.WaitsForTheReader());
  EXPECT_EQ(world.store_.specs, specs);
  world.Read();
  EXPECT_TRUE(world.AnswerHas(client, "\"name\":\"old\""));
  client.Get("/v1/jobs/77");
  ASSERT_TRUE(world.WaitsForTheReader());
  world.Read();
  EXPECT_TRUE(world.AnswerHas(client, "there is no job 77"));
}

TEST(RoutesReads, AClientThatLeavesDuringAReadAffectsNoOther) {
  World world;
  const JobId old = world.Submit("old");
  world.Settle();
  world.Exit(old);
  world.Settle();
  {
    Client client(world.directory_ + "/socket");
    client.Get("/v1/jobs?all=1");
    ASSERT_TRUE(world.WaitsForTheReader());
  }
  ASSERT_TRUE(world.TurnUntil([&] { return world.server_->connections() == 0; }));
  world.Read();
  Client other(world.directory_ + "/socket");
  other.Get("/v1/status");
  EXPECT_TRUE(world.AnswerHas(other, "\"jobs_total\":1"));
}

}  // namespace routes_reads_test
}  // namespace divvy
