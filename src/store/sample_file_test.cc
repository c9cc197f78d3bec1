#include "store/sample_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace divvy {
namespace sample_file_test {

class SampleFileTest : public testing::Test {
 protected:
  SampleFileTest() {
    std::string name = testing::TempDir() + "divvy-samples-test.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    Open();
  }
  ~SampleFileTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/samples.db"; }
  void Open() {
    file_.reset();
    auto opened = SampleFile::Open(path());
    ASSERT_TRUE(opened) << opened.error().message;
    file_ = *std::move(opened);
  }
  std::vector<std::string> Bytes(const std::string& subject, std::int64_t step, std::int64_t since,
                                 std::int64_t until) {
    std::vector<std::string> out;
    const auto blocks = file_->Read(subject, step, since, until);
    EXPECT_TRUE(blocks);
    for (const SampleBlock& block : *blocks) out.push_back(block.bytes);
    return out;
  }
  std::string folder_;
  std::unique_ptr<SampleFile> file_;
};

using Texts = std::vector<std::string>;

TEST_F(SampleFileTest, ReturnsBlocksThatOverlapThePeriodInOrder) {
  ASSERT_TRUE(file_->Put({{"gpu/0/n1", 10, 600, 1200, "b"},
                          {"gpu/0/n1", 10, 0, 600, std::string("a\0z", 3)},
                          {"gpu/0/n1", 60, 0, 600, "minutes"},
                          {"gpu/1/n1", 10, 0, 600, "other"}}));
  EXPECT_EQ(Bytes("gpu/0/n1", 10, 0, 2000), (Texts{std::string("a\0z", 3), "b"}));
  EXPECT_EQ(Bytes("gpu/0/n1", 10, 600, 2000), (Texts{"b"}));
  EXPECT_EQ(Bytes("gpu/0/n1", 10, 0, 600), (Texts{std::string("a\0z", 3)}));
  EXPECT_EQ(Bytes("gpu/2/n1", 10, 0, 2000), Texts());
}

TEST_F(SampleFileTest, ABlockReplacesTheOneOfTheSameTime) {
  ASSERT_TRUE(file_->Put({{"node/n1", 10, 0, 100, "short"}}));
  ASSERT_TRUE(file_->Put({{"node/n1", 10, 0, 600, "long"}}));
  Open();
  EXPECT_EQ(Bytes("node/n1", 10, 0, 2000), (Texts{"long"}));
}

TEST_F(SampleFileTest, ListsSubjectsByPrefix) {
  ASSERT_TRUE(file_->Put({{"job/1/n1", 0, 0, 9, "x"},
                          {"job/17/n1", 0, 0, 9, "x"},
                          {"job/17/n2", 0, 0, 9, "x"},
                          {"node/n1", 10, 0, 9, "x"}}));
  EXPECT_EQ(file_->Subjects("job/17/").value(), (Texts{"job/17/n1", "job/17/n2"}));
  EXPECT_EQ(file_->Subjects("gpu/").value(), Texts());
}

TEST_F(SampleFileTest, OldBlocksAreRemovedWithTheirSubject) {
  ASSERT_TRUE(file_->Put({{"gpu/0/n1", 10, 0, 600, "a"}, {"gpu/1/n1", 10, 600, 1200, "b"}}));
  ASSERT_TRUE(file_->DropOlder(10, 1000));
  EXPECT_EQ(file_->Subjects("gpu/").value(), (Texts{"gpu/1/n1"}));
}

TEST_F(SampleFileTest, IsBoundedAndDropsTheFinestAndOldestFirst) {
  std::vector<SampleBlock> blocks;
  const std::string bytes(4000, 'x');
  for (int i = 0; i < 400; ++i) blocks.push_back({"gpu/0/n1", 10, i * 600, i * 600 + 600, bytes});
  blocks.push_back({"gpu/0/n1", 900, 0, 86'400, bytes});
  blocks.push_back({"job/1/n1", 0, 0, 60, bytes});
  ASSERT_TRUE(file_->Put(blocks));
  const divvy::Bytes most(800'000);
  ASSERT_GT(file_->Size().value(), most);
  ASSERT_TRUE(file_->Bound(most));
  EXPECT_LE(file_->Size().value(), most);
  const auto left = file_->Read("gpu/0/n1", 10, 0, 1'000'000);
  ASSERT_TRUE(left && !left->empty());
  EXPECT_GT(left->front().begin, 600);
  EXPECT_EQ(left->back().begin, 399 * 600);
  EXPECT_EQ(Bytes("gpu/0/n1", 900, 0, 100'000).size(), 1U);
  EXPECT_EQ(Bytes("job/1/n1", 0, 0, 100).size(), 1U);
}

TEST_F(SampleFileTest, ADamagedFileIsMovedAside) {
  file_.reset();
  std::ofstream(path(), std::ios::trunc) << std::string(8192, 'x');
  Open();
  ASSERT_TRUE(file_->Put({{"node/n1", 10, 0, 100, "new"}}));
  EXPECT_EQ(Bytes("node/n1", 10, 0, 100), (Texts{"new"}));
  EXPECT_TRUE(std::filesystem::exists(path() + ".damaged"));
}

}  // namespace sample_file_test
}  // namespace divvy
