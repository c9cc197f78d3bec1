// Agents on other machines: which messages are accepted or refused, and the requests that the tools send.
#include "daemon/api/ui/mcp_routes.h"

#include <gtest/gtest.h>

#include "daemon/api/routes_test_world.h"

namespace divvy {
namespace mcp_routes_test {

constexpr std::string_view kList = R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})";

class McpOverHttp : public World, public testing::Test {
 protected:
  McpOverHttp() {
    remote_ = std::make_shared<RemoteAccess>(RemoteAccess{RemoteCallers(tokens_,
                                                                        [](std::string_view name) {
                                                                          return User{7, 7, std::string(name)};
                                                                        }),
                                                          {},
                                                          ""});
    ApiPorts routing;
    routing.user_name = [](std::int64_t) { return "ada"; };
    routing.read = [this](std::int64_t, std::function<std::function<void()>()> work) {
      reads_.push_back(std::move(work));
    };
    routing.remote = remote_;
    routing.agents = listener_;
    routing.login_environment = [this](const User&) {
      ++logins_;
      return std::vector<std::string>{"HOME=/home/ada"};
    };
    Admins admins({}, [](const User&, const std::string&) { return false; });
    routes_ = std::make_unique<Routes>(*driver_, node_, About(), std::move(admins), std::move(routing));
    user_ = MakeToken(TokenRole::kUser);
  }
  /// Returns the value of the header Authorization.
  std::string MakeToken(TokenRole role) {
    TokenRow row;
    row.user = "ada";
    row.role = role;
    row.expires = clock_.Now() + std::chrono::hours(1);
    auto made = remote_->callers.Make(row, Caller{{7, 7, "ada"}, true});
    EXPECT_TRUE(made) << made.error().message;
    return "Bearer " + made->id + "." + made->secret;
  }
  HttpResponse Post(std::string_view body, HttpHeaders headers, std::string allow = "", std::string method = "POST") {
    HttpRequest request;
    request.method = std::move(method);
    request.path = "/v1/mcp";
    if (!allow.empty()) request.query.emplace("allow", std::move(allow));
    request.headers = std::move(headers);
    request.body = body;
    std::optional<HttpResponse> answer;
    routes_->Handle(peer_, std::move(request), Reply::To([&](const HttpResponse& got) { answer = got; }));
    while (!answer && (!reads_.empty() || !posted_.empty())) {
      Read();
      Settle();
    }
    EXPECT_TRUE(answer) << body;
    return answer.value_or(HttpResponse());
  }
  HttpResponse Ask(std::string_view body, std::string allow = "") {
    return Post(body, {{"authorization", user_}}, std::move(allow));
  }
  static std::string Call(std::string_view tool, std::string_view arguments) {
    return R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":")" + std::string(tool) +
           R"(","arguments":)" + std::string(arguments) + "}}";
  }
  static bool Has(const HttpResponse& answer, std::string_view text) {
    return answer.body.find(text) != std::string::npos;
  }

  std::shared_ptr<RemoteAccess> remote_;
  std::string user_;
  int logins_ = 0;  // Look-ups of a login's environment.
  Peer peer_{.address = "10.0.0.9"};
};

TEST_F(McpOverHttp, AnswersAHandshakeAToolAndANotification) {
  const HttpResponse hello = Ask(
      R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}})");
  EXPECT_EQ(hello.status, 200);
  EXPECT_EQ(hello.content_type, "application/json");
  EXPECT_TRUE(Has(hello, R"("protocolVersion":"2025-06-18")")) << hello.body;
  const HttpResponse older =
      Ask(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}})");
  EXPECT_TRUE(Has(older, R"("protocolVersion":"2025-06-18")")) << "the only revision over HTTP: " << older.body;
  EXPECT_EQ(Ask(R"({"jsonrpc":"2.0","method":"notifications/initialized"})").status, 202);
  Submit("mine");
  Settle();
  const HttpResponse queue = Ask(Call("queue", "{}"));
  EXPECT_TRUE(Has(queue, "mine") && Has(queue, "\"isError\":false")) << queue.body;
  EXPECT_TRUE(Has(Ask(Call("show", R"({"job":"99"})")), "\"isError\":true"));
}

TEST_F(McpOverHttp, RefusesACallerWithoutAValidToken) {
  EXPECT_EQ(Post(kList, {}).status, 401);
  EXPECT_EQ(Post(kList, {{"authorization", "Bearer 00000000." + std::string(64, '0')}}).status, 401);
  // Without a page there are no sessions: its headers count for nothing.
  EXPECT_EQ(Post(kList, {{"cookie", "divvy-1=x"}, {"divvy-page", "x"}}).status, 401);
  remote_->callers.registry() = TokenRegistry();
  EXPECT_EQ(Ask(kList).status, 401) << "a removed token";
}

TEST_F(McpOverHttp, RefusesOtherPagesMethodsRevisionsAndMachines) {
  EXPECT_EQ(Post(kList, {{"authorization", user_}, {"origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(Post("", {{"authorization", user_}}, "", "GET").status, 405);
  EXPECT_EQ(Post("", {{"authorization", user_}}, "", "DELETE").status, 405);
  const HttpResponse revision = Post(kList, {{"authorization", user_}, {"mcp-protocol-version", "2025-03-26"}});
  EXPECT_EQ(revision.status, 400);
  EXPECT_TRUE(Has(revision, "'2025-03-26': expected 2025-06-18\"")) << revision.body;
  EXPECT_EQ(Post(kList, {{"authorization", user_}, {"mcp-protocol-version", "2025-06-18"}}).status, 200);
  const HttpResponse allow = Ask(kList, "everything");
  EXPECT_EQ(allow.status, 400);
  EXPECT_TRUE(Has(allow, "expected submit or cancel")) << allow.body;
  peer_ = Peer{.uid = 7, .gid = 7};
  EXPECT_TRUE(Has(Post(kList, {}), "divvy mcp has the same tools"));
}

TEST_F(McpOverHttp, RefusesAMessageThatIsTooLargeTooDeepOrABatch) {
  EXPECT_TRUE(Has(Ask("[" + std::string(2 << 20, ' ') + "]"), "-32700"));
  EXPECT_TRUE(Has(Ask(std::string(100, '[')), "-32700"));
  EXPECT_TRUE(Has(Ask("[" + std::string(kList) + "]"), "a batch is accepted only")) << "many messages at once";
}

TEST_F(McpOverHttp, ChangesNothingUnlessTheAddressAllowsIt) {
  const std::string submit = Call("submit", R"({"command":["true"],"name":"agent's"})");
  EXPECT_FALSE(Has(Ask(kList), "\"submit\""));
  const HttpResponse refused = Ask(submit);
  EXPECT_TRUE(Has(refused, "?allow=submit") && Has(refused, "\"isError\":true")) << refused.body;
  EXPECT_TRUE(Has(Ask(Call("preview_submit", R"({"command":["true"]})")), "would_submit"));
  EXPECT_TRUE(Has(Ask(submit, "cancel"), "not allowed"));
  EXPECT_EQ(driver_->controller().Find(JobId(1)), nullptr);
  EXPECT_TRUE(Has(Ask(kList, "submit,cancel"), "\"submit\""));
  const HttpResponse done = Ask(submit, "submit,cancel");
  EXPECT_TRUE(Has(done, "\"isError\":false")) << done.body;
  const JobRecord* job = driver_->controller().Find(JobId(1));
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->user.name, "ada");
  EXPECT_TRUE(Has(Ask(Call("cancel", R"({"jobs":["1"]})"), "cancel"), "\"isError\":false"));
  EXPECT_EQ(driver_->controller().Find(JobId(1))->state, JobState::kStopping);
}

TEST_F(McpOverHttp, AllowsAViewersTokenNoChange) {
  user_ = MakeToken(TokenRole::kViewer);
  EXPECT_TRUE(Has(Ask(Call("queue", "{}")), "\"isError\":false"));
  EXPECT_TRUE(Has(Ask(Call("submit", R"({"command":["true"]})"), "submit"), "\"isError\":true"));
  EXPECT_TRUE(Has(Ask(Call("preview_submit", R"({"command":["true"]})")), "\"isError\":true"));
  EXPECT_EQ(driver_->controller().Find(JobId(1)), nullptr);
}

TEST_F(McpOverHttp, ReadsNoFileOfTheServer) {
  const HttpResponse answer =
      Ask(Call("submit", R"({"command":["a","{lr}"],"options":["--param-file=/etc/hostname"]})"), "submit");
  EXPECT_TRUE(Has(answer, "cannot be read here")) << answer.body;
}

TEST_F(McpOverHttp, LooksUpTheLoginOnlyForASubmissionOrAReport) {
  Ask(kList);
  Ask(Call("queue", "{}"));
  EXPECT_EQ(logins_, 0);
  Ask(Call("report", R"({"kind":"usage","since":"7d","until":"1d"})"));
  EXPECT_EQ(logins_, 1) << "once for both times";
}

TEST_F(McpOverHttp, CountsTheGpusOfANodeForAnExclusiveJob) {
  NodeCapacity capacity;
  capacity.cpus = 8;
  capacity.gpus.resize(2);
  capacity.gpus[0].uuid = "GPU-a";
  capacity.gpus[1].uuid = "GPU-b";
  capacity.gpus[1].index = 1;
  controller_.SetCapacity(std::move(capacity));
  // The name of the tool has an escape.
  Ask(Call("\\u0073ubmit", R"({"script":"#!/bin/sh\n#SBATCH --exclusive\ntrue\n"})"), "submit");
  const JobRecord* job = driver_->controller().Find(JobId(1));
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->request.gpus, 2);
}

TEST_F(McpOverHttp, EndsAToolWhoseClientIsGone) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/mcp";
  request.headers = {{"authorization", user_}};
  request.body = Call("queue", R"({"ended":true})");
  bool has_answer = false;
  Reply reply = Reply::To([&](const HttpResponse&) { has_answer = true; });
  const auto leave = reply.Canceller();
  routes_->Handle(peer_, std::move(request), std::move(reply));
  Read();
  ASSERT_FALSE(reads_.empty()) << "the tool's request reads the store";
  leave();
  Read();
  EXPECT_TRUE(reads_.empty()) << "an answer that nobody waits for";
  EXPECT_FALSE(has_answer);
}

TEST_F(McpOverHttp, SurvivesTheEndOfTheDaemonDuringATool) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/mcp";
  request.headers = {{"authorization", user_}};
  request.body = Call("queue", R"({"ended":true})");
  int status = 0;
  routes_->Handle(peer_, std::move(request), Reply::To([&](const HttpResponse& got) { status = got.status; }));
  Read();
  ASSERT_FALSE(reads_.empty()) << "the tool's request reads the store";
  reads_.clear();
  routes_.reset();
  EXPECT_EQ(status, 500);
}

}  // namespace mcp_routes_test
}  // namespace divvy
