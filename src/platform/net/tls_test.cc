#include "platform/net/tls.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace divvy {
namespace tls_test {

using Io = TlsChannel::Io;

const Time kNow = Time(std::chrono::hours(24 * 365 * 56));

/// Both ends of a connection in one thread; each makes progress in turn.
class Ends {
 public:
  Ends(const TlsContext& server, const TlsContext& client) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds_.data()), 0);
    server_.emplace(*server.Begin(fds_[0]));
    client_.emplace(*client.Begin(fds_[1]));
  }
  ~Ends() {
    for (const int fd : fds_) {
      if (fd >= 0) ::close(fd);
    }
  }

  TlsChannel& server() { return *server_; }
  TlsChannel& client() { return *client_; }
  void CutClient() { ::close(std::exchange(fds_[1], -1)); }

  /// Sends `text` from one end to the other until it has arrived or either end fails.
  std::string Carry(TlsChannel& from, TlsChannel& to, std::string_view text) {
    std::string come;
    std::array<char, 4096> room{};
    for (int turn = 0; turn < 10'000 && come.size() < whole_.size() + text.size(); ++turn) {
      if (!text.empty()) {
        const auto put = from.Write(text);
        if (put.io == Io::kFailed) return "failed to send: " + from.error();
        if (put.io == Io::kDone) {
          whole_.append(text.substr(0, put.bytes));
          text.remove_prefix(put.bytes);
        }
      } else if (from.Read({}).io == Io::kFailed) {
        return "failed to send: " + from.error();
      }
      const auto got = to.Read(room);
      if (got.io == Io::kFailed) return "failed to receive: " + to.error();
      if (got.io == Io::kDone) come.append(room.data(), got.bytes);
    }
    whole_.clear();
    return come;
  }

 private:
  std::array<int, 2> fds_{-1, -1};
  std::optional<TlsChannel> server_, client_;
  std::string whole_;
};

TlsIdentity Identity(const std::string& name = "here") {
  auto made = MakeTlsIdentity(name, Time(std::chrono::seconds(::time(nullptr))));
  EXPECT_TRUE(made) << made.error().message;
  return made ? *made : TlsIdentity();
}

TEST(Tls, SendsDataBothWays) {
  const TlsIdentity identity = Identity();
  Ends ends(*TlsContext::Server(identity), *TlsContext::Client(identity.fingerprint));
  EXPECT_EQ(ends.Carry(ends.client(), ends.server(), "hello"), "hello");
  const std::string large(300'000, 'x');
  EXPECT_EQ(ends.Carry(ends.server(), ends.client(), large), large);
  EXPECT_TRUE(ends.server().is_established());
  EXPECT_EQ(ends.client().peer_fingerprint(), identity.fingerprint);
  EXPECT_EQ(ends.server().peer_fingerprint(), "") << "the client showed none";
}

TEST(Tls, TheServerIdentifiesAClientByItsCertificate) {
  const TlsIdentity identity = Identity(), agent = Identity("agent");
  Ends ends(*TlsContext::Server(identity), *TlsContext::Client(identity.fingerprint, agent));
  EXPECT_EQ(ends.Carry(ends.client(), ends.server(), "hello"), "hello");
  EXPECT_EQ(ends.server().peer_fingerprint(), agent.fingerprint);
}

TEST(Tls, SendsNothingToAnUnknownPeer) {
  const TlsIdentity identity = Identity(), other = Identity();
  Ends ends(*TlsContext::Server(identity), *TlsContext::Client(other.fingerprint));
  EXPECT_EQ(ends.Carry(ends.client(), ends.server(), "secret"),
            "failed to send: the server's certificate is not the one of the token; "
            "if the daemon there was reinstalled, run divvy login with a new token");
  EXPECT_FALSE(ends.client().is_established());
}

TEST(TlsKey, PeersWithTheKeyCommunicate) {
  const std::string key(64, '7');
  Ends ends(*TlsContext::OfKey(key, true), *TlsContext::OfKey(key, false));
  EXPECT_EQ(ends.Carry(ends.client(), ends.server(), "hello"), "hello");
  const std::string large(300'000, 'x');
  EXPECT_EQ(ends.Carry(ends.server(), ends.client(), large), large);
}

TEST(TlsKey, OtherPeersAreRefused) {
  const std::string key(64, '7'), other = std::string(63, '7') + "8";
  const auto starts = [](const std::string& text) { return text.substr(0, 9); };
  Ends two_keys(*TlsContext::OfKey(key, true), *TlsContext::OfKey(other, false));
  EXPECT_EQ(starts(two_keys.Carry(two_keys.client(), two_keys.server(), "secret")), "failed to");
  EXPECT_FALSE(two_keys.server().is_established());
  // A peer with a certificate but without the key is rejected on either end.
  const TlsIdentity identity = Identity();
  Ends client_alone(*TlsContext::OfKey(key, true), *TlsContext::Client(identity.fingerprint, identity));
  EXPECT_EQ(starts(client_alone.Carry(client_alone.client(), client_alone.server(), "secret")), "failed to");
  EXPECT_FALSE(client_alone.server().is_established());
  Ends server_alone(*TlsContext::Server(identity), *TlsContext::OfKey(key, false));
  EXPECT_EQ(starts(server_alone.Carry(server_alone.client(), server_alone.server(), "secret")), "failed to");
  EXPECT_FALSE(server_alone.client().is_established());
  for (const std::string& bad : {std::string(62, '7'), std::string(66, '7'), std::string(64, 'x'), std::string()})
    EXPECT_FALSE(TlsContext::OfKey(bad, true)) << bad;
}

TEST(Tls, DataThatIsNotTlsFailsAtOnce) {
  const TlsIdentity identity = Identity();
  const TlsContext context = *TlsContext::Server(identity);
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0);
  TlsChannel channel = *context.Begin(fds[0]);
  std::array<char, 100> room{};
  EXPECT_EQ(channel.Read(room).io, Io::kNeedsRead);
  const std::string_view plain = "GET /v1/status HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::write(fds[1], plain.data(), plain.size()), static_cast<ssize_t>(plain.size()));
  EXPECT_EQ(channel.Read(room).io, Io::kFailed);
  EXPECT_NE(channel.error(), "");
  EXPECT_EQ(channel.Read(room).io, Io::kFailed) << "and so it stays";
  ::close(fds[0]);
  ::close(fds[1]);
}

TEST(Tls, ACleanCloseDiffersFromADisconnect) {
  const TlsIdentity identity = Identity();
  std::array<char, 100> room{};
  {
    Ends ends(*TlsContext::Server(identity), *TlsContext::Client(identity.fingerprint));
    ASSERT_EQ(ends.Carry(ends.client(), ends.server(), "hello"), "hello");
    ends.client().Close();
    EXPECT_EQ(ends.server().Read(room).io, Io::kEnded);
  }
  Ends ends(*TlsContext::Server(identity), *TlsContext::Client(identity.fingerprint));
  ASSERT_EQ(ends.Carry(ends.client(), ends.server(), "hello"), "hello");
  ends.CutClient();
  EXPECT_EQ(ends.server().Read(room).io, Io::kFailed);
  EXPECT_EQ(ends.server().Write("too late").io, Io::kFailed) << "and no signal ends the process";
}

class TlsFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-tls-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = name + "/identity.pem";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string ErrorOf() const {
    const auto found = LoadTlsIdentity(path_, "here", kNow);
    return found ? "" : found.error().message;
  }
  std::string folder_, path_;
};

TEST_F(TlsFile, KeepsWhatItCreated) {
  const auto made = LoadTlsIdentity(path_, "here", kNow);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->fingerprint.size(), 64u);
  EXPECT_EQ(LoadTlsIdentity(path_, "here", kNow)->fingerprint, made->fingerprint);
  struct stat about {};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(TlsFile, ItsCertificateNamesTheServerForOtherPrograms) {
  ASSERT_TRUE(LoadTlsIdentity(path_, "here", kNow, {"gpu1", "localhost"}));
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> file(BIO_new_file(path_.c_str(), "r"), BIO_free_all);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  ASSERT_NE(certificate, nullptr);
  for (const std::string name : {"gpu1", "localhost"})
    EXPECT_EQ(X509_check_host(certificate.get(), name.data(), name.size(), 0, nullptr), 1) << name;
  EXPECT_EQ(X509_check_host(certificate.get(), "here", 4, 0, nullptr), 0) << "the subject does not count then";
}

TEST_F(TlsFile, AKeyThatOthersMayReadIsRefused) {
  ASSERT_EQ(ErrorOf(), "");
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(ErrorOf(), "others may read the key in " + path_ + "; chmod 600 it, or remove it for a new one");
}

TEST_F(TlsFile, AKeyWithAnotherCertificateIsRefused) {
  ASSERT_EQ(ErrorOf(), "");
  const std::string key = LoadTlsIdentity(path_, "here", kNow)->pem, other = Identity().pem;
  std::ofstream(path_) << key.substr(0, key.find("-----BEGIN CERT")) << other.substr(other.find("-----BEGIN CERT"));
  EXPECT_NE(ErrorOf().find(path_ + " does not hold a key with its certificate"), std::string::npos) << ErrorOf();
  std::ofstream(path_) << "";
  EXPECT_NE(ErrorOf().find(path_ + " does not hold a key with its certificate"), std::string::npos) << ErrorOf();
}

TEST(Secrets, AreHashedAndComparedAsAWhole) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(IsSameSecret("abc", "abc"));
  EXPECT_FALSE(IsSameSecret("abc", "abd"));
  EXPECT_FALSE(IsSameSecret("abc", "abcd"));
  EXPECT_EQ(RandomHex(16)->size(), 32u);
  EXPECT_NE(*RandomHex(16), *RandomHex(16));
}

}  // namespace tls_test
}  // namespace divvy
