#include "platform/os/log_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "platform/users/read_log.h"

namespace divvy {
namespace log_limit_test {

constexpr JobId kJob(17);
constexpr std::int64_t kLimit = 1 << 20;

class LogLimitTest : public testing::Test {
 protected:
  LogLimitTest() { log_.Reset(::open(Path().c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600)); }
  ~LogLimitTest() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/17.log"; }
  /// Writes numbered lines of 16 bytes, as a job does; returns them.
  std::string Write(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) {
      const std::string number = std::to_string(next_++);
      text += std::string(15 - number.size(), '.') + number + "\n";
    }
    EXPECT_EQ(::write(log_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    all_ += text;
    return text;
  }
  std::int64_t OnDisk() const {
    struct stat status {};
    ::stat(Path().c_str(), &status);
    return status.st_blocks * 512;
  }
  bool CanPunch() const {
    const Descriptor file(::open((folder_ + "/try").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    return ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
  }
  /// Returns all pieces from `at` to the end; -1 stands for the start of the kept part.
  std::string ReadFrom(std::int64_t at, std::size_t most = kLogPieceBytes) const {
    std::string text;
    for (LogPiece piece = ReadLog(Path(), {.at = at, .most = most}); !piece.text.empty();
         piece = ReadLog(Path(), {.at = piece.next, .most = most})) {
      text += piece.text;
    }
    return text;
  }

  static std::string MakeFolder() {
    std::string path = testing::TempDir() + "divvy-limit-XXXXXX";
    return ::mkdtemp(path.data());
  }

  std::string folder_ = MakeFolder();
  Descriptor log_;
  std::string all_;
  int next_ = 0;
  std::string noted_;
  LogLimit limit_{folder_, Bytes(kLimit), [this](const std::string& line) { noted_ += line + "\n"; }};
};

TEST_F(LogLimitTest, KeptContentsBeginWithAWholeLine) {
  if (!CanPunch()) GTEST_SKIP() << "this file system has no holes";
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "line " + std::to_string(i) + "\n";
  ASSERT_EQ(::write(log_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  limit_.Look({kJob});
  const std::string kept = ReadFrom(-1);
  ASSERT_LT(kept.size(), text.size());
  EXPECT_TRUE(text.ends_with(kept));
  EXPECT_TRUE(kept.starts_with("line ")) << kept.substr(0, 40);
  EXPECT_GE(kept.size() + (64 << 10), static_cast<std::size_t>(kLimit));
  const LogPiece all_lines = ReadLog(Path(), {.last = 1'000'000});
  EXPECT_TRUE(all_lines.text.starts_with("line "));
}

TEST_F(LogLimitTest, KeepsTheNewestContentsAndReturnsTheRestToTheDisk) {
  if (!CanPunch()) GTEST_SKIP() << "this file system has no holes";
  Write(250'000);  // 4 MB.
  limit_.Look({kJob});
  EXPECT_EQ(noted_, "");
  EXPECT_LE(OnDisk(), kLimit + (256 << 10));
  const LogPiece piece = ReadLog(Path(), {.most = 4096});
  const std::int64_t begin = piece.next - static_cast<std::int64_t>(piece.text.size());
  EXPECT_LE(begin, static_cast<std::int64_t>(all_.size()) - kLimit) << "less than the limit is kept";
  EXPECT_EQ(ReadFrom(-1), all_.substr(static_cast<std::size_t>(begin)));
  // A reader that was behind the cut continues at the first kept byte; other readers miss nothing.
  EXPECT_EQ(ReadFrom(16), all_.substr(static_cast<std::size_t>(begin)));
  const std::size_t late = all_.size() - 32;
  EXPECT_EQ(ReadFrom(static_cast<std::int64_t>(late)), all_.substr(late));
}

TEST_F(LogLimitTest, TheJobContinuesToWriteAndOffsetsStay) {
  if (!CanPunch()) GTEST_SKIP() << "this file system has no holes";
  Write(250'000);
  const auto at = static_cast<std::int64_t>(all_.size());
  limit_.Look({kJob});
  const std::string more = Write(30'000);
  limit_.Look({kJob});
  EXPECT_EQ(ReadFrom(at), more) << "a reader that keeps up loses something";
  EXPECT_EQ(static_cast<std::size_t>(std::filesystem::file_size(Path())), all_.size());
}

TEST_F(LogLimitTest, LastLinesComeFromTheKeptContents) {
  if (!CanPunch()) GTEST_SKIP() << "this file system has no holes";
  Write(250'000);
  limit_.Look({kJob});
  EXPECT_EQ(ReadLog(Path(), {.last = 2}).text, all_.substr(all_.size() - 32));
  const std::string kept = ReadFrom(-1);
  // Asking for more lines than exist returns all that is kept, without zeros.
  const LogPiece piece = ReadLog(Path(), {.last = 1'000'000});
  EXPECT_EQ(piece.text, kept.substr(0, piece.text.size()));
  EXPECT_FALSE(piece.text.empty());
}

TEST_F(LogLimitTest, AnEndedJobsLogIsCheckedOnceMore) {
  if (!CanPunch()) GTEST_SKIP() << "this file system has no holes";
  limit_.Look({kJob});
  Write(250'000);
  limit_.Look({});
  EXPECT_LE(OnDisk(), kLimit + (256 << 10));
  const std::string kept = ReadFrom(-1);
  Write(250'000);
  limit_.Look({});
  EXPECT_EQ(ReadFrom(-1).size(), kept.size() + std::size_t{16} * 250'000) << "a job that is over was looked at again";
}

TEST_F(LogLimitTest, LeavesSmallFilesAndUsersOwnFilesAlone) {
  Write(65'536 + 1000);  // Just above the limit, but not enough to be cut.
  limit_.Look({kJob});
  EXPECT_EQ(ReadFrom(-1), all_);
  Write(250'000);
  ::chmod(Path().c_str(), 0644);
  limit_.Look({kJob});
  EXPECT_EQ(ReadFrom(-1), all_) << "a file that a user had made was cut";
  EXPECT_EQ(noted_, "");
}

TEST_F(LogLimitTest, ASparseFileIsReadUnchanged) {
  ASSERT_EQ(::ftruncate(log_.get(), 100'000), 0);
  EXPECT_EQ(ReadFrom(-1), std::string(100'000, '\0'));
}

}  // namespace log_limit_test
}  // namespace divvy
