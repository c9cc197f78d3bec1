#include "cli/client/http_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cli/client/api.h"

namespace divvy {
namespace http_client_test {

/// A scripted server: accepts one connection, answers each request with the next text, then closes. Calls
/// `before_answer`, if set, when a request has arrived.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> answers, std::function<void()> before_answer = {})
      : before_answer_(std::move(before_answer)) {
    std::string pattern = testing::TempDir() + "divvy-client-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path = directory_ + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    thread_ = std::thread([this, answers = std::move(answers)] { Run(answers); });
  }
  ~ScriptedServer() {
    thread_.join();
    ::close(listener_);
    ::unlink(path.c_str());
    ::rmdir(directory_.c_str());
  }

  std::string path;
  std::vector<HttpRequest> requests;

 private:
  void Run(const std::vector<std::string>& answers) {
    int fd = ::accept(listener_, nullptr, nullptr);
    HttpReader reader;
    char bytes[4096];
    for (const std::string& answer : answers) {
      std::optional<HttpRequest> request;
      while (!(request = reader.Next())) {
        ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) break;
        reader.Feed({bytes, static_cast<std::size_t>(n)});
      }
      if (request) requests.push_back(*std::move(request));
      if (before_answer_) before_answer_();
      // Send it in two pieces, so that the client must reassemble them.
      std::size_t half = answer.size() / 2;
      ::send(fd, answer.data(), half, MSG_NOSIGNAL);
      ::send(fd, answer.data() + half, answer.size() - half, MSG_NOSIGNAL);
    }
    ::close(fd);
  }

  std::function<void()> before_answer_;
  std::string directory_;
  int listener_ = -1;
  std::thread thread_;
};

std::string Answer(int status, std::string body) { return Serialise({.status = status, .body = std::move(body)}); }

HttpClient Connect(const ScriptedServer& server) {
  auto client = HttpClient::Connect(server.path);
  EXPECT_TRUE(client) << (client ? "" : client.error().message);
  return *std::move(client);
}

TEST(HttpClient, NamesTheSocketThatItTried) {
  auto none = HttpClient::Connect("/tmp/no-such-directory/socket");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnreachable);
  EXPECT_EQ(none.error().message, "cannot connect to /tmp/no-such-directory/socket: no such socket");
  auto long_path = HttpClient::Connect("/tmp/" + std::string(200, 'x'));
  ASSERT_FALSE(long_path);
  EXPECT_EQ(long_path.error().code, ErrorCode::kUnreachable);
}

TEST(HttpClient, CallsSeveralTimesOnOneConnection) {
  ScriptedServer server({Answer(200, "one"), Answer(404, "two")});
  HttpClient client = Connect(server);
  auto one = client.Call("POST", "/v1/a?x=" + PercentEncode("a b"), "{}");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->body, "one");
  auto two = client.Call("GET", "/v1/b");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->status, 404);
  EXPECT_EQ(two->body, "two");
  EXPECT_EQ(server.requests[0].body, "{}");
  EXPECT_EQ(server.requests[0].query.at("x"), "a b");
}

TEST(HttpClient, ADaemonThatExitsIsReportedAsUnreachable) {
  ScriptedServer server({Answer(200, "one"), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"});
  HttpClient client = Connect(server);
  ASSERT_TRUE(client.Call("GET", "/"));
  auto half = client.Call("GET", "/");
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, ErrorCode::kUnreachable);
  EXPECT_EQ(half.error().message, "the daemon at " + server.path + " closed the connection before it answered");
  auto after = client.Call("GET", "/");
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, ErrorCode::kUnreachable);
}

TEST(HttpClient, ASocketThatIsNotADaemonIsReported) {
  ScriptedServer server({"SSH-2.0-OpenSSH_9.2\r\n\r\n"});
  HttpClient client = Connect(server);
  auto answer = client.Call("GET", "/");
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("is not a divvy daemon"), std::string::npos) << answer.error().message;
}

TEST(HttpClient, DeliversEventsOneByOne) {
  std::string text;
  Serialise({.content_type = "text/event-stream"}, {.is_chunked = true}, text);
  for (std::string_view piece : {"data: 1\n\n: still here\n\nid: 7\nda", "ta:2\r\ndata: b\n\n", "data: 3\n\n", ""}) {
    SerialiseChunk(piece, text);
  }
  ScriptedServer server({text});
  HttpClient client = Connect(server);
  std::vector<std::string> events;
  Status status = client.Stream("/v1/events", [&](std::string_view event) { return events.emplace_back(event), true; });
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(events, (std::vector<std::string>{"1", "2\nb", "3"}));
}

TEST(HttpClient, StopsAStreamOnRequest) {
  std::string text;
  Serialise({.content_type = "text/event-stream"}, {.is_chunked = true}, text);
  SerialiseChunk("data: 1\n\ndata: 2\n\n", text);
  ScriptedServer server({text});
  HttpClient client = Connect(server);
  int seen = 0;
  EXPECT_TRUE(client.Stream("/v1/events", [&](std::string_view) { return ++seen, false; }));
  EXPECT_EQ(seen, 1);
}

TEST(HttpClient, AStreamThatIsRefusedOrInterruptedFails) {
  ScriptedServer refusing({Answer(403, R"({"code":"permission_denied","message":"not yours"})")});
  HttpClient client = Connect(refusing);
  Status refused = client.Stream("/v1/events", [](std::string_view) { return true; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "not yours");
  std::string text;
  Serialise({.content_type = "text/event-stream"}, {.is_chunked = true}, text);
  ScriptedServer leaving({text});
  HttpClient other = Connect(leaving);
  Status left = other.Stream("/v1/events", [](std::string_view) { return true; });
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, ErrorCode::kUnreachable);
}

TEST(HttpClient, MoreThanSixDescriptorsAreRefusedBeforeSending) {
  ScriptedServer server({});
  HttpClient client = Connect(server);
  const int fds[] = {0, 0, 0, 0, 0, 0, 0};
  auto answer = client.Call("GET", "/", "", fds);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
}

TEST(Api, AJobThatRequeuesItselfReceivesTheAnswerAlthoughItIsStopped) {
  // As in a job that requeues itself: SIGTERM arrives before the daemon's answer.
  ScriptedServer server({Answer(200, R"({"results":[{"id":17,"is_done":true}]})")},
                        [] { ::kill(::getpid(), SIGTERM); });
  ::setenv("DIVVY_JOB_ID", "17", 1);
  auto api = cli::Api::Connect(server.path);
  ASSERT_TRUE(api) << api.error().message;
  const auto answer = api->Requeue({});
  ::unsetenv("DIVVY_JOB_ID");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->results.front().is_done);
  EXPECT_EQ(std::signal(SIGTERM, SIG_DFL), SIG_IGN) << "the signal may also arrive after the answer";
}

}  // namespace http_client_test
}  // namespace divvy
