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

}  // namespace
}  // namespace divvy
