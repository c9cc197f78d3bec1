// A question at the bottom of divvy top. It is answered key by key while the screen keeps updating. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "cli/top/top_frame.h"
#include "cli/top/top_screen.h"

namespace divvy::cli {

class TopQuestion {
 public:
  enum class State { kOpen, kAnswered, kGivenUp };

  /// A question for a line of text: "Show jobs with: ". `hint` follows the typed text if there is room.
  static TopQuestion Line(std::string question, std::string hint);
  /// A question for one key, y or n: "Cancel 577 (", "train", ")?". The name is cut if there is no room.
  static TopQuestion YesOrNo(std::string before, std::string name, std::string after);

  /// Handles one key press and returns the question's new state. Escape gives up any question; n gives up a question
  /// for y or n. Keys without a meaning are ignored.
  State On(const TopEvent& event);
  /// The typed text of a question for a line.
  const std::string& typed() const { return typed_; }
  /// Returns the question and the typed text as one line, at most `columns` wide. If the typed text is too long, only
  /// its end is shown.
  TopLine Shown(std::size_t columns, bool is_ascii) const;
  /// Returns the column of the text cursor in the line that Shown(columns) returns.
  std::size_t Cursor(std::size_t columns) const;

 private:
  TopQuestion() = default;

  std::string question_;
  std::string name_;
  std::string after_;
  std::string hint_;
  std::string typed_;
  bool is_yes_or_no_ = false;
};

}  // namespace divvy::cli
