#include "platform/net/web_post.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "platform/net/tcp.h"
#include "platform/net/tls.h"
#include "platform/os/clock.h"
#include "platform/os/unique_fd.h"
#include "platform/users/signature.h"

namespace divvy {
namespace web_post_test {

bool IsPublic(const std::string& text) {
  sockaddr_storage storage{};
  if (text.find(':') == std::string::npos) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, text.c_str(), &four.sin_addr), 1) << text;
    std::memcpy(&storage, &four, sizeof four);
  } else {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr), 1) << text;
    std::memcpy(&storage, &six, sizeof six);
  }
  return IsPublicAddress(reinterpret_cast<const sockaddr&>(storage));
}

TEST(PublicAddress, PublicAndPrivateAddressesAreDistinguished) {
  for (const char* text : {"8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "100.63.0.1", "100.128.0.1",
                           "192.167.1.1", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8"})
    EXPECT_TRUE(IsPublic(text)) << text;
  for (const char* text : {"127.0.0.1",
                           "127.255.1.2",
                           "0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.3.4",
                           "169.254.169.254",
                           "100.64.0.1",
                           "224.0.0.1",
                           "255.255.255.255",
                           "192.0.2.1",
                           "198.18.0.1",
                           "203.0.113.9",
                           "::1",
                           "::",
                           "fe80::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::127.0.0.1",
                           "64:ff9b::10.0.0.1",
                           "2002:7f00:1::",
                           "2002:0a00:0001::1",
                           "2001::1",
                           "2001:db8::1"})
    EXPECT_FALSE(IsPublic(text)) << text;
}

TEST(WebUrl, IsSplitIntoItsParts) {
  const WebUrl url = ParseWebUrl("https://ada:pw@hooks.example.org:8443/a/b?c=d#e").value();
  EXPECT_TRUE(url.is_secure);
  EXPECT_EQ(url.host, "hooks.example.org");
  EXPECT_EQ(url.port, "8443");
  EXPECT_EQ(url.target, "/a/b?c=d");
  EXPECT_EQ(url.credentials, "ada:pw");
  EXPECT_EQ(ParseWebUrl("http://h").value().port, "80");
  EXPECT_EQ(ParseWebUrl("http://h?x").value().target, "/?x");
  EXPECT_EQ(ParseWebUrl("http://[fd00::7]:81/").value().host, "fd00::7");
  EXPECT_EQ(ParseWebUrl("http://evil@127.0.0.1/").value().host, "127.0.0.1");
  for (const char* bad : {"ftp://h", "http://", "http://h:0/", "http://h:x", "http://h:70000/", "http://[::1",
                          "http://a b", "http://h/\n", "https:///x"})
    EXPECT_FALSE(ParseWebUrl(bad)) << bad;
}

/// Answers one request with `answer` and keeps the request.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer)
      : listener_(ListenTcp("127.0.0.1", 0).value()), port_(PortOf(listener_.get())) {
    // Makes the listener blocking, because it has a thread of its own.
    ::fcntl(listener_.get(), F_SETFL, 0);
    thread_ = std::thread([this, answer = std::move(answer)] {
      const Descriptor caller(::accept(listener_.get(), nullptr, nullptr));
      std::array<char, 4096> room{};
      while (asked_.find("\r\n\r\nbody") == std::string::npos) {
        const ssize_t got = ::recv(caller.get(), room.data(), room.size(), 0);
        if (got <= 0) break;
        asked_.append(room.data(), static_cast<std::size_t>(got));
      }
      static_cast<void>(!::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
    });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
  }
  Result<WebAnswer> Ask(bool may_go_inside = true, const std::string& scheme = "http") {
    WebPost post;
    post.url = ParseWebUrl(scheme + "://localhost:" + std::to_string(port_) + "/hook?a=b").value();
    post.headers = {{"webhook-id", "ntc_1"}};
    post.body = "body";
    post.may_go_inside = may_go_inside;
    post.time_limit = std::chrono::seconds(20);
    return Post(post);
  }
  std::string asked() {
    thread_.join();
    return asked_;
  }

 private:
  Descriptor listener_;
  std::uint16_t port_;
  std::string asked_;
  std::thread thread_;
};

TEST(WebPost, SendsARequestAndReadsTheAnswer) {
  OneAnswer server("HTTP/1.1 429 Too Many Requests\r\nretry-after: 17\r\n\r\nslow down");
  const auto answer = server.Ask();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->status_line, "429 Too Many Requests");
  EXPECT_EQ(answer->retry_after, std::chrono::seconds(17));
  const std::string asked = server.asked();
  EXPECT_TRUE(asked.starts_with("POST /hook?a=b HTTP/1.1\r\nHost: localhost:")) << asked;
  EXPECT_NE(asked.find("\r\nwebhook-id: ntc_1\r\n"), std::string::npos) << asked;
  EXPECT_NE(asked.find("\r\nContent-Length: 4\r\n"), std::string::npos) << asked;
}

TEST(WebPost, AnAnswerThatIsNotHttpIsAnError) {
  OneAnswer server("SSH-2.0-OpenSSH\r\n\r\n");
  const auto answer = server.Ask();
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("not send an HTTP response"), std::string::npos);
}

TEST(WebPost, InternalAddressesNeedPermission) {
  const Descriptor listener(ListenTcp("127.0.0.1", 0).value());
  WebPost post;
  post.url = ParseWebUrl("http://localhost:" + std::to_string(PortOf(listener.get())) + "/").value();
  post.may_go_inside = false;
  const auto answer = Post(post);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kPermissionDenied) << answer.error().message;
  EXPECT_LT(::accept(listener.get(), nullptr, nullptr), 0) << "nobody even connected";
}

/// A server with its own certificate, for one handshake.
class OneTlsServer {
 public:
  OneTlsServer() : listener_(ListenTcp("127.0.0.1", 0).value()) {
    ::fcntl(listener_.get(), F_SETFL, 0);
    thread_ = std::thread([this] {
      const Descriptor caller(::accept(listener_.get(), nullptr, nullptr));
      const TlsContext context = TlsContext::Server(identity_).value();
      TlsChannel channel = context.Begin(caller.get()).value();
      std::array<char, 4096> room{};
      if (channel.Read(room).io != TlsChannel::Io::kDone) return;
      channel.Write("HTTP/1.1 200 OK\r\n\r\n");
      channel.Close();
    });
  }
  ~OneTlsServer() { thread_.join(); }
  std::string pem() const { return identity_.pem; }
  Result<WebAnswer> Ask(const std::string& host, const std::string& ca_file) const {
    WebPost post;
    post.url = ParseWebUrl("https://" + host + ":" + std::to_string(PortOf(listener_.get())) + "/").value();
    post.body = "body";
    post.ca_file = ca_file;
    post.time_limit = std::chrono::seconds(20);
    return Post(post);
  }

 private:
  TlsIdentity identity_ = MakeTlsIdentity("localhost", RealClock().Now()).value();
  Descriptor listener_;
  std::thread thread_;
};

TEST(WebPost, TrustsOnlyCertificatesOfKnownAuthorities) {
  const OneTlsServer server;
  const auto answer = server.Ask("localhost", "");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument) << answer.error().message;
  EXPECT_NE(answer.error().message.find("localhost has no trusted certificate"), std::string::npos)
      << answer.error().message;
}

TEST(WebPost, APrivateAuthorityMayBeConfiguredForItsHostOnly) {
  std::string path = testing::TempDir() + "divvy-authority-XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  {
    const OneTlsServer server;
    const std::string pem = server.pem();
    ASSERT_EQ(::write(fd, pem.data(), pem.size()), static_cast<ssize_t>(pem.size()));
    const auto answer = server.Ask("localhost", path);
    EXPECT_TRUE(answer) << answer.error().message;
  }
  {
    const OneTlsServer other;
    ASSERT_EQ(::ftruncate(fd, 0), 0);
    ASSERT_EQ(::pwrite(fd, other.pem().data(), other.pem().size(), 0), static_cast<ssize_t>(other.pem().size()));
    const auto answer = other.Ask("127.0.0.1", path);
    ASSERT_FALSE(answer) << "the certificate is of another name";
    EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument) << answer.error().message;
  }
  ::close(fd);
  ::unlink(path.c_str());
}

// RFC 4231, test case 2; and the example of the Standard Webhooks specification.
TEST(Signature, MatchesThePublishedExamples) {
  EXPECT_EQ(HmacSha256("Jefe", "what do ya want for nothing?"), "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
  EXPECT_EQ(SignRequest("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
                        R"({"test": 2432232314})")
                .value(),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  EXPECT_FALSE(KeyOfSecret("whsec_not base64"));
  EXPECT_EQ(KeyOfSecret("plain words").value(), "plain words");
  const std::string made = MakeSecret().value();
  EXPECT_EQ(KeyOfSecret(made).value().size(), 32U);
  EXPECT_NE(made, MakeSecret().value());
}

}  // namespace web_post_test
}  // namespace divvy
