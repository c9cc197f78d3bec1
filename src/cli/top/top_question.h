// A question at the bottom of divvy top: asked while the screen goes on, answered key by key. Pure, as top_frame.h is.
#pragma once

#include <cstddef>
#include <string>

#include "cli/top/top_frame.h"
#include "cli/top/top_screen.h"

namespace divvy::cli {

class TopQuestion {
 public:
  enum class State { kOpen, kAnswered, kGivenUp };

  /// For a line of text: "Show jobs with: ". `hint` stands behind what is typed for as long as there is room.
  static TopQuestion Line(std::string question, std::string hint);
  /// For one key, y or n: "Cancel 577 (", "train", ")?"; of these the name is cut where there is no room.
  static TopQuestion YesOrNo(std::string before, std::string name, std::string after);

  /// Escape gives every question up, n one for y or n; other keys that mean nothing to it are passed over.
  State On(const TopEvent& event);
  /// What was typed, of a line.
  const std::string& typed() const { return typed_; }
  /// No wider than `columns`; what is typed shows its end.
  TopLine Shown(std::size_t columns, bool is_ascii) const;
  /// Where the cursor stands in what is shown.
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
