#include "platform/net/audit_chain.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace divvy {
namespace audit_chain_test {

class AuditLog : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "divvy-chain-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    std::string before;
    for (int i = 0; i < 5; ++i) {
      lines_.push_back(ChainedLine("{\"time\":" + std::to_string(i) + "}", before));
      before = *ChainOf(lines_.back());
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Result<AuditChain> Verify(const std::vector<std::string>& lines, std::string_view known = "") {
    std::ofstream file(folder_ + "/audit.log", std::ios::trunc);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    return VerifyAuditLog(folder_ + "/audit.log", known);
  }
  std::string folder_;
  std::vector<std::string> lines_;
};

TEST_F(AuditLog, AnUnchangedLogIsValid) {
  const auto chain = Verify(lines_, *ChainOf(lines_[2]));
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->lines, 5u);
  EXPECT_EQ(chain->newest, *ChainOf(lines_[4]));
  EXPECT_FALSE(chain->has_older);
}

TEST_F(AuditLog, ChangedRemovedAndReorderedLinesAreDetected) {
  auto changed = lines_;
  changed[2].replace(changed[2].find("2"), 1, "7");
  auto removed = lines_;
  removed.erase(removed.begin() + 2);
  auto reordered = lines_;
  std::swap(reordered[1], reordered[2]);
  auto added = lines_;
  added.insert(added.begin() + 2, "{\"time\":1}");
  for (const auto& [lines, line] :
       {std::pair(changed, 3), std::pair(removed, 3), std::pair(reordered, 2), std::pair(added, 3)}) {
    const auto chain = Verify(lines);
    ASSERT_FALSE(chain);
    EXPECT_EQ(chain.error().code, ErrorCode::kCorruptData);
    EXPECT_NE(chain.error().message.find("line " + std::to_string(line) + ":"), std::string::npos)
        << chain.error().message;
  }
}

TEST_F(AuditLog, RemovedLinesAtTheEndAreDetectedWithAStoredHash) {
  const std::string newest = *ChainOf(lines_.back());
  lines_.pop_back();
  EXPECT_TRUE(Verify(lines_));
  EXPECT_FALSE(Verify(lines_, newest));
}

TEST_F(AuditLog, UnchainedLinesOfOlderReleasesMayComeFirst) {
  std::vector<std::string> lines = {"{\"time\":0}", "{\"time\":0}"};
  lines.insert(lines.end(), lines_.begin(), lines_.end());
  const auto chain = Verify(lines);
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->unchained, 2u);
  EXPECT_EQ(chain->lines, 5u);
}

TEST_F(AuditLog, AfterRotationTheFirstLineRefersToAnOlderFile) {
  lines_.erase(lines_.begin());
  const auto chain = Verify(lines_);
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_TRUE(chain->has_older);
  EXPECT_FALSE(chain->is_full) << "no rotation removed it";
}

}  // namespace audit_chain_test
}  // namespace divvy
