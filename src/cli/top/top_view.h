// Which of divvy top's lines are on the screen: GPUs, running jobs and the waiting list share it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cli/top/top_frame.h"

namespace divvy::cli {

class TopView {
 public:
  struct Row {
    TopLine line;
    std::size_t index = 0;     // Of the lines; of a row that counts what is left out, the line that is nearest.
    bool is_left_out = false;  // It counts them: "… 5 more".
  };

  /// `lines` as TopLines() made them; at most `room` (>= 1) rows. Where there is not room for all, each list of jobs
  /// keeps its titles and at least two rows; the list that the line `cursor` is in shows it.
  std::vector<Row> Rows(const std::vector<TopLine>& lines, std::size_t cursor, std::size_t room, bool is_ascii);
  /// Lines that a key for a page goes by: as many as the list that `cursor` was in showed last.
  std::size_t page() const { return page_; }

 private:
  struct Section {
    std::size_t begin = 0;  // Its titles, where it has them.
    std::size_t end = 0;
  };

  void AddSection(const std::vector<TopLine>& lines, const Section& section, std::size_t cursor, std::size_t room,
                  bool is_ascii, std::size_t& first, std::vector<Row>& out);

  std::vector<std::size_t> first_;  // Of each list, how many of its lines are above those that show.
  std::size_t page_ = 1;
};

}  // namespace divvy::cli
