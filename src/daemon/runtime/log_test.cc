#include "daemon/runtime/log.h"

#include <gtest/gtest.h>

#include <vector>

namespace divvy {
namespace log_test {

TEST(Log, WritesItsLevelAndMoreSevereOnes) {
  std::vector<std::string> lines;
  Log log([&](std::string_view line) { lines.emplace_back(line); });
  const auto write_all = [&] {
    lines.clear();
    for (const LogLevel level :
         {LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff})
      log.Write(level, "event=x");
    return lines.size();
  };
  EXPECT_EQ(write_all(), 3u);  // The default level is info.
  EXPECT_TRUE(lines[0].ends_with(" info event=x")) << lines[0];
  EXPECT_TRUE(lines[2].ends_with(" error event=x")) << lines[2];
  for (const auto& [name, count] :
       {std::pair{"trace", 5u}, {"debug", 4u}, {"info", 3u}, {"warning", 2u}, {"error", 1u}, {"off", 0u}}) {
    log.SetLevel(LogLevelFromName(name));
    EXPECT_EQ(write_all(), count) << name;
  }
}

TEST(Log, AValueCannotBreakItsLine) { EXPECT_EQ(LogQuoted("a \"b\"\nevent=up \\"), R"("a \"b\"\x0aevent=up \\")"); }

}  // namespace log_test
}  // namespace divvy
