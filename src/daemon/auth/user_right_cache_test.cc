#include "daemon/auth/user_right_cache.h"

#include <gtest/gtest.h>

namespace divvy {
namespace user_right_cache_test {

const User kAda{1000, 1000, "ada"};

class UserRightCacheTest : public testing::Test {
 protected:
  UserRightCacheTest() {
    UserRight own = {};
    own.fill(1);
    cache_.LoadSetting("right.1000.1000", RightText(own));
    by_name_.fill(2);
    cache_.SetPorts({[](int) -> Result<UserRight> { return PermissionDenied("not asked here"); },
                     [this, own](const UserWithRight& user) -> Result<UserRight> {
                       ++asked_;
                       EXPECT_EQ(own, user.right);
                       if (is_away_) return Unreachable("there is no launcher");
                       return by_name_;
                     },
                     [](const std::string&, const std::string&) {},
                     [this](const std::string& line) { notes_.push_back(line); }});
  }
  UserRightCache cache_;
  UserRight by_name_ = {};
  int asked_ = 0;
  bool is_away_ = false;
  std::vector<std::string> notes_;
};

TEST_F(UserRightCacheTest, ANameIsLookedUpOnce) {
  EXPECT_EQ(RightText(by_name_), cache_.ByName(kAda));
  EXPECT_EQ(RightText(by_name_), cache_.ByName(kAda));
  EXPECT_EQ(1, asked_);
  // The uid now belongs to another user.
  static_cast<void>(cache_.ByName({1000, 1000, "eve"}));
  EXPECT_EQ(2, asked_);
}

TEST_F(UserRightCacheTest, AUserWithoutARightGetsNoneByName) {
  EXPECT_EQ("", cache_.ByName({1001, 1001, "bob"}));
  EXPECT_EQ(0, asked_);
}

TEST_F(UserRightCacheTest, AnUnreachableLauncherIsAskedAgainLater) {
  is_away_ = true;
  EXPECT_EQ("", cache_.ByName(kAda));
  ASSERT_EQ(1U, notes_.size());
  EXPECT_NE(std::string::npos, notes_.front().find("event=right_by_name_refused uid=1000")) << notes_.front();
  is_away_ = false;
  EXPECT_EQ(RightText(by_name_), cache_.ByName(kAda));
}

}  // namespace user_right_cache_test
}  // namespace divvy
