#include "base/utf8.h"

#include <gtest/gtest.h>

namespace divvy {
namespace utf8_test {

TEST(Utf8, ReadsBackWhatItWrites) {
  for (const std::uint32_t code : {0x41U, 0xE9U, 0x2026U, 0x65E5U, 0x1F680U, 0x10FFFFU}) {
    const Utf8Character read = FirstCharacter(Utf8(code) + "x");
    EXPECT_EQ(read.code, code);
    EXPECT_EQ(read.length, Utf8(code).size());
  }
  EXPECT_EQ(Utf8(0x110000), "");
  EXPECT_EQ(Utf8(0xD800), "");
}

TEST(Utf8, AnInvalidSequenceIsReadAsOneByte) {
  for (const std::string_view broken :
       {"\x80", "\xC0\x80", "\xE6\x97", "\xE6x", "\xED\xA0\x80", "\xFF", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(FirstCharacter(broken).code, 0xFFFDU) << broken;
    EXPECT_EQ(FirstCharacter(broken).length, 1U) << broken;
  }
}

TEST(Utf8, ControlCharactersAreEscaped) {
  EXPECT_EQ(WithoutControls("a\033]0;x\007b"), "a\\x1b]0;x\\x07b");
  EXPECT_EQ(WithoutControls("two\nlines\tof\x7f"), "two\\nlines\\tof\\x7f");
  EXPECT_EQ(WithoutControls("\xc2\x9b"
                            "31m \xe2\x80\xae"),
            "\\x9b31m \\u202e");
  EXPECT_EQ(WithoutControls("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"), "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
  EXPECT_EQ(FirstControl("plain"), std::nullopt);
  EXPECT_EQ(FirstControl("a\rb\033"), "\\x0d");
}

}  // namespace utf8_test
}  // namespace divvy
