#include "daemon/http/http_server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>

namespace divvy {
namespace http_server_test {

using std::chrono::steady_clock;
constexpr auto kTimeout = std::chrono::seconds(10);

/// A client that never blocks: everything in these tests runs on one thread, so nothing depends on thread scheduling.
class Client {
 public:
  explicit Client(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Client(Client&& other) noexcept
      : is_ended(other.is_ended), fd_(std::exchange(other.fd_, -1)), is_connected_(other.is_connected_) {}
  ~Client() { Close(); }

  bool is_connected() const { return is_connected_; }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void EndSending() { ::shutdown(fd_, SHUT_WR); }
  /// Sends as much as fits; returns the number of bytes.
  std::size_t Send(std::string_view text, std::vector<int> fds = {}) {
    iovec piece{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  void Read() {
    char bytes[65536];
    ssize_t n = 0;
    while ((n = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
      reader.Feed({bytes, static_cast<std::size_t>(n)});
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) is_ended = true;
    while (auto answer = reader.Next()) answers.push_back(*std::move(answer));
  }

  HttpResponseReader reader;
  std::vector<HttpResponse> answers;
  bool is_ended = false;

 private:
  int fd_ = -1;
  bool is_connected_ = false;
};

std::string Get(std::string_view target) { return "GET " + std::string(target) + " HTTP/1.1\r\n\r\n"; }
HttpResponse Text(std::string body) { return {.content_type = "text/plain", .body = std::move(body)}; }

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    std::string pattern = testing::TempDir() + "divvy-http-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    options_.path = directory_ + "/socket";
  }
  ~HttpServerTest() override {
    server_.reset();
    ::unlink(options_.path.c_str());
    ::rmdir(directory_.c_str());
  }

  void Serve(HttpServer::OnRequestCallback on_request) {
    auto server = HttpServer::Listen(loop_, options_, std::move(on_request));
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  /// Keeps every request with its reply, so that the test can answer it.
  void ServeByHand() {
    Serve([this](const Peer& peer, HttpRequest&& request, Reply reply) {
      peers_.push_back(peer);
      requests_.push_back(std::move(request));
      replies_.push_back(std::move(reply));
    });
  }
  void ServeEcho() {
    Serve([](const Peer&, HttpRequest&& request, Reply reply) { reply.Answer(Text(request.path)); });
  }
  template <typename Condition>
  [[nodiscard]] bool Until(Condition condition) {
    auto deadline = steady_clock::now() + kTimeout;
    while (!condition()) {
      if (steady_clock::now() > deadline) return false;
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  bool UntilAnswered(Client& client, std::size_t count) {
    return Until([&] { return client.Read(), client.answers.size() >= count || client.is_ended; }) &&
           client.answers.size() >= count;
  }
  bool UntilRequests(std::size_t count) {
    return Until([&] { return requests_.size() >= count; });
  }

  std::string directory_;
  HttpServerOptions options_;
  boost::asio::io_context loop_;
  std::unique_ptr<HttpServer> server_;
  std::vector<Peer> peers_;
  std::vector<HttpRequest> requests_;
  std::vector<Reply> replies_;
};

TEST_F(HttpServerTest, AnswersAndIdentifiesItsPeer) {
  ServeByHand();
  Client client(options_.path);
  client.Send("POST /v1/x?a=b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
  ASSERT_TRUE(UntilRequests(1));
  EXPECT_EQ(peers_[0].uid, static_cast<std::int64_t>(::getuid()));
  EXPECT_EQ(peers_[0].gid, static_cast<std::int64_t>(::getgid()));
  EXPECT_EQ(peers_[0].pid, static_cast<std::int64_t>(::getpid()));
  EXPECT_EQ(requests_[0].body, "hi");
  EXPECT_EQ(requests_[0].query.at("a"), "b");
  replies_[0].Answer({.status = 201, .body = "{}", .headers = {{"X-A", "b"}}});
  replies_[0].Answer(Text("too late"));
  ASSERT_TRUE(UntilAnswered(client, 1));
  EXPECT_EQ(client.answers[0].status, 201);
  EXPECT_EQ(client.answers[0].header("x-a"), "b");
  EXPECT_FALSE(replies_[0].is_open());
}

TEST_F(HttpServerTest, AnswersInRequestOrderWhateverTheOrderOfReplies) {
  ServeByHand();
  Client client(options_.path);
  client.Send(Get("/0") + Get("/1") + Get("/2") + Get("/3"));
  ASSERT_TRUE(UntilRequests(4));
  for (std::size_t i : {2u, 1u, 3u}) replies_[i].Answer(Text(std::to_string(i)));
  loop_.restart();
  loop_.poll();
  client.Read();
  EXPECT_EQ(client.answers.size(), 0u);
  replies_[0].Answer(Text("0"));
  ASSERT_TRUE(UntilAnswered(client, 4));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(client.answers[i].body, std::to_string(i));
}

TEST_F(HttpServerTest, ServesTenThousandRequestsOnOneConnection) {
  ServeEcho();
  Client client(options_.path);
  std::string text;
  constexpr std::size_t kCount = 10'000;
  for (std::size_t i = 0; i < kCount; ++i) text += Get("/" + std::to_string(i));
  std::size_t sent = 0;
  ASSERT_TRUE(Until([&] {
    if (sent < text.size()) sent += client.Send(std::string_view(text).substr(sent));
    client.Read();
    return client.answers.size() == kCount || client.is_ended;
  }));
  ASSERT_EQ(client.answers.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(client.answers[i].body, "/" + std::to_string(i));
}

TEST_F(HttpServerTest, StopsReadingWhileTooManyRequestsAreInFlight) {
  options_.requests_in_flight = 4;
  ServeByHand();
  Client client(options_.path);
  std::string text;
  for (int i = 0; i < 20; ++i) text += Get("/" + std::to_string(i));
  client.Send(text);
  ASSERT_TRUE(UntilRequests(4));
  loop_.restart();
  loop_.poll();
  EXPECT_EQ(requests_.size(), 4u);
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(UntilRequests(i + 1));
    EXPECT_LE(requests_.size(), i + 4);
    replies_[i].Answer(Text(requests_[i].path));
  }
  ASSERT_TRUE(UntilAnswered(client, 20));
  EXPECT_EQ(client.answers[19].body, "/19");
}

TEST_F(HttpServerTest, StopsReadingFromAClientThatDoesNotReadItsAnswers) {
  options_.output_bytes = 100'000;
  std::size_t served = 0;
  Serve([&](const Peer&, HttpRequest&&, Reply reply) { ++served, reply.Answer(Text(std::string(50'000, 'x'))); });
  Client client(options_.path);
  std::string text;
  for (int i = 0; i < 200; ++i) text += Get("/");
  ASSERT_EQ(client.Send(text), text.size());
  std::size_t before = 0;
  ASSERT_TRUE(Until([&] { return std::exchange(before, served) == served && served > 0; }));
  EXPECT_LT(served, 50u);  // The number of answers that fit into the kernel's buffers and the output limit.
  ASSERT_TRUE(UntilAnswered(client, 200));
  EXPECT_EQ(served, 200u);
}

TEST_F(HttpServerTest, DescriptorsArriveWithTheirRequest) {
  ServeByHand();
  Client client(options_.path);
  int pipes[2];
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  client.Send(Get("/before"));
  client.Send("POST /with HTTP/1.1\r\nContent-Length: 4\r\n\r\nab", {pipes[0], pipes[1], pipes[1]});
  client.Send("cd" + Get("/after"));
  ::close(pipes[0]);
  ::close(pipes[1]);
  ASSERT_TRUE(UntilRequests(3));
  EXPECT_TRUE(requests_[0].fds.empty());
  ASSERT_EQ(requests_[1].fds.size(), 3u);
  EXPECT_TRUE(requests_[2].fds.empty());
  const std::vector<int> fds = requests_[1].fds.peek();
  for (int fd : fds) EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ASSERT_EQ(::write(fds[1], "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(::read(fds[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  requests_.clear();
  for (int fd : fds) EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "left open";
}

TEST_F(HttpServerTest, TooManyDescriptorsAreRefusedAndClosed) {
  ServeByHand();
  for (std::string text : {Get("/"), std::string("GET / HTTP/1.1\r\n")}) {
    Client client(options_.path);
    int pipes[2];
    ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
    client.Send(text, std::vector<int>(7, pipes[1]));
    ::close(pipes[1]);
    ASSERT_TRUE(UntilAnswered(client, 1));
    EXPECT_EQ(client.answers[0].status, 400);
    EXPECT_NE(client.answers[0].body.find("more than 6 file descriptors"), std::string::npos);
    ASSERT_TRUE(Until([&] { return client.Read(), client.is_ended; }));
    char byte;
    EXPECT_EQ(::read(pipes[0], &byte, 1), 0) << "someone still has the other end";
    ::close(pipes[0]);
  }
  EXPECT_TRUE(requests_.empty());
}

TEST_F(HttpServerTest, GarbageIsRefusedAndTheConnectionEnds) {
  ServeEcho();
  Client client(options_.path);
  client.Send(Get("/good") + "\x16\x03\x01 garbage\r\n\r\n" + Get("/never"));
  ASSERT_TRUE(Until([&] { return client.Read(), client.is_ended; }));
  ASSERT_EQ(client.answers.size(), 2u);
  EXPECT_EQ(client.answers[0].body, "/good");
  EXPECT_EQ(client.answers[1].status, 400);
  EXPECT_EQ(client.answers[1].body,
            R"({"code":"invalid_argument","message":"this is not an HTTP request: bad method"})");
}

TEST_F(HttpServerTest, ADisconnectedClientIsNoticed) {
  ServeByHand();
  auto client = std::make_unique<Client>(options_.path);
  client->Send(Get("/wait") + Get("/done") + Get("/kept"));
  ASSERT_TRUE(UntilRequests(3));
  int closed = 0;
  EXPECT_TRUE(replies_[0].OnClosed([&] { closed += 1; }));
  EXPECT_TRUE(replies_[1].OnClosed([&] { closed += 10; }));
  replies_[1].Answer(Text(""));
  Reply copy = replies_[2];
  EXPECT_TRUE(replies_[2].OnClosed([&, copy] { closed += 100; }));
  client.reset();
  ASSERT_TRUE(Until([&] { return closed >= 101; }));
  EXPECT_EQ(closed, 101);
  EXPECT_FALSE(replies_[0].is_open());
  EXPECT_FALSE(replies_[0].OnClosed([&] { closed = -1; }));
  replies_[0].Answer(Text("nobody"));
  EXPECT_EQ(server_->connections(), 0u);
}

TEST_F(HttpServerTest, AHalfClosedClientStillGetsItsAnswers) {
  ServeByHand();
  Client client(options_.path);
  client.Send(Get("/a"));
  client.EndSending();
  ASSERT_TRUE(UntilRequests(1));
  bool has_closed = false;
  replies_[0].OnClosed([&] { has_closed = true; });
  loop_.restart();
  loop_.poll();
  EXPECT_FALSE(has_closed);
  replies_[0].Answer(Text("a"));
  ASSERT_TRUE(UntilAnswered(client, 1));
  ASSERT_TRUE(Until([&] { return client.Read(), client.is_ended; }));
}

TEST_F(HttpServerTest, AFullCloseAfterAHalfCloseIsNoticed) {
  ServeByHand();
  Client client(options_.path);
  client.Send(Get("/a"));
  client.EndSending();
  ASSERT_TRUE(UntilRequests(1));
  bool has_closed = false;
  replies_[0].OnClosed([&] { has_closed = true; });
  loop_.restart();
  loop_.poll();
  EXPECT_FALSE(has_closed);
  client.Close();
  EXPECT_TRUE(Until([&] { return has_closed; }));
}

TEST_F(HttpServerTest, ADroppedReplyIsAnsweredWithAnError) {
  Serve([](const Peer&, HttpRequest&&, Reply) {});
  Client client(options_.path);
  client.Send(Get("/"));
  ASSERT_TRUE(UntilAnswered(client, 1));
  EXPECT_EQ(client.answers[0].status, 500);
}

TEST_F(HttpServerTest, StreamsEventsAndServesFurtherRequests) {
  ServeByHand();
  Client client(options_.path);
  client.Send(Get("/events") + Get("/next"));
  ASSERT_TRUE(UntilRequests(2));
  replies_[1].Answer(Text("next"));
  replies_[0].BeginStream("text/event-stream");
  EXPECT_TRUE(replies_[0].Send("data: 1\n\n"));
  ASSERT_TRUE(Until([&] { return client.Read(), client.reader.Partial() != nullptr; }));
  EXPECT_EQ(client.reader.Partial()->content_type, "text/event-stream");
  EXPECT_TRUE(replies_[0].Send("data: 2\n\n"));
  std::string body;
  ASSERT_TRUE(Until([&] { return client.Read(), body += client.reader.TakePartialBody(), body.size() >= 18; }));
  EXPECT_EQ(body, "data: 1\n\ndata: 2\n\n");
  replies_[0].EndStream();
  EXPECT_FALSE(replies_[0].Send("late"));
  ASSERT_TRUE(UntilAnswered(client, 2));
  EXPECT_EQ(client.answers[1].body, "next");
}

TEST_F(HttpServerTest, AnHttp10ClientGetsItsStreamWithoutChunks) {
  ServeByHand();
  Client client(options_.path);
  client.Send("GET /events HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(UntilRequests(1));
  replies_[0].BeginStream("text/event-stream");
  replies_[0].Send("data: 1\n\n");
  replies_.clear();
  ASSERT_TRUE(Until([&] { return client.Read(), client.is_ended; }));
  client.reader.FinishInput();
  auto answer = client.reader.Next();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "data: 1\n\n");
}

TEST_F(HttpServerTest, AClientThatFallsTooFarBehindIsDropped) {
  options_.stream_backlog_bytes = 100'000;
  ServeByHand();
  Client client(options_.path);
  client.Send(Get("/events"));
  ASSERT_TRUE(UntilRequests(1));
  bool has_closed = false;
  replies_[0].OnClosed([&] { has_closed = true; });
  replies_[0].BeginStream("text/event-stream");
  std::size_t sent = 0;
  ASSERT_TRUE(Until([&] { return ++sent, !replies_[0].Send(std::string(10'000, 'x')); }));
  EXPECT_TRUE(has_closed);
  EXPECT_LT(sent, 200u);
}

TEST_F(HttpServerTest, HeadRequestsGetHeadersOnly) {
  ServeEcho();
  Client client(options_.path);
  client.Send("HEAD /abc HTTP/1.1\r\nConnection: close\r\n\r\n");
  std::string text;
  char bytes[1000];
  ASSERT_TRUE(Until([&] {
    ssize_t n = ::recv(client.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    return n == 0;
  }));
  EXPECT_EQ(text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\n");
}

TEST_F(HttpServerTest, Sends100ContinueToAClientThatExpectsIt) {
  ServeEcho();
  Client client(options_.path);
  client.Send("POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  ASSERT_TRUE(UntilAnswered(client, 1));
  EXPECT_EQ(client.answers[0].status, 100);
  client.Send("y");
  ASSERT_TRUE(UntilAnswered(client, 2));
  EXPECT_EQ(client.answers[1].body, "/x");
}

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreRefusedWithAReason) {
  options_.connections = 2;
  ServeEcho();
  Client first(options_.path);
  Client second(options_.path);
  ASSERT_TRUE(Until([&] { return server_->connections() == 2; }));
  {
    Client third(options_.path);
    ASSERT_TRUE(UntilAnswered(third, 1));
    EXPECT_EQ(third.answers[0].status, 503);
  }
  first.Close();
  ASSERT_TRUE(Until([&] { return server_->connections() == 1; }));
  Client fourth(options_.path);
  fourth.Send(Get("/x"));
  ASSERT_TRUE(UntilAnswered(fourth, 1));
  EXPECT_EQ(fourth.answers[0].status, 200);
}

TEST_F(HttpServerTest, AnUnfinishedRequestIsCutOffAndAnIdleConnectionStays) {
  options_.request_time = std::chrono::milliseconds(100);
  ServeEcho();
  Client idle(options_.path);
  Client unfinished(options_.path);
  unfinished.Send("POST /x HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf");
  ASSERT_TRUE(Until([&] { return server_->connections() == 2; }));
  ASSERT_TRUE(Until([&] { return server_->connections() == 1; }));
  idle.Send(Get("/x"));
  EXPECT_TRUE(UntilAnswered(idle, 1));
}

TEST_F(HttpServerTest, WithoutFreeDescriptorsItWaitsAndContinues) {
  ServeEcho();
  Client first(options_.path);
  ASSERT_TRUE(Until([&] { return server_->connections() == 1; }));
  Client second(options_.path);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int highest = ::dup(0);
  ::close(highest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(highest);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  bool has_waited = Until([&] { return server_->times_out_of_fds() > 0; });
  std::size_t turns = 0;
  while (turns < 1000 && (loop_.restart(), loop_.poll_one() > 0)) ++turns;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(has_waited);
  EXPECT_LT(turns, 10u) << "it spins";
  first.Send(Get("/still"));
  EXPECT_TRUE(UntilAnswered(first, 1));
  second.Send(Get("/x"));
  EXPECT_TRUE(UntilAnswered(second, 1));
}

TEST_F(HttpServerTest, AStaleSocketIsReplacedAndALiveOneIsNot) {
  {
    int dead = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options_.path.c_str(), options_.path.size() + 1);
    ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(dead);
  }
  options_.mode = 0660;
  ServeEcho();
  struct stat made {};
  ASSERT_EQ(::lstat(options_.path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777u, 0660u);
  auto again = HttpServer::Listen(loop_, options_, [](const Peer&, HttpRequest&&, Reply) {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(again.error().message, "a daemon already serves on " + options_.path);
  server_.reset();
  EXPECT_NE(::lstat(options_.path.c_str(), &made), 0) << "left behind";
}

TEST_F(HttpServerTest, AnUnusablePathIsNamed) {
  auto listen = [&](std::string path) {
    options_.path = std::move(path);
    return HttpServer::Listen(loop_, options_, {}).error().message;
  };
  std::string file = directory_ + "/file";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(listen(file), file + " exists and is not a socket; remove it");
  ::unlink(file.c_str());
  EXPECT_NE(listen("/tmp/" + std::string(200, 'x')).find("at most 107 are possible"), std::string::npos);
  EXPECT_NE(listen(directory_ + "/none/socket").find("No such file or directory"), std::string::npos);
}

TEST_F(HttpServerTest, StoppingTheServerCallsNoDisconnectHandler) {
  ServeByHand();
  Client client(options_.path);
  client.Send(Get("/wait") + Get("/other"));
  ASSERT_TRUE(UntilRequests(2));
  bool has_closed = false;
  replies_[0].OnClosed([&, other = std::exchange(replies_[1], Reply())] { has_closed = true; });
  server_.reset();
  EXPECT_FALSE(has_closed);
  EXPECT_FALSE(replies_[0].is_open());
  replies_[0].Answer(Text("nobody"));
  client.Read();
  EXPECT_TRUE(client.is_ended);
}

}  // namespace http_server_test
}  // namespace divvy
