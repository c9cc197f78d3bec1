#include "daemon/auth/remote_callers.h"

#include <gtest/gtest.h>

#include "wire/http/token_line.h"

namespace divvy {
namespace remote_callers_test {

const Time kNow = Time(std::chrono::hours(500'000));

class Remote : public testing::Test {
 protected:
  static std::optional<User> Find(std::string_view name) {
    if (name == "ada") return User{1000, 1000, "ada"};
    if (name == "root") return User{0, 0, "root"};
    return std::nullopt;
  }
  static Caller Admin() { return {{0, 0, "root"}, true, {}}; }
  static Caller Ada() { return {{1000, 1000, "ada"}, false, {}}; }

  std::string HeaderOf(TokenRow row, const Caller& maker = Admin()) {
    const auto made = callers_.Make(std::move(row), maker);
    EXPECT_TRUE(made) << made.error().message;
    return made ? "Bearer " + made->id + "." + made->secret : "";
  }
  static TokenRow For(const std::string& user, TokenRole role = TokenRole::kUser) {
    TokenRow row;
    row.user = user;
    row.role = role;
    return row;
  }
  std::string ErrorOf(const std::string& header, Touches touches = Touches::kSomething, Time now = kNow) {
    const auto caller = callers_.Identify(header, touches, now);
    return caller ? "" : caller.error().message;
  }

  TokenRegistry registry_;
  RemoteCallers callers_{registry_, Find};
};

TEST_F(Remote, ATokenGrantsTheRightsOfItsUserOnly) {
  const auto caller = callers_.Identify(HeaderOf(For("ada")), Touches::kSomething, kNow);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->user.uid, 1000);
  EXPECT_FALSE(caller->is_admin);
  EXPECT_FALSE(callers_.Identify(HeaderOf(For("root")), Touches::kSomething, kNow)->is_admin)
      << "root's own, as a user's";
  EXPECT_TRUE(callers_.Identify(HeaderOf(For("ada", TokenRole::kAdmin)), Touches::kSomething, kNow)->is_admin);
}

TEST_F(Remote, AViewerCannotChangeAnything) {
  const std::string header = HeaderOf(For("ada", TokenRole::kViewer));
  EXPECT_EQ(ErrorOf(header, Touches::kNothing), "");
  EXPECT_NE(ErrorOf(header).find("is read-only; one with --role user may act for ada"), std::string::npos);
}

TEST_F(Remote, AMalformedAndAWrongTokenGetTheSameError) {
  const std::string header = HeaderOf(For("ada"));
  std::string wrong = header;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  std::string unknown = header;
  unknown.replace(unknown.find(' ') + 1, 8, "00000000");
  const std::string id = header.substr(7, 8);
  std::string of_wrong = ErrorOf(wrong), of_unknown = ErrorOf(unknown);
  EXPECT_NE(of_wrong, "");
  of_wrong.replace(of_wrong.find(id), 8, "00000000");
  EXPECT_EQ(of_wrong, of_unknown);
  EXPECT_EQ(ErrorOf(""), "requests from other machines need a token; divvy login asks for its line and stores it");
  EXPECT_EQ(ErrorOf("Basic YTpi"), "the Authorization header is not 'Bearer TOKEN'");
}

TEST_F(Remote, ATokenEndsWithItsExpiryItsRemovalAndItsUser) {
  TokenRow row = For("ada");
  row.expires = kNow + std::chrono::hours(1);
  const std::string header = HeaderOf(row);
  EXPECT_EQ(ErrorOf(header), "");
  EXPECT_NE(ErrorOf(header, Touches::kNothing, kNow + std::chrono::hours(1)).find("has expired"), std::string::npos);
  EXPECT_TRUE(callers_.Remove(header.substr(7, 8), Ada()));
  EXPECT_NE(ErrorOf(header).find("is unknown to this controller"), std::string::npos);

  RemoteCallers later(registry_, [](std::string_view) { return std::nullopt; });
  const std::string other = HeaderOf(For("ada"));
  RemoteCallers renamed(registry_, [](std::string_view) { return User{2000, 2000, "ada"}; });
  EXPECT_NE(renamed.Identify(other, Touches::kNothing, kNow).error().message.find("no longer has an account"),
            std::string::npos)
      << "somebody else of that name";
  EXPECT_NE(later.Identify(other, Touches::kNothing, kNow).error().message.find("no longer has an account"),
            std::string::npos);
}

TEST_F(Remote, OnlyAdministratorsCreateTokensForOthers) {
  const auto error = [&](const TokenRow& row) {
    const auto made = callers_.Make(row, Ada());
    return made ? "" : made.error().message;
  };
  EXPECT_EQ(error(For("")), "") << "for oneself";
  const std::string refused =
      "a token for another user, an administrator or a node takes an administrator; ada is not one";
  EXPECT_EQ(error(For("root")), refused);
  EXPECT_EQ(error(For("ada", TokenRole::kAdmin)), refused);
  EXPECT_NE(callers_.Make(For("eve"), Admin()).error().message.find("cannot run jobs as 'eve'"), std::string::npos);
  const std::string header = HeaderOf(For("root"));
  EXPECT_EQ(callers_.Remove(header.substr(7, 8), Ada()).error().message,
            "token " + header.substr(7, 8) + " is of root; removing it takes an administrator");
}

TEST_F(Remote, ANodeTokenLetsANodeJoinAndActsForNoUser) {
  TokenRow row = For("root", TokenRole::kNode);
  row.uses_left = 1;
  row.expires = kNow + std::chrono::hours(1);
  const std::string header = HeaderOf(row);
  EXPECT_EQ(*callers_.AdmitNode(header, kNow), header.substr(7, 8));
  EXPECT_NE(ErrorOf(header, Touches::kNothing).find("lets a machine join as a node"), std::string::npos);
  EXPECT_NE(
      callers_.AdmitNode(HeaderOf(For("ada", TokenRole::kAdmin)), kNow).error().message.find("for a command line"),
      std::string::npos);
  EXPECT_NE(callers_.AdmitNode(header, kNow + std::chrono::hours(1)).error().message.find("has expired"),
            std::string::npos);
  ASSERT_TRUE(registry_.Spend(header.substr(7, 8), kNow));
  EXPECT_EQ(callers_.AdmitNode(header, kNow).error().message,
            "token " + header.substr(7, 8) + " has admitted as many nodes as it may; ask for a new one, made on the " +
                "controller by divvy token create --node, and divvy agent --join with it");
  row.user = "ada";
  EXPECT_FALSE(callers_.Make(row, Ada())) << "who is no administrator";
}

TEST_F(Remote, TheRegistryStoresNoSecret) {
  const auto made = callers_.Make(For("ada"), Admin());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->setting.second.find(made->secret), std::string::npos);
  EXPECT_EQ(made->secret.size(), 64u);
}

}  // namespace remote_callers_test
}  // namespace divvy
