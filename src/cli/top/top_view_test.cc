#include "cli/top/top_view.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace divvy::cli {
namespace top_view_test {

TopLine Line(const std::string& text, const std::string& job, bool is_heading) {
  TopLine line;
  line.spans.push_back({text, Colour::kNone});
  line.job = job;
  line.is_heading = is_heading;
  return line;
}

std::vector<TopLine> Lines(std::size_t gpus, std::size_t running, std::size_t waiting) {
  std::vector<TopLine> lines;
  for (std::size_t i = 0; i < gpus; ++i) lines.push_back(Line("gpu " + std::to_string(i), "", false));
  const auto add = [&](const std::string& title, const std::string& letter, std::size_t count) {
    if (count > 0) lines.push_back(Line(title, "", true));
    for (std::size_t i = 1; i <= count; ++i)
      lines.push_back(Line(letter + std::to_string(i), letter + std::to_string(i), false));
  };
  add("Running", "r", running);
  add("Waiting", "w", waiting);
  return lines;
}

std::vector<std::string> Shown(TopView& view, const std::vector<TopLine>& lines, std::size_t cursor, std::size_t room) {
  std::vector<std::string> out;
  for (const TopView::Row& row : view.Rows(lines, cursor, room, false)) {
    std::string text = row.line.spans.front().text;
    text.erase(0, text.find_first_not_of(' '));
    out.push_back(text);
    EXPECT_LT(row.index, lines.size());
  }
  EXPECT_LE(out.size(), room);
  return out;
}

bool Has(const std::vector<std::string>& rows, const std::string& row) {
  return std::ranges::find(rows, row) != rows.end();
}

using Rows = std::vector<std::string>;

// On a terminal of 80x24 with 12 GPUs, the GPUs take eleven lines.
TEST(TopView, RunningJobsLeaveRoomForWaitingJobs) {
  TopView view;
  const Rows rows = Shown(view, Lines(11, 8, 20), 0, 22);
  EXPECT_EQ(rows.size(), 22u);
  EXPECT_EQ(Rows(rows.begin() + 11, rows.end()),
            (Rows{"Running", "r1", "r2", "r3", "… 5 more", "Waiting", "w1", "w2", "w3", "w4", "… 16 more"}));
  // A list that needs few lines leaves the rest to the other list.
  const Rows few = Shown(view, Lines(11, 8, 1), 0, 22);
  EXPECT_EQ(Rows(few.end() - 4, few.end()), (Rows{"r7", "r8", "Waiting", "w1"}));
  const Rows running = Shown(view, Lines(11, 2, 20), 0, 22);
  EXPECT_EQ(Rows(running.end() - 3, running.end()), (Rows{"w5", "w6", "… 14 more"}));
}

TEST(TopView, EachListScrollsToAllOfItsJobs) {
  TopView view;
  const std::vector<TopLine> lines = Lines(11, 8, 20);
  for (std::size_t at = 0; at < lines.size(); ++at)
    EXPECT_TRUE(Has(Shown(view, lines, at, 22), lines[at].spans.front().text)) << at;
  const Rows rows = Shown(view, lines, 11 + 6, 22);
  EXPECT_EQ(Rows(rows.begin() + 11, rows.end()),
            (Rows{"Running", "r6", "r7", "r8", "… 5 above", "Waiting", "w17", "w18", "w19", "w20", "… 16 above"}));
  EXPECT_EQ(view.page(), 3u);
  EXPECT_TRUE(Has(Shown(view, lines, 11 + 5, 22), "… 4 above, 1 below"));
  for (std::size_t at = lines.size(); at-- > 0;)
    EXPECT_TRUE(Has(Shown(view, lines, at, 22), lines[at].spans.front().text)) << at;
  EXPECT_EQ(Shown(view, lines, 0, 22)[12], "r1");
}

TEST(TopView, IsOneListIfThereIsRoomForAllOrForNone) {
  TopView view;
  EXPECT_EQ(Shown(view, Lines(4, 3, 3), 0, 12).size(), 12u);
  EXPECT_EQ(Shown(view, Lines(64, 3, 3), 0, 22).back(), "gpu 21");
  EXPECT_EQ(Shown(view, Lines(64, 3, 3), 71, 22).back(), "w3");
  EXPECT_EQ(Shown(view, Lines(2, 3, 3), 9, 1), Rows{"w3"});
  EXPECT_EQ(Shown(view, Lines(2, 3, 3), 9, 5).back(), "w3");
  EXPECT_TRUE(Shown(view, {}, 0, 5).empty());
}

}  // namespace top_view_test
}  // namespace divvy::cli
