#include "cli/client/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/client/command.h"
#include "cli/client/progress_indicator.h"

namespace divvy::cli {
namespace {

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string_view Code(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kBlue:
      return "\033[34m";
    case Colour::kDim:
      return "\033[2m";
    case Colour::kBold:
      return "\033[1m";
  }
  return "";
}

std::string CsvTitle(const Column& column) {
  return column.csv_title.empty() ? ToLower(column.title) : std::string(column.csv_title);
}

Result<std::vector<std::size_t>> Chosen(const std::vector<Column>& columns, const ListingOptions& options) {
  std::vector<std::size_t> chosen;
  if (options.columns.empty()) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].is_shown_by_default || options.csv) chosen.push_back(i);
    }
    return chosen;
  }
  std::vector<std::string_view> titles;
  std::string known;
  for (const Column& column : columns) {
    titles.push_back(column.title);
    known += (known.empty() ? "" : ",") + std::string(column.title);
  }
  for (const std::string& name : options.columns) {
    const auto at = std::ranges::find_if(columns, [&](const Column& column) {
      return EqualsIgnoringCase(column.title, name) || EqualsIgnoringCase(column.csv_title, name);
    });
    if (at == columns.end()) {
      const auto near = Nearest(name, titles);
      return InvalidArgument("-o: unknown column '" + name + "'" +
                             (near.empty() ? "" : "; did you mean " + std::string(near) + "?") + " (columns: " + known +
                             ")");
    }
    chosen.push_back(static_cast<std::size_t>(at - columns.begin()));
  }
  return chosen;
}

volatile std::sig_atomic_t interrupted = 0;
void OnInterrupt(int) { interrupted = 1; }

/// Returns the column where a line's text begins: after its indentation, or after its label and the spaces behind it.
std::size_t TextColumn(std::string_view line) {
  constexpr std::size_t kWidestLabel = 28;
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  if (gap == std::string_view::npos || gap - begin > kWidestLabel) return begin;
  return std::min(line.find_first_not_of(' ', gap), line.size());
}

bool IsToBeCopied(std::string_view line) {
  constexpr std::array kLabels = {"command", "directory", "output", "errors", "input", "script", "divvy"};
  const std::string_view text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return std::ranges::any_of(kLabels, [&](std::string_view label) { return text.starts_with(label); });
}

void FoldLine(std::string_view line, std::size_t width, std::string& out) {
  const std::size_t column = TextColumn(line);
  const std::string indent(column, ' ');
  std::string_view rest = line;
  bool is_first = true;
  while (true) {
    const std::size_t own = is_first ? 0 : column;
    std::size_t end = 0;  // The end of the words that fit.
    for (std::size_t at = rest.find(' ', is_first ? column : 0);; at = rest.find(' ', at + 1)) {
      const std::size_t stop = std::min(at, rest.size());
      if (end == 0 || own + Width(rest.substr(0, stop)) <= width) end = stop;
      if (at == std::string_view::npos || own + Width(rest.substr(0, stop)) > width) break;
    }
    out += (is_first ? "" : indent) + std::string(rest.substr(0, end)) + "\n";
    rest.remove_prefix(end);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return;
    is_first = false;
  }
}

}  // namespace

std::string Wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out, line;
  const auto flush = [&] {
    out += std::string(indent, ' ') + Paint(Colour::kDim, line) + "\n";
    line.clear();
  };
  for (const std::string_view word : Split(text, ' ')) {
    if (!line.empty() && indent + Width(line) + 1 + Width(word) > width) flush();
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  if (!line.empty()) flush();
  return out;
}

std::string Folded(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool is_whole = width == 0 || Width(line) <= width || TextColumn(line) + 20 > width || IsToBeCopied(line);
    if (is_whole) out.append(text.substr(0, std::min(end + 1, text.size())));
    else FoldLine(line, width, out);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool UsesColour() {
  static const bool uses = [] {
    const char* no_colour = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
           (term == nullptr || std::strcmp(term, "dumb") != 0);
  }();
  return uses;
}

std::string Paint(Colour colour, std::string_view text) {
  if (colour == Colour::kNone || text.empty() || !UsesColour()) return std::string(text);
  return std::string(Code(colour)) + std::string(text) + "\033[0m";
}

int TerminalWidth() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

namespace {

/// Rows of the terminal; a huge number if unknown.
int TerminalHeight() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return std::numeric_limits<int>::max();
  return size.ws_row;
}

/// Checks the format options; called after each of them.
Status OneFormat(const ListingOptions& options) {
  if (options.json && !options.columns.empty())
    return InvalidArgument("-o and --json cannot be combined, because JSON always has every field; omit one of them");
  return OneForm({{"--json", options.json}, {"--csv", options.csv}});
}

}  // namespace

Status OneForm(const std::vector<std::pair<std::string_view, bool>>& forms) {
  std::string_view first;
  for (const auto& [option, is_given] : forms) {
    if (!is_given) continue;
    if (!first.empty())
      return InvalidArgument(std::string(first) + " and " + std::string(option) +
                             " cannot be combined; give only one format");
    first = option;
  }
  return {};
}

std::vector<dialect::Option> ListingOptionTable(ListingOptions& options) {
  std::vector<dialect::Option> table;
  table.push_back(dialect::Option::Flag("json", "Print JSON", [&options](std::string_view) -> Status {
    options.json = true;
    return OneFormat(options);
  }));
  table.push_back(dialect::Option::Flag("csv", "Print CSV with every column and numbers without units",
                                        [&options](std::string_view) -> Status {
                                          options.csv = true;
                                          return OneFormat(options);
                                        }));
  table.push_back(dialect::Option::Value("columns", 'o', "A,B,...", "Print these columns, in this order",
                                         [&options](std::string_view value) -> Status {
                                           for (std::string_view part : Split(value, ',')) {
                                             if (!Trim(part).empty()) options.columns.emplace_back(Trim(part));
                                           }
                                           if (options.columns.empty())
                                             return InvalidArgument("name at least one column");
                                           return OneFormat(options);
                                         },
                                         {"format"}));
  table.push_back(dialect::Option::Flag("watch", 'w', "Refresh until Ctrl-C", dialect::Sets(options.is_watched)));
  table.push_back(dialect::Option::Value(
      "interval", "SECONDS", "Refresh interval of --watch (default: 1)", [&options](std::string_view value) -> Status {
        const auto seconds = ParseNumber(value);
        if (!seconds || *seconds < 0.1 || *seconds > 3600)
          return InvalidArgument("'" + std::string(value) + "' is not a number of seconds from 0.1 to 3600");
        options.interval_s = *seconds;
        return {};
      }));
  table.push_back(dialect::Option::Flag("no-header", "Omit the header line", dialect::Sets(options.has_header, false)));
  return table;
}

void FitInto(std::size_t terminal, const std::vector<Column>& columns, bool are_named, Fit& fit) {
  // Cells cut to kReadable are still useful; kLeast is the minimum.
  constexpr std::size_t kReadable = 16, kLeast = 8;
  const auto total = [&](std::size_t most) {
    std::size_t sum = 2 * (fit.columns.size() - 1);
    for (std::size_t i = 0; i < fit.columns.size(); ++i)
      sum += columns[fit.columns[i]].may_shrink ? std::min(fit.widths[i], most) : fit.widths[i];
    return sum;
  };
  const auto leave_out = [&](std::size_t i) {
    fit.columns.erase(fit.columns.begin() + static_cast<std::ptrdiff_t>(i));
    fit.widths.erase(fit.widths.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (std::size_t i = fit.columns.size(); i-- > 0 && !are_named && total(kReadable) > terminal;) {
    if (columns[fit.columns[i]].may_go) leave_out(i);
  }
  for (std::size_t i = fit.columns.size(); i-- > 1 && !are_named && total(kLeast) > terminal;) {
    if (!columns[fit.columns[i]].may_shrink) leave_out(i);
  }
  for (std::size_t wide = total(std::string::npos); wide > terminal; --wide) {
    std::size_t widest = fit.columns.size();
    for (std::size_t i = 0; i < fit.columns.size(); ++i) {
      const bool is_cut = columns[fit.columns[i]].may_shrink && fit.widths[i] > kLeast;
      if (is_cut && (widest == fit.columns.size() || fit.widths[i] > fit.widths[widest])) widest = i;
    }
    if (widest == fit.columns.size()) break;
    --fit.widths[widest];
  }
}

std::string TextBelow(const std::vector<Column>& columns, const Fit& fit, const std::vector<Cell>& row,
                      std::size_t width) {
  constexpr std::size_t kIndent = 4;
  // A single text needs no title.
  const bool has_titles = std::ranges::count_if(columns, &Column::goes_on_below) > 1;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < fit.columns.size(); ++i) {
    const Column& column = columns[fit.columns[i]];
    const std::string& text = row[fit.columns[i]].text;
    if (column.goes_on_below && Width(text) > fit.widths[i])
      texts.push_back((has_titles ? ToLower(column.title) + ": " : "") + text);
  }
  return Wrapped(Join(texts, "; "), kIndent, width);
}

Result<std::string> RenderTable(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& given,
                                const ListingOptions& options) {
  // Escape control characters, so that each row stays one line.
  std::vector<std::vector<Cell>> rows = given;
  for (auto& row : rows) {
    for (Cell& cell : row) cell.text = WithoutControls(cell.text);
  }
  DIVVY_TRY(const std::vector<std::size_t> chosen, Chosen(columns, options));
  std::string out;
  if (options.csv) {
    for (std::size_t i = 0; i < chosen.size() && options.has_header; ++i)
      out += (i > 0 ? "," : "") + CsvTitle(columns[chosen[i]]);
    if (options.has_header) out += '\n';
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < chosen.size(); ++i) out += (i > 0 ? "," : "") + CsvField(row[chosen[i]].text);
      out += '\n';
    }
    return out;
  }
  Fit fit;
  fit.columns = chosen;
  for (std::size_t index : chosen) {
    std::size_t width = options.has_header ? Width(columns[index].title) : 0;
    for (const auto& row : rows) width = std::max(width, Width(row[index].text));
    fit.widths.push_back(width);
  }
  if (const int terminal = TerminalWidth(); terminal > 0)
    FitInto(static_cast<std::size_t>(terminal), columns, !options.columns.empty(), fit);
  const auto line = [&](auto text_of, auto colour_of) {
    for (std::size_t i = 0; i < fit.columns.size(); ++i) {
      std::string text(text_of(fit.columns[i]));
      if (Width(text) > fit.widths[i]) text = Cut(text, fit.widths[i]);
      const std::string padding(fit.widths[i] - Width(text), ' ');
      const std::string painted = Paint(colour_of(fit.columns[i]), text);
      const bool is_last = i + 1 == fit.columns.size();
      out += columns[fit.columns[i]].is_right_aligned ? padding + painted : painted + (is_last ? "" : padding);
      if (!is_last) out += "  ";
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  if (options.has_header)
    line([&](std::size_t i) { return columns[i].title; }, [](std::size_t) { return Colour::kBold; });
  for (const auto& row : rows) {
    line([&](std::size_t i) { return row[i].text; }, [&](std::size_t i) { return row[i].colour; });
    // If the user chose the columns, do not add text below.
    if (options.columns.empty()) out += TextBelow(columns, fit, row, static_cast<std::size_t>(TerminalWidth()));
  }
  return out;
}

int ShowListing(const ListingOptions& options, const std::function<Result<std::string>()>& draw) {
  if (!options.is_watched) {
    std::optional<ProgressIndicator> progress(std::in_place, "waiting for the daemon");
    auto text = draw();
    progress.reset();
    if (!text) return Fail(text.error());
    std::fwrite(text->data(), 1, text->size(), stdout);
    return 0;
  }
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, nullptr);
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  while (interrupted == 0) {
    auto text = draw();
    std::string frame = text ? *text : "divvy: " + text.error().message + "\n";
    if (is_terminal) {
      // Go home, clear each line to its end, then clear the rest of the screen: this avoids flicker. If the frame is
      // longer than the screen, show its beginning and count the missing lines.
      std::vector<std::string_view> rows = Split(frame, '\n');
      if (!rows.empty() && rows.back().empty()) rows.pop_back();
      const auto room = static_cast<std::size_t>(std::max(TerminalHeight(), 3));
      const std::size_t left_out = rows.size() > room ? rows.size() - room + 1 : 0;
      rows.resize(rows.size() - left_out);
      std::string screen = "\033[H";
      for (const std::string_view row : rows) screen += std::string(row) + "\033[K\n";
      if (left_out > 0) screen += "... " + Plural(static_cast<std::int64_t>(left_out), "more line") + "\033[K\n";
      if (screen.back() == '\n') screen.pop_back();
      frame = screen + "\033[J";
    }
    std::fwrite(frame.data(), 1, frame.size(), stdout);
    std::fflush(stdout);
    const timespec pause{
        static_cast<std::time_t>(options.interval_s),
        static_cast<long>((options.interval_s - static_cast<double>(static_cast<std::time_t>(options.interval_s))) *
                          1e9)};
    ::nanosleep(&pause, nullptr);
  }
  std::fputs("\n", stdout);
  return 0;
}

}  // namespace divvy::cli
