// Listings: aligned tables for users, and --json, --csv, -o COLUMNS and --watch for every listing.
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
  bool may_go = false;              // Left out if the terminal is too narrow, unless -o names it. Goes before other
                                    // columns become unreadable.
  bool goes_on_below = false;       // If it is cut, the whole text is repeated below the row.
  std::string_view csv_title = {};  // Title in CSV, where numbers have no unit ("power_watts"). Empty: `title`.
};

/// True on a terminal without NO_COLOR and with TERM other than "dumb".
bool UsesColour();
std::string Paint(Colour colour, std::string_view text);
/// Returns the width of the terminal in columns; 0 if stdout is not a terminal.
int TerminalWidth();
/// Folds lines wider than `width` between words. Continuation lines are indented to the text after their label (which
/// two or more spaces follow). 0: no folding. Lines that users copy, such as commands and paths behind their labels,
/// stay whole.
std::string Folded(std::string_view text, std::size_t width);

/// Wraps `text` into lines of at most `width` columns, each after `indent` spaces.
std::string Wrapped(const std::string& text, std::size_t indent, std::size_t width);

struct ListingOptions {
  bool json = false;
  bool csv = false;
  bool is_watched = false;
  double interval_s = 1;
  bool has_header = true;
  std::vector<std::string> columns;  // Empty: the default ones.
};
/// Fails if more than one output form (--json, --csv, ...) was requested, because only one can be printed. `forms` has
/// the option of each form, and whether it was given.
Status OneForm(const std::vector<std::pair<std::string_view, bool>>& forms);
/// --json, --csv, -o/--columns, -w/--watch, --interval, --no-header.
std::vector<dialect::Option> ListingOptionTable(ListingOptions& options);

/// The chosen columns of a table, by number, and their widths.
struct Fit {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
};
/// Fits the columns into `terminal` columns. First it drops columns with may_go, the last one first. Then it drops
/// other columns that cannot shrink, the last one first, but never the first column. Last, it cuts the widest columns,
/// down to a readable width.
void FitInto(std::size_t terminal, const std::vector<Column>& columns, bool are_named, Fit& fit);

/// The full texts of a row's cut columns that have goes_on_below, for a terminal of `width` columns. "" if there are
/// none.
std::string TextBelow(const std::vector<Column>& columns, const Fit& fit, const std::vector<Cell>& row,
                      std::size_t width);

/// Returns the table (or CSV) as text. Fails for an unknown column name, naming the known ones.
Result<std::string> RenderTable(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                                const ListingOptions& options);

/// Calls `draw` once, or with --watch again and again, on a cleared screen without flicker, until Ctrl-C.
int ShowListing(const ListingOptions& options, const std::function<Result<std::string>()>& draw);

}  // namespace divvy::cli
