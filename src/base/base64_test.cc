#include "base/base64.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

TEST(Base64, EncodesTheExamplesOfTheStandard) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xff\xfe\xfd"), "//79");
}

TEST(Base64, DecodesWhatItEncodedAndRefusesOtherTexts) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(FromBase64(Base64(bytes)), bytes);
    bytes.push_back(static_cast<char>(i));
  }
  for (const char* text : {"A", "Zg=", "====", "A===", "Zg==Zg==", "Zm 8", "Zm9.", "Zm8=\n"})
    EXPECT_EQ(FromBase64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace divvy
