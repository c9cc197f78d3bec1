// The terminal of divvy top: lines with colours, keys and the mouse. ncurses' names stay in top_screen.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/top/top_frame.h"

namespace divvy::cli {

enum class TopKey {
  kNone,
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kResize,
  kClick
};

struct TopEvent {
  TopKey key = TopKey::kNone;  // kNone: no event before the timeout.
  char32_t character = 0;
  std::size_t row = 0;  // For a click.
};

class TopScreen {
 public:
  /// Takes over the terminal until destruction. Fails with kFailedPrecondition if there is no terminal or an unknown
  /// one.
  static Result<std::unique_ptr<TopScreen>> Take();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  std::size_t rows() const;
  std::size_t columns() const;
  bool is_ascii() const { return is_ascii_; }

  /// Shows `rows` on the terminal. `selected`: the row to highlight; rows.size(): none. `cursor`: the column of the
  /// text cursor in the last row; nullopt: the text cursor is hidden. Sends only what changed since the last call.
  void Draw(const std::vector<TopLine>& rows, std::size_t selected, std::optional<std::size_t> cursor);
  TopEvent Wait(int most_ms);
  /// Runs `work` with the terminal in its normal mode and an empty screen, then takes over the terminal again.
  void Aside(const std::function<void()>& work);

 private:
  TopScreen() = default;
  bool is_ascii_ = false;
  bool has_colour_ = false;
};

}  // namespace divvy::cli
