// Listings: aligned tables for people, and --json, --csv, -o COLUMNS, --watch for every listing alike.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/term/text_width.h"
#include "dialect/options/options.h"

namespace divvy::cli {

enum class Colour { kNone, kGreen, kYellow, kRed, kBlue, kDim, kBold };

struct Cell {
  std::string text;
  Colour colour = Colour::kNone;
};

struct Column {
  std::string_view title;  // "STATE"; -o names it in any case.
  bool is_right_aligned = false;
  bool is_shown_by_default = true;
  bool may_shrink = false;          // Cut with an ellipsis when the terminal is too narrow.
  bool may_go = false;              // Left out then, unless -o names it: before others are cut beyond what can be read.
  bool goes_on_below = false;       // Where it is cut the whole text stands below the row as well.
  std::string_view csv_title = {};  // "power_watts": of CSV, where its numbers are plain; empty: as `title`.
};

/// True on a terminal without NO_COLOR and with TERM other than "dumb".
bool UsesColour();
std::string Paint(Colour colour, std::string_view text);
/// Columns of stdout; 0 when it is not a terminal.
int TerminalWidth();
/// Lines that are wider than `width` are folded between words, and go on below the text that stands behind their label
/// (two spaces or more after it). 0: as they are. What is to be copied, commands and paths behind such labels, stays
/// whole.
std::string Folded(std::string_view text, std::size_t width);

struct ListingOptions {
  bool json = false;
  bool csv = false;
  bool is_watched = false;
  double interval_s = 1;
  bool has_header = true;
  std::vector<std::string> columns;  // Empty: the default ones.
};
/// Fails where several forms were asked for, each with its option: all but one would be passed over.
Status OneForm(const std::vector<std::pair<std::string_view, bool>>& forms);
/// --json, --csv, -o/--columns, -w/--watch, --interval, --no-header.
std::vector<dialect::Option> ListingOptionTable(ListingOptions& options);

/// Of a table: columns by number, and how wide each is.
struct Fit {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
};
/// Within `terminal` columns: the last that may go goes first, then the widest shrink, as far as they can still be
/// read. What is still too wide loses its last columns that cannot be cut, but never the first.
void FitInto(std::size_t terminal, const std::vector<Column>& columns, bool are_named, Fit& fit);

/// Below a row, on a terminal of `width` columns: the texts that it shows cut of columns that go on below. "": none is.
std::string TextBelow(const std::vector<Column>& columns, const Fit& fit, const std::vector<Cell>& row,
                      std::size_t width);

/// The table (or CSV) as text. An unknown column name is refused, naming those there are.
Result<std::string> RenderTable(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                                const ListingOptions& options);

/// Calls `draw` once, or with --watch again and again, on a cleared screen without flicker, until Ctrl-C.
int ShowListing(const ListingOptions& options, const std::function<Result<std::string>()>& draw);

}  // namespace divvy::cli
