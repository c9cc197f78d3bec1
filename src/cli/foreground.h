// The terminal in raw mode for as long as a job has it; put back whatever happens.
#pragma once

#include <termios.h>

namespace divvy::cli {

class RawTerminal {
 public:
  /// Does nothing when not wanted, or when stdin is no terminal.
  explicit RawTerminal(bool is_wanted);
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

  /// For who ends the process from another thread: puts the terminal back as it was, if one is raw.
  static void Restore();

 private:
  termios before_{};
  bool is_raw_ = false;
};

}  // namespace divvy::cli
