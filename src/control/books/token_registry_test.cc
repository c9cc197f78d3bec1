#include "control/books/token_registry.h"

#include <gtest/gtest.h>

namespace divvy {
namespace token_registry_test {

constexpr Time kNow = Time(std::chrono::hours(5));

TokenRow Row(const std::string& id) {
  TokenRow row;
  row.id = id;
  row.hash = "h-" + id;
  row.user = "ada";
  row.uid = 1000;
  row.label = "my laptop";
  row.made_by = "root";
  row.made_at = Time(std::chrono::hours(1));
  row.expires = Time(std::chrono::hours(10));
  return row;
}

TEST(TokenRegistry, IsRestoredFromTheStore) {
  TokenRegistry registry, again;
  TokenRow second = Row("2");
  second.role = TokenRole::kAdmin;
  second.label.clear();
  second.expires = kNever;
  for (const TokenRow& row : {Row("1"), second}) {
    const auto setting = registry.Add(row);
    ASSERT_TRUE(setting);
    EXPECT_TRUE(again.LoadSetting(setting->first, setting->second));
  }
  EXPECT_EQ(again.tokens(), registry.tokens());
  EXPECT_EQ(again.Find("2")->role, TokenRole::kAdmin);
  EXPECT_FALSE(again.LoadSetting("team.vision", "weight 1\n"));
}

TEST(TokenRegistry, AnUnreadableRowGrantsNothing) {
  TokenRegistry registry;
  const std::string whole = registry.Add(Row("1"))->second;
  for (const std::string& text : {std::string(""), std::string("hash x\n"), std::string("role user\nuser ada\n"),
                                  "role king\n" + whole, whole + "role king\n", whole + "expires soon\n"}) {
    TokenRegistry read;
    EXPECT_TRUE(read.LoadSetting("token.1", text));
    EXPECT_EQ(read.Find("1"), nullptr) << text;
  }
}

TEST(TokenRegistry, RemovesTokensAndForgetsThem) {
  TokenRegistry registry;
  ASSERT_TRUE(registry.Add(Row("1")));
  ASSERT_TRUE(registry.Add(Row("2")));
  EXPECT_EQ(*registry.Remove("1"), (TokenRegistry::Setting{"token.1", ""}));
  EXPECT_EQ(registry.Remove("1").error().message, "there is no token 1; divvy token list shows all tokens");
  EXPECT_TRUE(registry.Find("2")->has_expired(Time(std::chrono::hours(10))));
  EXPECT_FALSE(registry.Find("2")->has_expired(Time(std::chrono::hours(9))));
  EXPECT_TRUE(registry.DropExpired(Time(std::chrono::hours(9))).empty());
  EXPECT_EQ(registry.DropExpired(Time(std::chrono::hours(11))).size(), 1u);
  EXPECT_EQ(registry.Find("2"), nullptr);
}

TEST(TokenRegistry, EnforcesTheTokenCountAndTheLabelLength) {
  TokenRegistry registry;
  TokenRow bad = Row("1");
  bad.label = "two\nlines";
  EXPECT_EQ(registry.Add(bad).error().message, "a token's label is one line of at most 64 characters");
  ASSERT_TRUE(registry.Add(Row("1")));
  EXPECT_EQ(registry.Add(Row("1")).error().message, "there is a token 1 already");
  for (std::size_t i = 1; i < TokenRegistry::kMostTokens; ++i) {
    TokenRow row = Row("x" + std::to_string(i));
    row.user = "user" + std::to_string(i % 200);
    ASSERT_TRUE(registry.Add(row)) << i;
  }
  EXPECT_EQ(registry.Add(Row("y")).error().code, ErrorCode::kLimitExceeded);
  TokenRegistry other;
  for (std::size_t i = 0; i < TokenRegistry::kMostOfAUser; ++i) ASSERT_TRUE(other.Add(Row(std::to_string(i))));
  EXPECT_EQ(other.Add(Row("y")).error().message,
            "ada has 100 tokens, which is the limit; remove unused ones with divvy token remove");
}

TEST(TokenRole, IsReadByItsName) {
  for (const TokenRole role : {TokenRole::kViewer, TokenRole::kUser, TokenRole::kAdmin})
    EXPECT_EQ(*ParseTokenRole(Name(role)), role);
  EXPECT_EQ(ParseTokenRole("root").error().message, "'root' is not a role: expected viewer, user, admin or node");
}

TEST(NodeTokens, AdmitAsManyNodesAsTheyHaveUsesAndAreThenRemoved) {
  TokenRegistry registry;
  TokenRow row;
  row.id = "4f1c22aa";
  row.hash = "h";
  row.user = "root";
  row.uid = 0;
  row.role = TokenRole::kNode;
  row.uses_left = 2;
  ASSERT_TRUE(registry.Add(row));
  const auto first = registry.Spend(row.id, kNow);
  ASSERT_TRUE(first);
  TokenRegistry again;  // The state after a restart.
  again.LoadSetting(first->first, first->second);
  ASSERT_NE(again.Find(row.id), nullptr);
  EXPECT_EQ(again.Find(row.id)->uses_left, 1);
  const auto last = again.Spend(row.id, kNow);
  ASSERT_TRUE(last);
  TokenRegistry spent;
  spent.LoadSetting(last->first, last->second);
  ASSERT_NE(spent.Find(row.id), nullptr);
  EXPECT_TRUE(spent.Find(row.id)->is_spent());
  EXPECT_TRUE(spent.Find(row.id)->has_expired(kNow)) << "it goes as those do";
  EXPECT_EQ(again.Spend(row.id, kNow).error().message,
            "token 4f1c22aa has admitted as many nodes as it may; divvy token create --node creates another");
}

TEST(NodeTokens, AnotherTokenAdmitsNoNode) {
  TokenRegistry registry;
  TokenRow row;
  row.id = "4f1c22aa";
  row.hash = "h";
  row.user = "ada";
  row.uid = 1000;
  row.role = TokenRole::kAdmin;
  ASSERT_TRUE(registry.Add(row));
  EXPECT_FALSE(registry.Spend(row.id, kNow));
}

}  // namespace token_registry_test
}  // namespace divvy
