#include "cli/patience.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

namespace divvy::cli {
namespace patience_test {

TEST(Patience, SaysThatItIsUnderWayAndTakesItBack) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::FILE* const to = ::fdopen(ends[1], "w");
  ASSERT_NE(to, nullptr);
  std::optional<Patience> patience;
  patience.emplace("moving", to, std::chrono::milliseconds(5));
  char text[64] = "";
  // Until it says so: there is nothing to read before.
  const ssize_t count = ::read(ends[0], text, sizeof text - 1);
  ASSERT_GT(count, 0);
  EXPECT_TRUE(std::string(text).starts_with("\r\033[Kmoving ... 0 s")) << text;
  patience.reset();
  std::fclose(to);
  std::string rest;
  for (ssize_t n = 0; (n = ::read(ends[0], text, sizeof text)) > 0;) rest.append(text, static_cast<std::size_t>(n));
  EXPECT_TRUE(rest.ends_with("\r\033[K")) << rest;
  ::close(ends[0]);
}

TEST(Patience, WhoBeganLastSpeaksAndMakesWayForALine) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const to = ::open_memstream(&text, &size);
  {
    const Patience outer("reading", to, std::chrono::milliseconds(300));
    std::optional<Patience> inner(std::in_place, "moving", to, std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    Patience::ClearLine();
    std::fputs("a note", to);
    inner.reset();
  }
  std::fclose(to);
  const std::string said(text, size);
  std::free(text);
  EXPECT_NE(said.find("\r\033[Ka note"), std::string::npos) << said;
  EXPECT_EQ(said.substr(0, said.find("a note")).find("reading"), std::string::npos) << said;
}

TEST(Patience, WhatIsQuickIsSilent) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const to = ::open_memstream(&text, &size);
  { const Patience patience("moving", to, std::chrono::hours(1)); }
  std::fclose(to);
  EXPECT_EQ(std::string(text, size), "");
  std::free(text);
}

}  // namespace patience_test
}  // namespace divvy::cli
