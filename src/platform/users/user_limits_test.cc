#include "platform/users/user_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace divvy {
namespace user_limits_test {

using Limits = std::map<std::string, std::int64_t>;
const User kAda{1000, 100, "ada"};

LimitTable Of(const std::string& text, const User& user = kAda) {
  return LimitsOf(ParseLimitRules(text), user, [](const std::string& group) { return group == "gpu"; });
}

TEST(UserLimits, ReadsKnownLimitsInUnitsOfSetrlimit) {
  const auto rules = ParseLimitRules(
      "# * hard core 0\n"
      "* hard nofile 4096 # files\n"
      "@gpu - memlock unlimited\n\n"
      "ada soft stack 8192\n"
      "ada hard cpu 10\n"
      "ada hard nofile many\nada firm nofile 1\nada hard maxlogins 4\nada -\nada hard nproc -5\n"
      "ada hard as 9223372036854775807\n");
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[1].value, -1);
  EXPECT_EQ(rules[2].value, 8192 * 1024);
  EXPECT_EQ(rules[3].value, 600);
}

TEST(UserLimits, UserRulesPrecedeGroupRulesAndThesePrecedeTheDefault) {
  EXPECT_EQ(Of("ada hard nofile 3\n@gpu hard nofile 2\n* hard nofile 1")["nofile"].hard, 3);
  EXPECT_EQ(Of("@gpu hard nofile 2\n* hard nofile 1")["nofile"].hard, 2);
  EXPECT_EQ(Of("* hard nofile 1\n* hard nofile 5")["nofile"].hard, 5);
  EXPECT_EQ(Of("@other hard nofile 2\nbob hard nofile 2").count("nofile"), 0u);
  EXPECT_EQ(Of("* - nofile 7")["nofile"], (LimitPair{7, 7}));
  EXPECT_EQ(Of("ada soft nofile 3\n* - nofile 7")["nofile"], (LimitPair{3, 7}));
}

TEST(UserLimits, RangesMatchIdsAndRootIsMatchedByNameOnly) {
  for (const std::string domain : {"1000:1000", "500:", ":1000", "@100:200", "@:100"})
    EXPECT_EQ(Of(domain + " hard nofile 9")["nofile"].hard, 9) << domain;
  for (const std::string domain : {"1001:", ":999", "@101:200", "x:y", ":"})
    EXPECT_EQ(Of(domain + " hard nofile 9").count("nofile"), 0u) << domain;
  const User root{0, 0, "root"};
  EXPECT_TRUE(Of("* hard nofile 1\n@gpu hard nofile 1\n0: hard nofile 1", root).empty());
  EXPECT_EQ(Of("root hard nofile 1", root)["nofile"].hard, 1);
}

TEST(UserLimits, BoundTheSubmittersLimits) {
  const LimitTable rules = Of("ada soft nofile 100\nada hard nofile 200\nada hard nproc 10\nada - memlock unlimited");
  EXPECT_EQ(UnderRules({{"nofile", 150}, {"nproc", -1}, {"memlock", 65536}}, rules), (Limits{{"nofile", 150},
                                                                                             {"nofile.hard", 200},
                                                                                             {"nproc", 10},
                                                                                             {"nproc.hard", 10},
                                                                                             {"memlock", 65536},
                                                                                             {"memlock.hard", -1}}));
  EXPECT_EQ(UnderRules({{"nofile", 999}}, rules).at("nofile"), 200);
  EXPECT_EQ(UnderRules({}, rules), (Limits{{"nofile", 100},
                                           {"nofile.hard", 200},
                                           {"nproc", 10},
                                           {"nproc.hard", 10},
                                           {"memlock", -1},
                                           {"memlock.hard", -1}}));
}

TEST(UserLimits, TheSubmitterNeverSetsAHardLimit) {
  EXPECT_EQ(UnderRules({{"nofile", 1}, {"nofile.hard", -1}}, {}), (Limits{{"nofile", 1}}));
  const LimitTable rules = Of("ada soft memlock 1\nada hard nofile 200");
  EXPECT_EQ(UnderRules({{"memlock", -1}, {"memlock.hard", -1}, {"nofile.hard", -1}}, rules),
            (Limits{{"memlock", -1}, {"nofile", 200}, {"nofile.hard", 200}}));
}

TEST(UserLimits, FilesOfTheFolderFollowTheMainFileAndAreReadAgain) {
  std::string folder = testing::TempDir() + "divvy-limits-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::filesystem::create_directory(folder + "/d");
  std::ofstream(folder + "/limits.conf") << "* hard nofile 1\n";
  std::ofstream(folder + "/d/20.conf") << "* hard nofile 3\n";
  std::ofstream(folder + "/d/10.conf") << "* hard nofile 2";
  std::ofstream(folder + "/d/30.off") << "* hard nofile 4";
  UserLimits limits(folder + "/limits.conf", folder + "/d");
  const Time now(std::chrono::hours(1));
  EXPECT_EQ(limits.Of(kAda.uid, kAda.gid, now).at("nofile").hard, 3);
  std::ofstream(folder + "/d/20.conf") << "1000:1000 hard nofile 5\n";
  EXPECT_EQ(limits.Of(kAda.uid, kAda.gid, now + std::chrono::seconds(29)).at("nofile").hard, 3);
  EXPECT_EQ(limits.Of(kAda.uid, kAda.gid, now + std::chrono::seconds(30)).at("nofile").hard, 5);
  std::filesystem::remove_all(folder);
  // Without a rule the limit of process 1 applies, as at a login.
  rlimit first = {};
  ASSERT_EQ(::prlimit(1, RLIMIT_NOFILE, nullptr, &first), 0);
  EXPECT_EQ(limits.Of(kAda.uid, kAda.gid, now + std::chrono::hours(1)).at("nofile").hard,
            static_cast<std::int64_t>(first.rlim_max));
}

}  // namespace user_limits_test
}  // namespace divvy
