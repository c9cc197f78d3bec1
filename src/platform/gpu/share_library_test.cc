#include "platform/gpu/share_library.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "platform/os/image_file.h"

namespace divvy {
namespace share_library_test {

class ShareLibrary : public ::testing::Test {
 protected:
  ShareLibrary() {
    std::string name = testing::TempDir() + "divvy-share-library-test.XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ShareLibrary() override { std::filesystem::remove_all(folder_); }

  static ino_t FileOf(const std::string& path) {
    struct stat about {};
    EXPECT_EQ(stat(path.c_str(), &about), 0);
    return about.st_ino;
  }

  std::string folder_;
};

TEST_F(ShareLibrary, IsWrittenAtomicallyAndReplacesAnother) {
  const auto path = WriteShareLibrary(folder_ + "/new/lib");
  ASSERT_TRUE(path) << path.error().message;
  const std::string image = ReadImage(*path);
  EXPECT_EQ(image.substr(1, 3), "ELF");
  const ino_t first = FileOf(*path);
  EXPECT_TRUE(WriteShareLibrary(folder_ + "/new/lib"));
  EXPECT_EQ(FileOf(*path), first);
  std::ofstream(*path) << "an older one";
  EXPECT_TRUE(WriteShareLibrary(folder_ + "/new/lib"));
  EXPECT_EQ(ReadImage(*path), image);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ + "/new/lib"), {}), 1);
}

TEST_F(ShareLibrary, AFolderThatCannotBeCreatedIsNamed) {
  std::ofstream(folder_ + "/file") << "x";
  const auto path = WriteShareLibrary(folder_ + "/file/lib");
  ASSERT_FALSE(path);
  EXPECT_NE(path.error().message.find(folder_ + "/file/lib"), std::string::npos) << path.error().message;
}

TEST_F(ShareLibrary, ExistingPreloadsComeAfterIt) {
  EXPECT_EQ(ShareEnvironment("/l.so", "/f", ""), (std::vector<std::string>{"LD_PRELOAD=/l.so", "DIVVY_SHARE=/f"}));
  EXPECT_EQ(ShareEnvironment("/l.so", "/f", "a.so:b.so").at(0), "LD_PRELOAD=/l.so:a.so:b.so");
}

}  // namespace share_library_test
}  // namespace divvy
