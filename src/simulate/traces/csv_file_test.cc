#include "simulate/traces/csv_file.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace divvy::simulate {
namespace csv_file_test {

class CsvFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "divvy-csv-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Plain(const std::string& text) {
    const std::string path = folder_ + "/plain.csv";
    std::ofstream(path) << text;
    return path;
  }
  std::string Packed(const std::string& text) {
    const std::string path = folder_ + "/packed.csv.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path;
  }

  std::string folder_;
};

TEST_F(CsvFiles, ReadPlainAndCompressedFilesAlike) {
  const std::string text = "a,b\n1,x\r\n\n2,\"y,\"\"z\"\"\"";
  for (const std::string& path : {Plain(text), Packed(text)}) {
    auto file = CsvFile::Open(path, {"b"});
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->Next().value());
    EXPECT_EQ(file->Count("a", 10).value(), 1);
    EXPECT_EQ(file->Field("b"), "x");
    ASSERT_TRUE(file->Next().value());
    EXPECT_EQ(file->Field("b"), "y,\"z\"");
    EXPECT_EQ(file->Field("c"), "");
    EXPECT_EQ(file->Wrong("is odd").message, path + ":4: is odd");
    EXPECT_FALSE(file->Next().value());
    EXPECT_FALSE(file->Next().value());
  }
}

TEST_F(CsvFiles, ErrorsNameTheLine) {
  EXPECT_EQ(CsvFile::Open(folder_ + "/none.csv", {}).error().message, folder_ + "/none.csv: No such file or directory");
  EXPECT_EQ(CsvFile::Open(folder_, {}).error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(CsvFile::Open(Plain(""), {}).error().message, folder_ + "/plain.csv: has no header line");
  EXPECT_EQ(CsvFile::Open(Plain("a,b\n"), {"c"}).error().message,
            folder_ + "/plain.csv:1: there is no column 'c'; the columns are a,b");
  auto few = CsvFile::Open(Plain("a,b\n1,2\n3\n"), {});
  ASSERT_TRUE(few->Next().value());
  EXPECT_EQ(few->Next().error().message, folder_ + "/plain.csv:3: has 1 field, the header has 2");
  auto open = CsvFile::Open(Plain("a\n\"1\n"), {});
  EXPECT_EQ(open->Next().error().message, folder_ + "/plain.csv:2: a quote is not closed");
  auto number = CsvFile::Open(Plain("a,b,c\n-1,,11\n"), {});
  ASSERT_TRUE(number->Next().value());
  EXPECT_EQ(number->Count("a", 10).error().message,
            folder_ + "/plain.csv:2: a '-1' is not a whole number from 0 to 10");
  EXPECT_FALSE(number->Count("b", 10));
  EXPECT_FALSE(number->Count("c", 10));
}

TEST_F(CsvFiles, ATruncatedCompressedFileIsAnError) {
  std::string text = "a\n";
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919 % 10'007) + "\n";
  const std::string path = Packed(text);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  auto file = CsvFile::Open(path, {});
  Result<bool> next = file ? Result<bool>(true) : Result<bool>(file.error());
  while (next && *next) next = file->Next();
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().message.find("truncated"), std::string::npos) << next.error().message;
}

TEST_F(CsvFiles, AnEndlessLineIsRefused) {
  const auto file = CsvFile::Open(Packed(std::string(3 << 20, 'x')), {});
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("not a CSV file"), std::string::npos);
}

TEST_F(CsvFiles, ReadTablesWithoutTitlesAndWithComments) {
  auto swf = CsvFile::Open(Plain("; head: 1\n\n  1   2.5\n; foot\n3\t-1\n"), {"b"},
                           {.separator = ' ', .comment = ';', .titles = {"a", "b"}});
  ASSERT_TRUE(swf) << swf.error().message;
  ASSERT_TRUE(swf->Next().value());
  EXPECT_EQ(swf->comments(), std::vector<std::string>{" head: 1"});
  EXPECT_EQ(swf->Field("a"), "1");
  EXPECT_EQ(swf->Number("b", 0, 10).value(), 2.5);
  ASSERT_TRUE(swf->Next().value());
  EXPECT_EQ(swf->Number("b", 0, 10).error().message, folder_ + "/plain.csv:5: b '-1' is not a number from 0 to 10");
  EXPECT_FALSE(swf->Next().value());

  auto bars = CsvFile::Open(Plain("# x\na|b\n\"1|2\n"), {"b"}, {.separator = '|', .comment = '#'});
  ASSERT_TRUE(bars->Next().value());
  EXPECT_EQ(bars->Field("a"), "\"1") << "only commas know quotes";
  EXPECT_TRUE(bars->Has("b"));
  EXPECT_FALSE(bars->Has("c"));
  EXPECT_EQ(CsvFile::Open(Plain("# x\na|b\n"), {"c"}, {.separator = '|', .comment = '#'}).error().message,
            folder_ + "/plain.csv:2: there is no column 'c'; the columns are a|b");
}

}  // namespace csv_file_test
}  // namespace divvy::simulate
