#include "daemon/auth/accounts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace divvy {
namespace accounts_test {

using std::chrono::seconds;

TEST(CachedUsers, AreLookedUpOnceAMinuteAndMissingUsersEveryThreeSeconds) {
  std::vector<std::string> asked;
  std::optional<User> grace;
  std::chrono::steady_clock::time_point now{};
  const FindUserByName find = KeptUsers(
      [&](std::string_view name) -> std::optional<User> {
        asked.emplace_back(name);
        if (name == "ada") return User{4711, 4712, "ada"};
        return grace;
      },
      [&] { return now; });
  EXPECT_EQ(find("ada")->uid, 4711);
  now += seconds(59);
  EXPECT_EQ(find("ada")->gid, 4712);
  EXPECT_EQ(asked.size(), 1u);
  now += seconds(1);
  EXPECT_EQ(find("ada")->uid, 4711);
  EXPECT_EQ(asked.size(), 2u);

  EXPECT_EQ(find("grace"), std::nullopt);
  grace = User{4713, 4713, "grace"};
  now += seconds(2);
  EXPECT_EQ(find("grace"), std::nullopt);
  EXPECT_EQ(asked.size(), 3u);
  now += seconds(1);
  EXPECT_EQ(find("grace"), grace);
}

// A standby has no launcher, and answers every user's reads.
TEST(Accounts, AServedMachineKnowsAllAccountsAlsoWithoutRoot) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    const bool is_right = FindUserOf(true, "root") && !FindUserOf(false, "root") && !FindUserOf(true, "no such user");
    ::_exit(is_right ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CachedUsers, ASlowLookupDelaysNoOther) {
  FindUserByName find;
  find = KeptUsers([&](std::string_view name) -> std::optional<User> {
    // Called in the middle of another lookup, which must hold no lock.
    if (name == "slow") {
      EXPECT_EQ(find("ada")->uid, 4711);
    }
    return User{4711, 4712, std::string(name)};
  });
  EXPECT_EQ(find("slow")->name, "slow");
}

}  // namespace accounts_test
}  // namespace divvy
