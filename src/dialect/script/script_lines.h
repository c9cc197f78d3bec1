// The option lines of a script: "# GFLOW --gpus 2", "# DIVVY --time 2h". They stand before the first command, as
// Slurm's do, so that what a script asks for can be read at its top. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace divvy::dialect {

struct OptionLine {
  int number = 0;                  // From 1.
  std::string text;                // As written.
  std::vector<std::string> words;  // Split as a shell does; a word that begins with '#' ends the line.
  std::string error;               // Not empty: a quote is not closed.
};

struct OptionLines {
  std::vector<OptionLine> lines;
  /// Lines that look like options and are not read.
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
