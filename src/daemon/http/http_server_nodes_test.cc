// Connections of jobs on agents' nodes: counted separately, per node and per user.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "daemon/http/http_server.h"

namespace divvy {
namespace http_server_nodes_test {

class NodesListener : public testing::Test {
 protected:
  void Serve(HttpServerOptions options) {
    folder_ = testing::TempDir() + "divvy-nodes-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    options.path = folder_ + "/socket";
    auto server = HttpServer::Listen(loop_, options, [](const Peer&, HttpRequest&& request, Reply reply) {
      HttpResponse response;
      response.body = request.path;
      reply.Answer(response);
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  /// Returns the other end of a connection that the server has adopted.
  Descriptor Give(const std::string& node, std::int64_t uid) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Peer peer;
    peer.node = node;
    peer.uid = uid;
    server_->Adopt(Descriptor(ends[1]), peer);
    return Descriptor(ends[0]);
  }
  template <typename Condition>
  bool TurnUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.restart();
      loop_.run_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  /// Returns the server's answer to a request, or what it sent before.
  std::string Ask(const Descriptor& client) {
    static_cast<void>(!::send(client.get(), "GET /yes HTTP/1.1\r\n\r\n", 21, MSG_NOSIGNAL));
    char piece[4096];
    ssize_t got = 0;
    EXPECT_TRUE(TurnUntil([&] { return (got = ::recv(client.get(), piece, sizeof piece, MSG_DONTWAIT)) > 0; }));
    return {piece, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  boost::asio::io_context loop_;
  std::string folder_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(NodesListener, LimitsConnectionsPerNodeAndUserWithoutAffectingOthers) {
  HttpServerOptions options;
  options.connections = 1;
  options.remote_connections = 0;
  options.node_connections = 4;
  options.connections_of_a_node = 2;
  options.connections_of_a_user = 3;
  Serve(options);
  Descriptor first = Give("n1", 1000);
  const Descriptor second = Give("n1", 1001), elsewhere = Give("n2", 1000);
  EXPECT_TRUE(Ask(first).ends_with("/yes"));
  EXPECT_TRUE(Ask(second).ends_with("/yes"));
  EXPECT_TRUE(Ask(elsewhere).ends_with("/yes"));
  EXPECT_NE(Ask(Give("n1", 1002)).find("jobs on node n1 have 2 connections"), std::string::npos);
  const Descriptor third = Give("n2", 1000);
  EXPECT_TRUE(Ask(third).ends_with("/yes"));
  EXPECT_NE(Ask(Give("n3", 1000)).find("your jobs on other machines have 3 connections"), std::string::npos);
  EXPECT_NE(Ask(Give("n3", 1001)).find("jobs on other machines have 4 connections"), std::string::npos);
  EXPECT_EQ(server_->connections(), 4u);
  // A closed connection makes room.
  first.Reset();
  ASSERT_TRUE(TurnUntil([&] { return server_->connections() == 3; }));
  EXPECT_TRUE(Ask(Give("n1", 1000)).ends_with("/yes"));
}

TEST_F(NodesListener, AClientThatSendsNoRequestIsDisconnected) {
  HttpServerOptions options;
  options.request_time = std::chrono::seconds(1);
  Serve(options);
  const Descriptor asked = Give("n1", 1000);
  EXPECT_TRUE(Ask(asked).ends_with("/yes"));
  const Descriptor silent = Give("n1", 1000);
  EXPECT_TRUE(TurnUntil([&] { return server_->connections() == 1; }));
  EXPECT_TRUE(Ask(asked).ends_with("/yes"));
}

TEST_F(NodesListener, LimitsTheRequestBytesOfOneClientWithoutAffectingOthers) {
  HttpServerOptions options;
  options.held_bytes_of_a_user = 1000;
  Serve(options);
  const std::string unfinished = "POST /up HTTP/1.1\r\nContent-Length: 2000\r\n\r\n" + std::string(600, 'x');
  const auto send = [&](const Descriptor& client) {
    static_cast<void>(!::send(client.get(), unfinished.data(), unfinished.size(), MSG_NOSIGNAL));
    char piece[4096];
    ssize_t got = 0;
    EXPECT_TRUE(TurnUntil([&] { return (got = ::recv(client.get(), piece, sizeof piece, MSG_DONTWAIT)) > 0; }));
    return std::string(piece, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  };
  Descriptor first = Give("n1", 1000);
  static_cast<void>(!::send(first.get(), unfinished.data(), unfinished.size(), MSG_NOSIGNAL));
  loop_.restart();
  loop_.run_for(std::chrono::milliseconds(20));
  EXPECT_NE(send(Give("n1", 1000)).find("503"), std::string::npos);
  EXPECT_TRUE(Ask(Give("n1", 1001)).ends_with("/yes"));
  // The place of a closed connection is available again.
  first.Reset();
  ASSERT_TRUE(TurnUntil([&] { return server_->connections() == 0; }));
  EXPECT_TRUE(Ask(Give("n1", 1000)).ends_with("/yes"));
}

}  // namespace http_server_nodes_test
}  // namespace divvy
