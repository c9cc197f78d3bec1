#include "mcp/mcp_server.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mcp/mcp_tools.h"

namespace divvy::mcp {
namespace mcp_server_test {

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"job":{"type":"string","maxLength":20},"lines":{"type":"integer","minimum":1,"maximum":9},)"
    R"("by":{"type":"string","enum":["user","team"]},"all":{"type":"boolean"},)"
    R"("ids":{"type":"array","maxItems":2,"items":{"type":"string","maxLength":3}}},"required":["job"]})";

class Mcp : public testing::Test {
 protected:
  std::optional<std::string> Handle(std::string_view line) {
    McpExchange exchange = server_.Begin(line);
    EXPECT_EQ(exchange.request(), nullptr);
    return exchange.Answer();
  }
  std::string Call(std::string_view line) { return Handle(line).value_or(""); }
  std::string Tool(std::string_view name, std::string_view arguments) {
    return Call(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":")" + std::string(name) +
                R"(","arguments":)" + std::string(arguments) + "}}");
  }
  void Initialize(std::string_view revision = "2025-06-18") {
    Call(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" + std::string(revision) +
         R"("}})");
  }

  int changes_ = 0;
  McpServer server_{{{"look", "Look", "Looks.", kSchema, false, false, "",
                      [](JsonValue arguments) -> Result<McpStep> {
                        return McpStep{.text = "saw " + std::string(arguments["job"].AsString().value_or(""))};
                      }},
                     {"change", "Change", "Changes.", kSchema, true, true, "look",
                      [this](JsonValue) -> Result<McpStep> {
                        ++changes_;
                        return NotFound("there is no job 17");
                      }}},
                    {}};
};

TEST_F(Mcp, NegotiatesTheRevision) {
  for (const auto& [wanted, got] : {std::pair("2025-06-18", "2025-06-18"), std::pair("2025-03-26", "2025-03-26"),
                                    std::pair("2024-11-05", "2024-11-05"), std::pair("2031-01-01", "2025-06-18")}) {
    const std::string answer = Call(R"({"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":")" +
                                    std::string(wanted) + R"("}})");
    EXPECT_NE(answer.find(R"("protocolVersion":")" + std::string(got) + "\""), std::string::npos) << answer;
    EXPECT_NE(answer.find(R"("id":"a")"), std::string::npos) << answer;
  }
}

TEST_F(Mcp, AnswersNothingButPingBeforeTheHandshake) {
  EXPECT_EQ(Call(R"({"jsonrpc":"2.0","id":5,"method":"ping"})"), R"({"jsonrpc":"2.0","id":5,"result":{}})");
  EXPECT_NE(Call(R"({"jsonrpc":"2.0","id":5,"method":"tools/list"})").find("send initialize before tools/list"),
            std::string::npos);
}

TEST_F(Mcp, RefusesWhatIsNoMessage) {
  Initialize();
  EXPECT_NE(Call("{").find("-32700"), std::string::npos);
  EXPECT_NE(Call("7").find("-32600"), std::string::npos);
  EXPECT_NE(Call(R"({"id":1,"method":"ping"})").find("-32600"), std::string::npos);
  EXPECT_NE(Call(R"({"jsonrpc":"2.0","id":{},"method":"ping"})").find("-32600"), std::string::npos);
  EXPECT_NE(Call(R"({"jsonrpc":"2.0","id":1})").find("-32600"), std::string::npos);
  EXPECT_NE(Call(R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})").find("-32601"), std::string::npos);
  EXPECT_NE(Call(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}})").find("-32602"),
            std::string::npos);
  EXPECT_NE(Call(std::string(100, '[')).find("-32700"), std::string::npos) << "too deep";
}

TEST_F(Mcp, AnswersNoNotification) {
  EXPECT_EQ(Handle(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"), std::nullopt);
  EXPECT_EQ(Handle(R"({"jsonrpc":"2.0","id":3,"result":{}})"), std::nullopt);
}

TEST_F(Mcp, AnswersBatchesOnlyInTheRevisionThatHasThem) {
  const std::string batch =
      R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"ping"}])";
  Initialize();
  EXPECT_NE(Call(batch).find("-32600"), std::string::npos);
  Initialize("2025-03-26");
  EXPECT_EQ(Call(batch), R"([{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}])");
  EXPECT_EQ(Handle(R"([{"jsonrpc":"2.0","method":"x"}])"), std::nullopt);
}

TEST_F(Mcp, OffersChangesOnlyIfTheyAreAllowed) {
  Initialize();
  const std::string list = R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})";
  EXPECT_NE(Call(list).find("\"look\""), std::string::npos);
  EXPECT_EQ(Call(list).find("\"change\""), std::string::npos);
  const std::string refused = Tool("change", R"({"job":"17"})");
  EXPECT_NE(refused.find("change is not allowed here"), std::string::npos) << refused;
  EXPECT_NE(refused.find("--allow change"), std::string::npos) << refused;
  EXPECT_NE(refused.find("\"isError\":true"), std::string::npos) << refused;
  EXPECT_EQ(changes_, 0);

  server_ = McpServer({{"change", "Change", "Changes.", kSchema, true, true, "look",
                        [this](JsonValue) -> Result<McpStep> {
                          ++changes_;
                          return NotFound("there is no job 17");
                        }}},
                      {.allowed = {"change"}});
  Initialize();
  EXPECT_NE(Call(list).find("\"destructiveHint\":true"), std::string::npos);
  const std::string failed = Tool("change", R"({"job":"17"})");
  EXPECT_NE(failed.find(R"("text":"there is no job 17"}],"isError":true)"), std::string::npos) << failed;
  EXPECT_EQ(changes_, 1);
}

TEST_F(Mcp, ChecksArgumentsBeforeTheToolRuns) {
  Initialize();
  EXPECT_NE(Tool("look", R"({"job":"ääääääääääääääääääää"})").find("saw"), std::string::npos) << "20 characters";
  EXPECT_NE(Tool("look", R"({"job":"17","lines":9,"by":"team","all":true,"ids":["a"]})").find("saw 17"),
            std::string::npos);
  for (const auto& [arguments, says] :
       {std::pair("{}", "the argument 'job' is missing"),
        std::pair(R"({"job":17})", "job: expected a text, got a number"),
        std::pair(R"({"job":"123456789012345678901"})", "job: has 21 characters: expected at most 20"),
        std::pair(R"({"job":"17","ids":["abcd"]})", "ids: has 4 characters: expected at most 3"),
        std::pair(R"({"jobs":"17"})", "there is no argument 'jobs'; allowed: job, lines, by, all, ids"),
        std::pair(R"({"job":"17","lines":10})", "lines: 10: expected a whole number from 1 to 9"),
        std::pair(R"({"job":"17","lines":1.5})", "lines: expected a whole number"),
        std::pair(R"({"job":"17","by":"me"})", "by: 'me': expected one of user, team"),
        std::pair(R"({"job":"17","all":1})", "all: expected true or false"),
        std::pair(R"({"job":"17","ids":["a","b","c"]})", "ids: has 3 values: expected at most 2"),
        std::pair(R"({"job":"17","ids":[1]})", "ids: expected a list of texts"),
        std::pair(R"([])", "'arguments': expected an object")}) {
    EXPECT_NE(Tool("look", arguments).find(says), std::string::npos) << arguments << ": " << Tool("look", arguments);
  }
}

TEST_F(Mcp, BoundsErrorsAndShowsTheirControlCharacters) {
  Initialize();
  const std::string name = "\\u001b[31m" + std::string(100'000, 'x');
  for (const std::string& answer :
       {Tool(name, "{}"), Tool("look", "{\"" + name + "\":1}"), Tool("look", R"({"job":"1","by":")" + name + "\"}"),
        Call(R"({"jsonrpc":"2.0","id":1,"method":")" + name + "\"}")}) {
    EXPECT_LE(answer.size(), 4096u + 200) << answer.size();
    EXPECT_NE(answer.find(R"(\\x1b[31mxxx)"), std::string::npos) << answer;
    EXPECT_NE(answer.find("the rest is left out"), std::string::npos) << answer;
  }
}

/// Ports whose context has the present time only.
McpPorts TestPorts() {
  return {.around = [] { return dialect::ParseContext{.now = Time(std::chrono::hours(500'000))}; },
          .finish = [](JobSpec&) { return Status(); }};
}

/// Answers requests from a list, and notes what was asked.
class McpExchangeTest : public testing::Test {
 protected:
  std::string Run(std::string_view line) {
    McpExchange exchange = server_.Begin(line);
    while (const McpRequest* request = exchange.request()) {
      asked_.push_back(request->method + " " + request->target);
      bodies_.push_back(request->body);
      exchange.OnAnswer(answers_.empty() ? Result<HttpResponse>(Unreachable("no daemon answers")) : answers_.front());
      if (!answers_.empty()) answers_.erase(answers_.begin());
    }
    return exchange.Answer().value_or("");
  }
  static std::string Call(std::string_view tool, std::string_view arguments) {
    return R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":")" + std::string(tool) +
           R"(","arguments":)" + std::string(arguments) + "}}";
  }
  static HttpResponse Piece(std::string text, std::string next) {
    return {.body = std::move(text), .headers = {{"divvy-next", std::move(next)}}};
  }

  std::vector<Result<HttpResponse>> answers_;
  std::vector<std::string> asked_;
  std::vector<std::string> bodies_;
  McpServer server_{McpTools(TestPorts()), {.allowed = {"submit"}, .revision = "2025-03-26"}};
};

TEST_F(McpExchangeTest, ReadsALogToItsEndInPieces) {
  answers_ = {Piece("one\n", "4"), Piece("two\n", "8"), Piece("", "8")};
  EXPECT_NE(Run(Call("logs", R"({"job":"a b","lines":7})")).find(R"("text":"one\ntwo\n"}],"isError":false)"),
            std::string::npos);
  EXPECT_EQ(asked_,
            (std::vector<std::string>{"GET /v1/jobs/a%20b/log?last=7&at=-1", "GET /v1/jobs/a%20b/log?last=7&at=4",
                                      "GET /v1/jobs/a%20b/log?last=7&at=8"}));
}

TEST_F(McpExchangeTest, AsksForNoOtherPathThanTheJobs) {
  for (const std::string_view tool : {"show", "why", "logs", "forecast"}) {
    for (const std::string_view job : {"17/environment", "/", ""}) {
      const std::string answer = Run(Call(tool, R"({"job":")" + std::string(job) + "\"}"));
      EXPECT_NE(answer.find("job: '" + std::string(job) + "': expected an id"), std::string::npos) << answer;
    }
  }
  EXPECT_EQ(asked_, std::vector<std::string>());
}

TEST_F(McpExchangeTest, KeepsTheEndOfALogThatIsTooLong) {
  answers_ = {Piece(std::string(1 << 20, 'x') + "\n", "1"), Piece("the end\n", "2"), Piece("", "2")};
  const std::string answer = Run(Call("logs", R"({"job":"1"})"));
  EXPECT_LE(answer.size(), kMostAnswerBytes + 200);
  EXPECT_NE(answer.find("earlier output is left out"), std::string::npos);
  EXPECT_NE(answer.find("the end"), std::string::npos);
}

TEST_F(McpExchangeTest, OffersOnlyAFixedRevision) {
  EXPECT_NE(Run(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})")
                .find(R"("protocolVersion":"2025-03-26")"),
            std::string::npos);
}

TEST_F(McpExchangeTest, ReportsTheDaemonsRefusalAndItsAbsence) {
  answers_ = {HttpResponse{.status = 403, .body = R"({"code":"permission_denied","message":"a viewer's token"})"},
              HttpResponse{.status = 500, .body = "<html>"}};
  const std::string submit = Call("submit", R"({"command":["true"],"directory":"/tmp"})");
  EXPECT_NE(Run(submit).find(R"("text":"a viewer's token"}],"isError":true)"), std::string::npos);
  EXPECT_NE(Run(submit).find("status 500"), std::string::npos);
  EXPECT_NE(Run(submit).find("no daemon answers"), std::string::npos);
  EXPECT_EQ(asked_, (std::vector<std::string>(3, "POST /v1/jobs")));
  EXPECT_EQ(bodies_[0].find("\"key\""), std::string::npos);
}

TEST_F(McpExchangeTest, AnswersABatchOfToolsInOrder) {
  answers_ = {HttpResponse{.body = R"({"a":1})"}, HttpResponse{.body = R"({"a":2})"}};
  const std::string batch =
      "[" + Call("show", R"({"job":"1"})") + "," + Call("show", "{}") + "," + Call("why", R"({"job":"2"})") + "]";
  const std::string answer = Run(batch);
  const std::size_t first = answer.find(R"({\"a\":1})"), second = answer.find("is missing"),
                    third = answer.find(R"({\"a\":2})");
  EXPECT_TRUE(first < second && second < third && third != std::string::npos) << answer;
  EXPECT_EQ(asked_, (std::vector<std::string>{"GET /v1/jobs/1", "GET /v1/jobs/2/why"}));
}

TEST(McpTools, EachChangeHasAPreviewThatOnlyReads) {
  const std::vector<McpTool> tools = McpTools(TestPorts());
  int changes = 0;
  for (const McpTool& tool : tools) {
    EXPECT_TRUE(JsonDocument::ParseInPlace(tool.schema)) << tool.name;
    if (!tool.is_change) continue;
    ++changes;
    const auto preview = std::ranges::find(tools, tool.preview, &McpTool::name);
    ASSERT_NE(preview, tools.end()) << tool.name;
    EXPECT_FALSE(preview->is_change) << tool.name;
  }
  EXPECT_EQ(changes, 2);
}

TEST(McpTools, ReadsASubmissionAsTheCommandLineDoes) {
  const auto spec = [](std::string_view arguments) {
    const auto document = JsonDocument::ParseInPlace(arguments);
    return SpecOfArguments(document->root(), TestPorts().around());
  };
  const auto good =
      spec(R"({"command":["python","--gpus","x"],"gpus":"2..4","time":"90m","options":["--memory","8G"]})");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->command, (std::vector<std::string>{"python", "--gpus", "x"}));
  EXPECT_EQ(good->request.gpus, 2);
  EXPECT_EQ(good->request.max_gpus, 4);
  EXPECT_EQ(good->time_limit, std::chrono::minutes(90));
  EXPECT_EQ(good->request.memory.count(), std::int64_t{8} << 30);
  const auto script = spec(R"({"script":"#!/bin/sh\n#SBATCH --gpus=3\ntrue\n","command":["a"]})");
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_EQ(script->request.gpus, 3);
  EXPECT_EQ(script->arguments, std::vector<std::string>{"a"});
  EXPECT_NE(spec("{}").error().message.find("nothing to run"), std::string::npos);
  EXPECT_NE(spec(R"({"command":["a"],"options":["rm"]})").error().message.find("'rm' is not an option"),
            std::string::npos);
  for (const std::string_view reads : {R"({"command":["a","{lr}"],"options":["--param-file=/dev/stdin"]})",
                                       R"({"command":["a","{lr}"],"options":["--param-file=/etc/hostname"]})",
                                       R"({"script":"#!/bin/sh\n# DIVVY --param-file=/etc/hostname\ntrue {lr}\n"})"}) {
    EXPECT_NE(spec(reads).error().message.find("cannot be read here"), std::string::npos) << reads;
  }
  EXPECT_NE(spec(R"({"command":["a"],"gpus":"many"})").error().message.find("--gpus"), std::string::npos);
  const std::string long_option = "--comment=" + std::string(140'000, 'x');
  EXPECT_NE(spec(R"({"command":["a"],"options":[")" + long_option + R"("]})").error().message.find("at most 131072"),
            std::string::npos);
}

}  // namespace mcp_server_test
}  // namespace divvy::mcp
