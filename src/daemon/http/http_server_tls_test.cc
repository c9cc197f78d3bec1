// Remote access: the same server over TLS.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>

#include "daemon/http/http_server.h"
#include "platform/net/tcp.h"
#include "wire/http/http.h"

namespace divvy {
namespace http_server_tls_test {

using Io = TlsChannel::Io;
using namespace std::chrono_literals;

class TlsListener : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-door-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    identity_ = *MakeTlsIdentity("here", Time(std::chrono::seconds(::time(nullptr))));
  }
  void TearDown() override {
    clients_.clear();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Serve(HttpServerOptions options = {}) {
    options.path = folder_ + "/socket";
    auto server = HttpServer::Listen(loop_, options, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
      peers_.push_back(peer);
      if (request.path == "/other") return TakeOver(std::move(reply));
      HttpResponse response;
      response.body = request.body.empty() ? request.path : std::to_string(request.body.size());
      if (request.path == "/large") response.body.assign(3'000'000, 'x');
      response.ends_connection = request.path == "/away";
      reply.Answer(response);
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    const Status listens = server_->ListenTls({"127.0.0.1", 0}, *TlsContext::Server(identity_));
    ASSERT_TRUE(listens) << listens.error().message;
    ASSERT_NE(server_->tls_port(), 0);
  }

  /// A client on the same thread: the loop runs while it waits.
  class Client {
   public:
    Client(TlsListener& door, const std::string& fingerprint, const TlsIdentity& own = {}) : door_(door) {
      fd_ = *DialTcp({"127.0.0.1", door.server_->tls_port()}, 5s);
      ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
      channel_.emplace(*TlsContext::Client(fingerprint, own)->Begin(fd_));
    }
    ~Client() { ::close(fd_); }
    void Send(std::string text) {
      const bool is_sent = door_.TurnUntil([&] {
        const auto put = channel_->Write(text);
        if (put.io == Io::kFailed) return true;
        if (put.io == Io::kDone) text.erase(0, put.bytes);
        return text.empty();
      });
      EXPECT_TRUE(is_sent);
    }
    /// Returns the bodies of `count` answers, or of those that arrived before the connection ended.
    std::vector<std::string> Receive(std::size_t count) {
      std::vector<std::string> bodies;
      std::array<char, 65536> room{};
      EXPECT_TRUE(door_.TurnUntil([&] {
        const auto got = channel_->Read(room);
        if (got.io == Io::kDone) reader_.Feed({room.data(), got.bytes});
        while (auto response = reader_.Next()) bodies.push_back(response->body);
        is_over_ = got.io == Io::kFailed || got.io == Io::kEnded;
        return is_over_ || bodies.size() >= count;
      }));
      return bodies;
    }
    /// Returns all received bytes once they end with `text`.
    std::string ReceiveUntil(std::string_view text) {
      std::string all;
      std::array<char, 65536> room{};
      EXPECT_TRUE(door_.TurnUntil([&] {
        const auto got = channel_->Read(room);
        if (got.io == Io::kDone) all.append(room.data(), got.bytes);
        return all.ends_with(text);
      })) << all;
      return all;
    }
    bool is_over() const { return is_over_; }
    TlsChannel& channel() { return *channel_; }
    int fd() const { return fd_; }

   private:
    TlsListener& door_;
    int fd_ = -1;
    std::optional<TlsChannel> channel_;
    HttpResponseReader reader_;
    bool is_over_ = false;
  };
  Client& Connect() { return *clients_.emplace_back(std::make_unique<Client>(*this, identity_.fingerprint)); }

  template <typename Condition>
  bool TurnUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.restart();
      loop_.run_for(1ms);
    }
    return true;
  }

  static std::string Get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: d\r\n\r\n"; }

  /// Echoes received bytes until they are "end" or "cut".
  void TakeOver(Reply reply) {
    auto stream = reply.TakeOver("echo/1");
    if (!stream) return reply.Answer({.status = 400});
    ByteStream* raw = stream.get();
    streams_.push_back(std::move(stream));
    ByteStream::Listener listener;
    listener.on_bytes = [this, raw](std::string_view bytes) {
      heard_ += bytes;
      if (bytes == "cut") return streams_.clear();
      raw->Send(bytes);
      if (bytes == "end") raw->Finish();
    };
    listener.on_drained = [this] { ++drained_; };
    listener.on_closed = [this] {
      ++closed_;
      streams_.clear();
    };
    raw->Listen(std::move(listener));
  }

  boost::asio::io_context loop_;
  std::string folder_;
  std::vector<std::unique_ptr<ByteStream>> streams_;
  std::string heard_;
  int drained_ = 0;
  int closed_ = 0;
  TlsIdentity identity_;
  std::vector<Peer> peers_;
  std::unique_ptr<HttpServer> server_;
  std::deque<std::unique_ptr<Client>> clients_;
};

TEST_F(TlsListener, AnswersAndKnowsThePeersAddress) {
  Serve();
  Client& client = Connect();
  client.Send(Get("/a") + Get("/b"));
  EXPECT_EQ(client.Receive(2), (std::vector<std::string>{"/a", "/b"}));
  ASSERT_EQ(peers_.size(), 2u);
  EXPECT_EQ(peers_[0].address, "127.0.0.1");
  EXPECT_TRUE(peers_[0].is_remote());
  EXPECT_EQ(peers_[0].uid, -1) << "nobody's word but the token's";
}

TEST_F(TlsListener, LargeTextsAreSentBothWaysAtOnce) {
  Serve();
  Client& client = Connect();
  const std::string body(1'000'000, 'y');
  client.Send("POST /up HTTP/1.1\r\nHost: d\r\nContent-Length: 1000000\r\n\r\n" + body + Get("/large"));
  const auto bodies = client.Receive(2);
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0], "1000000");
  EXPECT_EQ(bodies[1].size(), 3'000'000u);
}

TEST_F(TlsListener, AnUnfinishedRequestIsCutOff) {
  HttpServerOptions options;
  options.request_time = 1s;  // Enough for a handshake on a busy machine.
  Serve(options);
  Client& silent = Connect();
  EXPECT_TRUE(silent.Receive(1).empty());
  EXPECT_TRUE(silent.is_over()) << "not even a handshake";
  Client& slow = Connect();
  slow.Send(Get("/a") + "GET /b HTTP/1.1\r\nHo");
  EXPECT_EQ(slow.Receive(2), (std::vector<std::string>{"/a"}));
  EXPECT_TRUE(slow.is_over());
  EXPECT_TRUE(TurnUntil([&] { return server_->connections() == 0; }));
}

TEST_F(TlsListener, AConnectionMayIdleBetweenRequests) {
  HttpServerOptions options;
  options.request_time = 1s;  // Enough for a handshake on a busy machine.
  Serve(options);
  Client& quiet = Connect();
  quiet.Send(Get("/a"));
  EXPECT_EQ(quiet.Receive(1).size(), 1u);
  Client& silent = Connect();
  EXPECT_TRUE(silent.Receive(1).empty());  // A whole sweep has passed when this connection is closed.
  quiet.Send(Get("/b"));
  EXPECT_EQ(quiet.Receive(1), (std::vector<std::string>{"/b"}));
}

TEST_F(TlsListener, AClientThatReadsNoAnswerIsCutOffAndDelaysNoOther) {
  HttpServerOptions options;
  options.request_time = 1s;  // Enough for a handshake on a busy machine.
  Serve(options);
  Client& glutton = Connect();
  std::string many;
  for (int i = 0; i < 10; ++i) many += Get("/large");
  glutton.Send(many);
  ASSERT_TRUE(TurnUntil([&] { return !peers_.empty(); }));
  // The start of a record: there are bytes to read, but no complete record.
  ASSERT_EQ(::write(glutton.fd(), "\x17\x03\x03", 3), 3);
  Client& other = Connect();
  other.Send(Get("/b"));
  EXPECT_EQ(other.Receive(1), (std::vector<std::string>{"/b"}));
  EXPECT_TRUE(TurnUntil([&] { return server_->connections() == 1; }));
}

TEST_F(TlsListener, AnAnswerMayCloseTheConnection) {
  Serve();
  Client& stranger = Connect();
  stranger.Send(Get("/away") + Get("/b"));
  EXPECT_EQ(stranger.Receive(2), (std::vector<std::string>{"/away"}));
  EXPECT_TRUE(stranger.is_over());
  EXPECT_EQ(peers_.size(), 1u) << "what came behind it is not looked at";
}

TEST_F(TlsListener, ABodyAboveTheLimitIsRefused) {
  HttpServerOptions options;
  options.remote_limits.body_bytes = 1000;
  Serve(options);
  Client& client = Connect();
  client.Send("POST /up HTTP/1.1\r\nHost: d\r\nContent-Length: 1001\r\n\r\n");
  const auto bodies = client.Receive(1);
  ASSERT_EQ(bodies.size(), 1u);
  EXPECT_NE(bodies[0].find("1000"), std::string::npos) << bodies[0];
  EXPECT_TRUE(peers_.empty());
}

TEST_F(TlsListener, AtTheConnectionLimitASilentConnectionIsDroppedBeforeAnIdleOne) {
  HttpServerOptions options;
  options.remote_connections = 2;
  Serve(options);
  Client& idle = Connect();
  idle.Send(Get("/a"));
  EXPECT_EQ(idle.Receive(1).size(), 1u);
  Client& silent = Connect();
  ASSERT_TRUE(TurnUntil([&] { return server_->connections() == 2; }));
  Client& third = Connect();
  third.Send(Get("/c"));
  EXPECT_EQ(third.Receive(1), (std::vector<std::string>{"/c"}));
  EXPECT_TRUE(silent.Receive(1).empty());
  EXPECT_TRUE(silent.is_over());
  idle.Send(Get("/b"));
  EXPECT_EQ(idle.Receive(1), (std::vector<std::string>{"/b"}));
  // Next is the connection that has been idle longest.
  Client& fourth = Connect();
  fourth.Send(Get("/d"));
  EXPECT_EQ(fourth.Receive(1), (std::vector<std::string>{"/d"}));
  EXPECT_TRUE(idle.Receive(1).empty());
  EXPECT_TRUE(idle.is_over());
}

TEST_F(TlsListener, OneAddressCannotTakeAllConnections) {
  HttpServerOptions options;
  options.connections_of_an_address = 1;
  Serve(options);
  {
    Client first(*this, identity_.fingerprint);
    first.Send(Get("/a"));
    EXPECT_EQ(first.Receive(1).size(), 1u);
    Client& second = Connect();
    second.Send(Get("/c"));
    EXPECT_EQ(second.Receive(1).size(), 1u);
    EXPECT_TRUE(first.Receive(1).empty());
    EXPECT_TRUE(first.is_over());
    clients_.clear();
  }
  ASSERT_TRUE(TurnUntil([&] { return server_->connections() == 0; }));
  Client& third = Connect();
  third.Send(Get("/b"));
  EXPECT_EQ(third.Receive(1), (std::vector<std::string>{"/b"}));
}

TEST_F(TlsListener, PlainTextIsCutOff) {
  Serve();
  const int fd = *DialTcp({"127.0.0.1", server_->tls_port()}, 5s);
  const std::string text = Get("/a");
  ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(TurnUntil([&] {
    char room[100];
    return ::recv(fd, room, sizeof room, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }));
  EXPECT_TRUE(peers_.empty());
  ::close(fd);
}

TEST_F(TlsListener, AnUnusableAddressIsAnError) {
  Serve();
  const Status taken = server_->ListenTls({"127.0.0.1", server_->tls_port()}, *TlsContext::Server(identity_));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(taken.error().message.find("listening at 127.0.0.1:"), std::string::npos) << taken.error().message;
}

constexpr std::string_view kUpgrade =
    "GET /other HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n";

TEST_F(TlsListener, AnUpgradedConnectionCarriesAnyBytesBothWays) {
  Serve();
  Client& client = Connect();
  client.Send(std::string(kUpgrade));
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"),
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n");
  client.Send("GET / HTTP/1.1\r\n\r\n");  // This is no longer a request.
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(TurnUntil([this] { return drained_ >= 1; }));
  client.Send("end");
  EXPECT_EQ(client.ReceiveUntil("end"), "end");
  EXPECT_TRUE(TurnUntil([this] { return closed_ == 1; }));
}

TEST_F(TlsListener, DestroyingAStreamInItsOwnCallbackClosesTheConnection) {
  Serve();
  Client& client = Connect();
  client.Send(std::string(kUpgrade));
  client.ReceiveUntil("\r\n\r\n");
  client.Send("cut");
  EXPECT_EQ(client.Receive(1).size(), 0u);
  EXPECT_TRUE(client.is_over());
  EXPECT_EQ(heard_, "cut");
  EXPECT_EQ(closed_, 0);
  EXPECT_TRUE(TurnUntil([this] { return server_->connections() == 0; }));
}

TEST_F(TlsListener, AnEarlyMessageOfTheOtherProtocolGetsAnHttpError) {
  Serve();
  Client& client = Connect();
  client.Send(std::string(kUpgrade) + "too early");
  EXPECT_TRUE(TurnUntil([this] { return !peers_.empty(); }));
  EXPECT_EQ(client.Receive(1).size(), 1u);
  EXPECT_TRUE(streams_.empty());
}

TEST_F(TlsListener, AnUpgradedConnectionFreesItsPlaceAndMayBeSilent) {
  HttpServerOptions options;
  options.connections_of_an_address = 1;
  options.request_time = 1s;  // Enough for a handshake on a busy machine.
  Serve(options);
  Client& first = Connect();
  first.Send(std::string(kUpgrade));
  first.ReceiveUntil("\r\n\r\n");
  Client& second = Connect();
  second.Send("GET / HT");
  EXPECT_EQ(second.Receive(1).size(), 0u);  // The connection is accepted, but its request takes too long.
  EXPECT_TRUE(second.is_over());
  first.Send("still here");
  EXPECT_EQ(first.ReceiveUntil("here"), "still here");
  EXPECT_EQ(peers_.front().fingerprint, "");
}

TEST_F(TlsListener, ThePeersCertificateIsIdentifiedByItsFingerprint) {
  Serve();
  const TlsIdentity agent = *MakeTlsIdentity("agent", Time(std::chrono::seconds(::time(nullptr))));
  clients_.emplace_back(std::make_unique<Client>(*this, identity_.fingerprint, agent))->Send(Get("/"));
  EXPECT_TRUE(TurnUntil([this] { return peers_.size() == 1; }));
  EXPECT_EQ(peers_.front().fingerprint, agent.fingerprint);
}

}  // namespace http_server_tls_test
}  // namespace divvy
