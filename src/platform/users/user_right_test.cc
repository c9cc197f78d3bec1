#include "platform/users/user_right.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "platform/os/unique_fd.h"
#include "platform/users/user_identity.h"

namespace divvy {
namespace {

class Rights : public testing::Test {
 protected:
  Rights() {
    std::string pattern = testing::TempDir() + "divvy-user-right-test.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Rights() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string KeyPath() const { return folder_ + "/key"; }
  sockaddr_un Address(const std::string& name) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::ranges::copy(folder_ + "/" + name, address.sun_path);
    return address;
  }
  Descriptor Bound(const std::string& name) const {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address(name);
    EXPECT_EQ(0, ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
    return socket;
  }
  void Connect(const Descriptor& socket, const std::string& name) const {
    const sockaddr_un address = Address(name);
    EXPECT_EQ(0, ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
  }

  std::string folder_;
};

TEST_F(Rights, AreValidForTheirUidAndGidOnly) {
  const auto issuer = RightIssuer::Open(KeyPath());
  ASSERT_TRUE(issuer) << issuer.error().message;
  const UserRight right = issuer->Issue(1000, 1001);
  EXPECT_FALSE(RightChecker(issuer->public_key()).IsGood(1000, 1001, UserRight{}));
  EXPECT_FALSE(RightChecker(issuer->public_key()).IsGood(1001, 1000, right));
  EXPECT_FALSE(RightChecker(issuer->public_key()).IsGood(0, 1001, right));
  UserRight changed = right;
  changed[17] ^= 1;
  RightChecker checker(issuer->public_key());
  EXPECT_FALSE(checker.IsGood(1000, 1001, changed));
  EXPECT_TRUE(checker.IsGood(1000, 1001, right));
  EXPECT_FALSE(RightChecker().IsGood(1000, 1001, right)) << "one without a key";
}

TEST_F(Rights, ARightByNameIsValidForTheLocalAccountOfThatName) {
  const auto controllers = RightIssuer::Open(KeyPath());
  const auto own = RightIssuer::Open(folder_ + "/own");
  ASSERT_TRUE(controllers && own);
  const std::int64_t uid = ::geteuid();
  const auto account = AccountNameOf(uid);
  if (!account) GTEST_SKIP() << "this user has no name";
  const UserRight right = controllers->IssueByName(account->name);
  RightChecker checker(own->public_key(), controllers->public_key());
  EXPECT_TRUE(checker.has_controllers_key());
  EXPECT_TRUE(checker.IsGoodByName(uid, account->gid, right));
  EXPECT_TRUE(checker.IsGoodByName(uid, account->gid, right)) << "as it was remembered";
  EXPECT_FALSE(checker.IsGoodByName(uid, account->gid, controllers->IssueByName("somebody else")));
  EXPECT_FALSE(checker.IsGoodByName(uid, account->gid + 1, right));
  EXPECT_FALSE(checker.IsGoodByName(uid + 1, account->gid, right));
  EXPECT_FALSE(checker.IsGoodByName(uid, account->gid, own->IssueByName(account->name))) << "of another key";
  EXPECT_FALSE(checker.IsGoodByName(uid, account->gid, controllers->Issue(uid, account->gid))) << "to numbers";
  EXPECT_FALSE(checker.IsGood(uid, account->gid, right)) << "it is by name";
  RightChecker alone(own->public_key());
  EXPECT_FALSE(alone.has_controllers_key());
  EXPECT_FALSE(alone.IsGoodByName(uid, account->gid, right));
}

TEST_F(Rights, StayValidWithTheStoredKey) {
  UserRight right = {};
  {
    const auto issuer = RightIssuer::Open(KeyPath());
    ASSERT_TRUE(issuer);
    right = issuer->Issue(1000, 1000);
  }
  auto again = RightIssuer::Open(KeyPath());
  ASSERT_TRUE(again) << again.error().message;
  const std::string key = again->public_key();
  EXPECT_TRUE(RightChecker(key).IsGood(1000, 1000, right));
  struct stat about = {};
  ASSERT_EQ(0, ::stat(KeyPath().c_str(), &about));
  EXPECT_EQ(0600U, about.st_mode & 07777U);

  again->Forget();
  EXPECT_EQ(UserRight{}, again->Issue(1000, 1000));
  EXPECT_EQ("", again->public_key());

  ASSERT_EQ(0, ::unlink(KeyPath().c_str()));
  const auto other = RightIssuer::Open(KeyPath());
  ASSERT_TRUE(other);
  EXPECT_FALSE(RightChecker(other->public_key()).IsGood(1000, 1000, right)) << "of another key";
}

TEST_F(Rights, AnInvalidKeyFileIsReported) {
  ASSERT_TRUE(RightIssuer::Open(KeyPath()));
  ASSERT_EQ(0, ::truncate(KeyPath().c_str(), 7));
  const auto issuer = RightIssuer::Open(KeyPath());
  ASSERT_FALSE(issuer);
  EXPECT_NE(std::string::npos, issuer.error().message.find("is not a signing key")) << issuer.error().message;
}

TEST_F(Rights, AreStoredAsText) {
  const auto issuer = RightIssuer::Open(KeyPath());
  ASSERT_TRUE(issuer);
  const UserRight right = issuer->Issue(7, 8);
  EXPECT_EQ(right, ReadRight(RightText(right)));
  for (const std::string& bad :
       {std::string(), std::string(128, 'g'), RightText(right) + "0", RightText(right).substr(1)})
    EXPECT_EQ(UserRight{}, ReadRight(bad)) << bad;
}

TEST_F(Rights, KeysAreStoredAsText) {
  const auto issuer = RightIssuer::Open(KeyPath());
  ASSERT_TRUE(issuer);
  EXPECT_EQ(64U, KeyText(issuer->public_key()).size());
  EXPECT_EQ(issuer->public_key(), ReadKey(KeyText(issuer->public_key()) + "\n"));
  for (const std::string& bad : {std::string(), std::string(64, 'g'), KeyText(issuer->public_key()) + "0"})
    EXPECT_EQ("", ReadKey(bad)) << bad;
}

TEST_F(Rights, TheCallerIsTheProcessThatConnected) {
  const Descriptor listener = Bound("listener");
  ASSERT_EQ(0, ::listen(listener.get(), 4));
  const Descriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connect(client, "listener");
  const Descriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const auto caller = CallerOf(accepted.get());
  ASSERT_TRUE(caller) << caller.error().message;
  EXPECT_EQ(static_cast<std::int64_t>(::geteuid()), caller->first);
  EXPECT_EQ(static_cast<std::int64_t>(::getegid()), caller->second);

  // At this end the kernel reports the listener's user.
  EXPECT_FALSE(CallerOf(client.get()));
  const Descriptor named = Bound("named");
  Connect(named, "listener");
  EXPECT_FALSE(CallerOf(named.get()));
  const Descriptor of_named(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_FALSE(CallerOf(of_named.get())) << "which end it is cannot be told";

  EXPECT_FALSE(CallerOf(listener.get()));
  int ends[2] = {-1, -1};
  for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
    ASSERT_EQ(0, ::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends));
    const Descriptor one(ends[0]), other(ends[1]);
    EXPECT_FALSE(CallerOf(one.get())) << type;
  }
  const Descriptor tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(CallerOf(tcp.get()));
  EXPECT_FALSE(CallerOf(-1));
}

}  // namespace
}  // namespace divvy
