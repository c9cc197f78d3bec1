// A line of divvy top, filled from the left.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client/table.h"

namespace divvy::cli {

struct TopLine {
  std::vector<Cell> spans;
  std::string job;  // Its display id; empty if the line is not a job.
  std::string gpu;  // "n1:3" or "3"; empty if the line is not a GPU.
  bool is_heading = false;
};

/// Builds a TopLine from left to right, in a given number of columns. Text that does not fit is cut.
class Filler {
 public:
  /// `is_ascii`: the terminal shows no UTF-8.
  Filler(std::size_t columns, bool is_ascii) : room_(columns), is_ascii_(is_ascii) {}

  /// Adds text with `width` columns, cut or padded; 0: the text's own width.
  Filler& Add(std::string_view text, std::size_t width = 0, Colour colour = Colour::kNone, bool is_right = false);
  Filler& Gap(std::size_t width = 1) { return Add(std::string(width, ' ')); }
  /// Columns that are still free.
  std::size_t room() const { return room_; }
  TopLine Take() { return std::move(line_); }
  TopLine& line() { return line_; }

 private:
  std::size_t room_;
  bool is_ascii_;
  TopLine line_;
};

}  // namespace divvy::cli
