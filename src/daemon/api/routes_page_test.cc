// Routes that only the page uses, over the socket.
#include "daemon/api/routes_test_world.h"
#include "dialect/options/job_options.h"

namespace divvy {
namespace routes_page_test {

class RoutesPage : public ::testing::Test {
 protected:
  std::string Answer(Client& client) {
    EXPECT_TRUE(world_.TurnUntil([&] {
      world_.Settle();
      world_.Read();
      return client.Received().find("\r\n\r\n") != std::string::npos;
    }));
    return client.Received();
  }
  std::string Get(const std::string& path) {
    Client client(world_.directory_ + "/socket");
    client.Get(path);
    return Answer(client);
  }
  std::string Post(const std::string& path, const std::string& body) {
    Client client(world_.directory_ + "/socket");
    client.Post(path, body);
    return Answer(client);
  }
  JobId SubmitWith(std::int64_t uid, std::vector<std::string> captured, std::vector<std::string> asked,
                   std::uint64_t elements = 0) {
    JobSpec spec;
    if (elements > 0) spec.array = ArraySpec{IndexRanges(0, static_cast<std::uint32_t>(elements - 1)), 0};
    spec.command = {"true"};
    spec.name = "x";
    spec.capture.environment = std::move(captured);
    spec.extra_environment = std::move(asked);
    const auto result = world_.controller_.Submit(std::move(spec), elements, Caller{{uid, uid, "ada"}, false},
                                                  world_.clock_.Now(), world_.driver_->Outcomes());
    world_.driver_->Touch();
    return result->id;
  }
  static bool Has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos || (ADD_FAILURE() << text, false);
  }

  World world_;
};

TEST_F(RoutesPage, TheEnvironmentListsRequestedVariablesBeforeCapturedOnes) {
  const auto id = SubmitWith(::getuid(), {"A=1", "PATH=/bin", "WITH=a=b"}, {"A=2", "EMPTY="});
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(id) + "/environment"),
                  R"({"variables":[{"name":"A","value":"2","is_asked":true},)"
                  R"({"name":"EMPTY","value":"","is_asked":true},)"
                  R"({"name":"PATH","value":"/bin","is_asked":false},)"
                  R"({"name":"WITH","value":"a=b","is_asked":false}]})"));
  EXPECT_TRUE(Has(Get("/v1/jobs/99/environment"), "there is no job 99"));
}

TEST_F(RoutesPage, NoJobIsCalledUnknownWhileTheDatabaseIsAway) {
  world_.store_.SetAway(true);
  for (const std::string path : {"", "/environment", "/elements", "/again", "/steps", "/why", "/log"})
    EXPECT_TRUE(Has(Get("/v1/jobs/99" + path), "the database is away")) << path;
  EXPECT_TRUE(Has(Post("/v1/jobs/cancel", R"({"select":{"ids":["99"]}})"), "the database is away"));
  world_.store_.SetAway(false);
  EXPECT_TRUE(Has(Get("/v1/jobs/99"), "there is no job 99"));
}

TEST_F(RoutesPage, ElementsOfASweepShowTheirParametersAndLastMetrics) {
  JobSpec spec;
  spec.command = {"true"};
  ASSERT_TRUE(dialect::ParseParameter("lr=0.1,0.2", spec));
  const auto sweep = world_.controller_.Submit(std::move(spec), 2, Caller{{::getuid(), ::getuid(), "ada"}, false},
                                               world_.clock_.Now(), world_.driver_->Outcomes());
  ASSERT_TRUE(sweep) << sweep.error().message;
  world_.driver_->Touch();
  world_.Settle();
  const JobId first = ElementId(sweep->id, 0), second = ElementId(sweep->id, 1);
  ASSERT_NE(world_.controller_.Find(first), nullptr);
  samples::Snapshot seen;
  seen.at = static_cast<samples::Second>(ToSeconds(world_.clock_.Now()));
  seen.samples = {{{samples::Of::kNode, "n1", -1, -1, 0}, {}},
                  {{samples::Of::kJob, "n1", -1, -1, first.value()},
                   {{samples::Metric::kCpuCores, 1, ""}, {samples::Metric::kCpuCores, 0.25, "loss"}}}};
  world_.samples_->Add(seen, seen.at);
  const std::string path = "/v1/jobs/" + ToString(sweep->id) + "/elements";
  EXPECT_TRUE(Has(Get(path), R"({"elements":[{"id":)" + ToString(first) +
                                 R"(,"parameters":{"lr":"0.1"},"metrics":{"loss":0.25}},{"id":)" + ToString(second) +
                                 R"(,"parameters":{"lr":"0.2"},"metrics":{}}],"is_cut":false})"));
  EXPECT_TRUE(Has(Get(path + "?limit=1"), R"("is_cut":true)"));
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(first) + "/elements"), "is not an array or a sweep"));
  EXPECT_TRUE(Has(Get("/v1/jobs/99/elements"), "there is no job 99"));
}

TEST_F(RoutesPage, ElementsOfAnotherUsersSweepAreHidden) {
  if (::getuid() == 0) GTEST_SKIP() << "root is an administrator";
  const auto id = SubmitWith(::getuid() + 1, {}, {}, 2);
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(id) + "/elements"), "are visible to its owner"));
}

TEST_F(RoutesPage, StartEstimatesOfAllWaitingJobsMatchWhy) {
  world_.Submit("runs");
  world_.Settle();
  const JobId held = world_.Submit("held");
  static_cast<void>(world_.controller_.Hold(held, Caller{{::getuid(), ::getuid(), "ada"}, true}, world_.clock_.Now()));
  world_.Settle();
  const std::string text = Get("/v1/starts");
  EXPECT_TRUE(Has(text, R"("is_complete":true,"starts":[)"));
  EXPECT_TRUE(Has(text, R"({"id":2,"start":null,"basis":"no estimate: it is held"})"));
  EXPECT_TRUE(Has(Get("/v1/starts?limit=0"), "'limit' goes from 1 to 100000"));
}

TEST_F(RoutesPage, AnUnknownJobIsNullWhereItIsOptional) {
  EXPECT_TRUE(Has(Get("/v1/jobs/99?optional=1"), "200 OK"));
  EXPECT_TRUE(Has(Get("/v1/jobs/99?optional=1"), "\r\n\r\nnull"));
  EXPECT_TRUE(Has(Get("/v1/jobs/nobodys?optional=1"), "\r\n\r\nnull"));
  EXPECT_TRUE(Has(Get("/v1/jobs/99"), "404 Not Found"));
}

TEST_F(RoutesPage, AnUnknownGpuIndexIsRefused) {
  EXPECT_TRUE(Has(Post("/v1/gpus/restrict", R"({"gpus":[0,99]})"), "there is no GPU 0; this server has none"));
  EXPECT_TRUE(Has(Post("/v1/gpus/restrict", R"({"gpus":[99]})"), "there is no GPU 99"));
  EXPECT_TRUE(Has(Post("/v1/gpus/restrict", R"({"gpus":[-1]})"), "there is no GPU -1"));
}

TEST_F(RoutesPage, TheEnvironmentIsHiddenFromOtherUsers) {
  if (::getuid() == 0) GTEST_SKIP() << "root is an administrator";
  const auto id = SubmitWith(::getuid() + 1, {"SECRET=x"}, {});
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(id) + "/environment"), "and only the owner may see its environment"));
}

TEST_F(RoutesPage, AStepOfAValohaiYamlBecomesAJob) {
  const std::string text = R"(- step:\n    name: train\n    image: x\n    command: echo {parameter-value:lr}\n)"
                           R"(    parameters: [{name: lr, type: float, default: 0.5}]\n)";
  const std::string read = Post("/v1/valohai", "{\"text\":\"" + text + "\"}");
  EXPECT_TRUE(Has(read, R"("problems":[])"));
  EXPECT_TRUE(Has(read, R"("name":"lr","type":"float","defaults":["0.5"])"));
  EXPECT_TRUE(Has(read, R"("spec":null)"));
  const std::string made = Post("/v1/valohai", "{\"text\":\"" + text + "\",\"step\":\"train\",\"directory\":\"/srv\"}");
  EXPECT_TRUE(Has(made, "echo 0.5"));
  EXPECT_TRUE(Has(made, R"("directory":"/srv")"));
  EXPECT_TRUE(Has(Post("/v1/valohai", "{\"text\":\"- step: [\"}"), R"("is_warning":false)"));
}

TEST_F(RoutesPage, AJobCanBeResubmittedAndShownAsACommandLine) {
  const auto id = SubmitWith(::getuid(), {"A=1"}, {"B=2"});
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(id) + "/again"), R"({"spec":{"command":["true"],"name":"x",)"));
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(id) + "/again"), R"("environment":["A=1"])"));
  EXPECT_TRUE(Has(Get("/v1/jobs/99/again"), "there is no job 99"));
  EXPECT_TRUE(Has(Post("/v1/words", R"({"spec":{"command":["a b"],"retries":2}})"),
                  R"("line":"divvy submit --retries 2 -- 'a b'","refusal":"")"));
  EXPECT_TRUE(Has(Post("/v1/script", R"({"text":"#!/bin/sh\n# DIVVY --retries 2\ntrue\n"})"), R"("retries":2)"));
  EXPECT_TRUE(Has(Post("/v1/script", R"({"text":"true","directory":"here"})"), "give an absolute path"));
  const std::string lines = "{\"text\":\"#" + std::string(131'072, 'x') + "\\n";
  EXPECT_TRUE(Has(Post("/v1/script", lines + "\"}"), "but at most 131072 can be read here"));
}

TEST_F(RoutesPage, AnotherUsersJobCannotBeResubmitted) {
  if (::getuid() == 0) GTEST_SKIP() << "root is an administrator";
  const auto id = SubmitWith(::getuid() + 1, {"SECRET=x"}, {});
  EXPECT_TRUE(Has(Get("/v1/jobs/" + ToString(id) + "/again"), "and only the owner may submit it again"));
}

TEST_F(RoutesPage, SharesOverTimeRefuseInvalidGroupsAndPoints) {
  EXPECT_TRUE(Has(Get("/v1/reports/shares?by=user&points=3"), R"("by":"user","step_s":201600)"));
  EXPECT_TRUE(Has(Get("/v1/reports/shares?by=hour"),
                  "'by' is user, team, name, model, pool or node in this report, not 'hour'"));
  EXPECT_TRUE(Has(Get("/v1/reports/shares?points=0"), "'points' goes from 1 to 2000"));
  EXPECT_TRUE(Has(Get("/v1/reports/shares?points=x"), "'points' goes from 1 to 2000"));
}

TEST_F(RoutesPage, TheHistoryContainsNodeEvents) {
  world_.controller_.OnMachineEvent("GPU 0 works again", world_.clock_.Now());
  world_.driver_->Touch();
  world_.Settle();
  EXPECT_TRUE(Has(Get("/v1/history?limit=1"), R"("id":null,"text":"GPU 0 works again"})"));
  EXPECT_TRUE(Has(Get("/v1/history?limit=0"), "'limit' goes from 1 to 5000, not '0'"));
}

}  // namespace routes_page_test
}  // namespace divvy
