// The option lines of a script: "# GFLOW --gpus 2", "# DIVVY --time 2h". As in Slurm, they must precede the first
// command, so that all requests are at the top. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace divvy::dialect {

struct OptionLine {
  int number = 0;                  // From 1.
  std::string text;                // As written.
  std::vector<std::string> words;  // Split as a shell does; '#' at the start of a word ends the line.
  std::string error;               // Not empty: an unclosed quote.
};

struct OptionLines {
  std::vector<OptionLine> lines;
  /// Lines that look like options but are ignored.
  struct Unread {
    int number = 0;
    std::string text;
    std::string why;
  };
  std::vector<Unread> unread;
};

/// `mark` is "GFLOW" or "DIVVY"; "# GFLOW" and "#GFLOW" both count.
OptionLines FindOptionLines(std::string_view script, std::string_view mark);

/// "train.sh line 3: "
std::string AtLine(std::string_view path, int number);

}  // namespace divvy::dialect
