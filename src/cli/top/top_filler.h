// A line of divvy top, filled from the left.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "cli/top/top_frame.h"

namespace divvy::cli {

/// Fills the line column by column; text that does not fit is cut.
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
