// Selects which of divvy top's lines are visible: GPUs, running jobs and the waiting list share the screen. Pure.
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
    std::size_t index = 0;     // Index of the line. A row that counts hidden lines has the nearest hidden line's index.
    bool is_left_out = false;  // It counts hidden lines: "… 5 more".
  };

  /// `lines` come from TopLines(); returns at most `room` (>= 1) rows. If not all fit, each list of jobs keeps its
  /// titles and at least two rows. The list that contains line `cursor` is scrolled so that this line is visible.
  std::vector<Row> Rows(const std::vector<TopLine>& lines, std::size_t cursor, std::size_t room, bool is_ascii);
  /// The number of lines that Page Up and Page Down move the cursor: as many as the list with the cursor showed in the
  /// last call of Rows().
  std::size_t page() const { return page_; }

 private:
  struct Section {
    std::size_t begin = 0;  // Its titles, if it has any.
    std::size_t end = 0;
  };

  void AddSection(const std::vector<TopLine>& lines, const Section& section, std::size_t cursor, std::size_t room,
                  bool is_ascii, std::size_t& first, std::vector<Row>& out);

  std::vector<std::size_t> first_;  // For each list, how many of its lines are above the visible ones.
  std::size_t page_ = 1;
};

}  // namespace divvy::cli
