#include "model/steps/gang_file.h"

#include <gtest/gtest.h>

namespace divvy {
namespace gang_file_test {

GangFile Two() {
  GangFile gang{17, 2, 1, {}};
  gang.members.push_back({"", {"head.lab", 4001}, GpuSet::Of({0, 3}), 2});
  gang.members.push_back({"beta", {"10.0.0.2", 4002}, {}, 0});
  return gang;
}

TEST(GangFile, IsReadBackUnchanged) {
  const auto read = ReadGangText(GangFileText(Two()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, Two());
}

TEST(GangFile, ComponentsAreReadBackUnchanged) {
  GangFile gang{17, 1, 1, {}};
  gang.members.push_back(
      {"n1", {"10.0.0.1", 4001}, GpuSet::Of({0, 1, 3}), 3, {{0, GpuSet::Of({0, 1}), 2}, {2, GpuSet::Of({3}), 1}}});
  gang.members.push_back({"n2", {"10.0.0.2", 4002}, GpuSet(), 4, {{1, GpuSet(), 4}}});
  const auto read = ReadGangText(GangFileText(gang));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, gang);
  EXPECT_EQ(read->components(), 3U);
  for (const char* wrong : {"0:0", "0:x:1", "1:0:1;0:1:1", "999:0:1", "0:0:-1", ""}) {
    const std::string text = "divvy-gang 1\njob 17 1\nseat 0\n0\tn1\th\t1\t0\t1\t" + std::string(wrong) + "\n";
    EXPECT_FALSE(ReadGangText(text)) << wrong;
  }
}

TEST(GangFile, NodesAreFoundByEachOfTheirNames) {
  const GangFile gang = Two();
  EXPECT_EQ(gang.Find("beta"), 1u);
  EXPECT_EQ(gang.Find("10.0.0.2"), 1u);
  EXPECT_EQ(gang.Find("head"), 0u);
  EXPECT_EQ(gang.Find("beta.lab"), 1u);
  EXPECT_EQ(gang.Find("10.0.0.3"), std::nullopt) << "an address has no domain";
  EXPECT_EQ(gang.Find(""), std::nullopt);
}

TEST(GangFile, ErrorsNameTheLine) {
  const std::string good = GangFileText(Two());
  const auto why = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto read = ReadGangText(text);
    return read ? "fine" : read.error().message.substr(0, 7);
  };
  EXPECT_EQ(why("divvy-gang 1", "divvy-gang 2"), "line 1 ");
  EXPECT_EQ(why("job 17", "job x"), "line 2 ");
  EXPECT_EQ(why("seat 1", "seat 2"), "line 3 ");
  EXPECT_EQ(why("4001", "65536"), "line 4 ");
  EXPECT_EQ(why("0,3", "0,64"), "line 4 ");
  EXPECT_EQ(why("1\tbeta", "2\tbeta"), "line 5 ");
  EXPECT_EQ(why("10.0.0.2", "10.0 0.2"), "line 5 ");
  EXPECT_EQ(why("\t0\n", "\t0"), "line 5 ") << "half a file is none";
  EXPECT_FALSE(ReadGangText(""));
}

}  // namespace gang_file_test
}  // namespace divvy
