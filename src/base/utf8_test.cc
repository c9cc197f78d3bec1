#include "base/utf8.h"

#include <gtest/gtest.h>

namespace divvy {
namespace utf8_test {

TEST(Utf8, ReadsWhatItWrites) {
  for (const std::uint32_t code : {0x41U, 0xE9U, 0x2026U, 0x65E5U, 0x1F680U, 0x10FFFFU}) {
    const Utf8Character read = FirstCharacter(Utf8(code) + "x");
    EXPECT_EQ(read.code, code);
    EXPECT_EQ(read.length, Utf8(code).size());
  }
  EXPECT_EQ(Utf8(0x110000), "");
  EXPECT_EQ(Utf8(0xD800), "");
}

TEST(Utf8, WhatIsNoneIsOneByte) {
  for (const std::string_view broken :
       {"\x80", "\xC0\x80", "\xE6\x97", "\xE6x", "\xED\xA0\x80", "\xFF", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(FirstCharacter(broken).code, 0xFFFDU) << broken;
    EXPECT_EQ(FirstCharacter(broken).length, 1U) << broken;
  }
}

}  // namespace utf8_test
}  // namespace divvy
