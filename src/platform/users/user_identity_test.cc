#include "platform/users/user_identity.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

namespace divvy {
namespace user_identity_test {

// A uid that no system assigns to a user.
constexpr uid_t kNameless = 4'000'000'001;

std::string NameOfGroup(gid_t gid) {
  const group* entry = ::getgrgid(gid);
  return entry == nullptr ? "" : entry->gr_name;
}

TEST(UserIdentity, PrimaryAndSupplementaryGroupsCount) {
  const passwd* self = ::getpwuid(::getuid());
  if (self == nullptr) GTEST_SKIP() << "whoever runs this has no entry";
  const std::string user = self->pw_name;
  const gid_t own = self->pw_gid;
  // The process's current group does not matter for a user who has an account.
  EXPECT_TRUE(IsInGroup(::getuid(), own + 12345, NameOfGroup(own)));
  EXPECT_FALSE(IsInGroup(::getuid(), own, "no-such-group"));

  ::setgrent();
  for (const group* entry = ::getgrent(); entry != nullptr; entry = ::getgrent()) {
    bool is_member = entry->gr_gid == own;
    for (char** member = entry->gr_mem; *member != nullptr; ++member) is_member |= user == *member;
    const std::string name = entry->gr_name;
    EXPECT_EQ(IsInGroup(::getuid(), own, name), is_member) << name;
  }
  ::endgrent();
}

TEST(UserIdentity, AUidWithoutANameIsInTheGroupOfItsProcess) {
  if (::getpwuid(kNameless) != nullptr) GTEST_SKIP() << "someone has that uid";
  const std::string root = NameOfGroup(0);
  ASSERT_FALSE(root.empty());
  EXPECT_TRUE(IsInGroup(kNameless, 0, root));
  EXPECT_FALSE(IsInGroup(kNameless, 4'000'000'001, root));
}

}  // namespace user_identity_test
}  // namespace divvy
