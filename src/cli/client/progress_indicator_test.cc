#include "cli/client/progress_indicator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace divvy::cli {
namespace progress_indicator_test {

bool Eventually(const std::function<bool()>& is_so) {
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30); !is_so();) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(ProgressIndicator, ShowsProgressAfterADelayAndErasesIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::FILE* const to = ::fdopen(ends[1], "w");
  ASSERT_NE(to, nullptr);
  std::optional<ProgressIndicator> progress;
  progress.emplace("moving", to, std::chrono::milliseconds(5));
  char text[64] = "";
  // Blocks until the first line is printed; nothing can be read before.
  const ssize_t count = ::read(ends[0], text, sizeof text - 1);
  ASSERT_GT(count, 0);
  EXPECT_TRUE(std::string(text).starts_with("\r\033[Kmoving ... 0 s")) << text;
  progress.reset();
  std::fclose(to);
  std::string rest;
  for (ssize_t n = 0; (n = ::read(ends[0], text, sizeof text)) > 0;) rest.append(text, static_cast<std::size_t>(n));
  EXPECT_TRUE(rest.ends_with("\r\033[K")) << rest;
  ::close(ends[0]);
}

TEST(ProgressIndicator, TheLatestIndicatorIsShownAndMakesRoomForOutput) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const to = ::open_memstream(&text, &size);
  const auto written = [&] {
    ::flockfile(to);
    std::fflush(to);
    std::string said(text, size);
    ::funlockfile(to);
    return said;
  };
  {
    const ProgressIndicator outer("reading", to, std::chrono::milliseconds(1));
    EXPECT_TRUE(Eventually([&] { return written().find("reading") != std::string::npos; }));
    std::optional<ProgressIndicator> inner(std::in_place, "moving", to, std::chrono::milliseconds(1));
    // The outer indicator may have printed a line before the inner one existed; after that the outer one is silent.
    const auto has_said = [&](std::size_t from, int lines) {
      for (const std::string said = written(); lines > 0 && from != std::string::npos; --lines)
        from = said.find("moving", from + 1);
      return from != std::string::npos;
    };
    EXPECT_TRUE(Eventually([&] { return has_said(0, 20); }));
    const std::size_t silent_from = written().size();
    EXPECT_TRUE(Eventually([&] { return has_said(silent_from, 20); }));
    EXPECT_EQ(written().find("reading", silent_from), std::string::npos);
    // A line of the same indicator may come in between.
    EXPECT_TRUE(Eventually([&] {
      ProgressIndicator::ClearLine();
      std::fputs("a note", to);
      return written().find("\r\033[Ka note") != std::string::npos;
    }));
    inner.reset();
  }
  std::fclose(to);
  std::free(text);
}

TEST(ProgressIndicator, FastOperationsShowNothing) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const to = ::open_memstream(&text, &size);
  { const ProgressIndicator progress("moving", to, std::chrono::hours(1)); }
  std::fclose(to);
  EXPECT_EQ(std::string(text, size), "");
  std::free(text);
}

}  // namespace progress_indicator_test
}  // namespace divvy::cli
