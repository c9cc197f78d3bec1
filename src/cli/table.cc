#include "cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "cli/command.h"

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
    const auto at =
        std::ranges::find_if(columns, [&](const Column& column) { return EqualsIgnoringCase(column.title, name); });
    if (at == columns.end()) {
      const auto near = Nearest(name, titles);
      return InvalidArgument("-o: there is no column '" + name + "'" +
                             (near.empty() ? "" : "; did you mean " + std::string(near) + "?") + " (columns: " + known +
                             ")");
    }
    chosen.push_back(static_cast<std::size_t>(at - columns.begin()));
  }
  return chosen;
}

volatile std::sig_atomic_t interrupted = 0;
void OnInterrupt(int) { interrupted = 1; }

}  // namespace

// UTF-8 continuation bytes take none.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Cut(std::string_view text, std::size_t width) {
  std::size_t seen = 0, at = 0;
  while (at < text.size()) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && seen++ == width - 1) break;
    ++at;
  }
  return std::string(text.substr(0, at)) + "…";
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

std::vector<dialect::Option> ListingOptionTable(ListingOptions& options) {
  using dialect::Takes;
  std::vector<dialect::Option> table;
  table.push_back({"json",
                   0,
                   Takes::kNothing,
                   "",
                   "Print JSON",
                   [&options](std::string_view) -> Status {
                     options.json = true;
                     return {};
                   },
                   {},
                   false});
  table.push_back({"csv",
                   0,
                   Takes::kNothing,
                   "",
                   "Print CSV with every column",
                   [&options](std::string_view) -> Status {
                     options.csv = true;
                     return {};
                   },
                   {},
                   false});
  table.push_back({"columns",
                   'o',
                   Takes::kValue,
                   "A,B,...",
                   "Print these columns, in this order",
                   [&options](std::string_view value) -> Status {
                     for (std::string_view part : Split(value, ',')) {
                       if (!Trim(part).empty()) options.columns.emplace_back(Trim(part));
                     }
                     if (options.columns.empty()) return InvalidArgument("name at least one column");
                     return {};
                   },
                   {"format"},
                   false});
  table.push_back({"watch",
                   'w',
                   Takes::kNothing,
                   "",
                   "Refresh until Ctrl-C",
                   [&options](std::string_view) -> Status {
                     options.is_watched = true;
                     return {};
                   },
                   {},
                   false});
  table.push_back({"interval",
                   0,
                   Takes::kValue,
                   "SECONDS",
                   "How often --watch refreshes (1)",
                   [&options](std::string_view value) -> Status {
                     const auto seconds = ParseNumber(value);
                     if (!seconds || *seconds < 0.1 || *seconds > 3600)
                       return InvalidArgument("'" + std::string(value) + "' is no number of seconds from 0.1 to 3600");
                     options.interval_s = *seconds;
                     return {};
                   },
                   {},
                   false});
  table.push_back({"no-header",
                   0,
                   Takes::kNothing,
                   "",
                   "Leave the titles out",
                   [&options](std::string_view) -> Status {
                     options.has_header = false;
                     return {};
                   },
                   {},
                   false});
  return table;
}

Result<std::string> RenderTable(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                                const ListingOptions& options) {
  DIVVY_TRY(const std::vector<std::size_t> chosen, Chosen(columns, options));
  std::string out;
  if (options.csv) {
    for (std::size_t i = 0; i < chosen.size() && options.has_header; ++i)
      out += (i > 0 ? "," : "") + ToLower(columns[chosen[i]].title);
    if (options.has_header) out += '\n';
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < chosen.size(); ++i) out += (i > 0 ? "," : "") + CsvField(row[chosen[i]].text);
      out += '\n';
    }
    return out;
  }
  std::vector<std::size_t> widths;
  for (std::size_t index : chosen) {
    std::size_t width = options.has_header ? Width(columns[index].title) : 0;
    for (const auto& row : rows) width = std::max(width, Width(row[index].text));
    widths.push_back(width);
  }
  // On a terminal that is too narrow the columns that may shrink give way, the widest first.
  if (const int terminal = TerminalWidth(); terminal > 0) {
    std::size_t total = 2 * (chosen.size() - 1);
    for (std::size_t width : widths) total += width;
    while (total > static_cast<std::size_t>(terminal)) {
      std::size_t widest = chosen.size();
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (columns[chosen[i]].may_shrink && widths[i] > 8 && (widest == chosen.size() || widths[i] > widths[widest]))
          widest = i;
      }
      if (widest == chosen.size()) break;
      --widths[widest];
      --total;
    }
  }
  const auto line = [&](auto text_of, auto colour_of) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      std::string text(text_of(chosen[i]));
      if (Width(text) > widths[i]) text = Cut(text, widths[i]);
      const std::string padding(widths[i] - Width(text), ' ');
      const std::string painted = Paint(colour_of(chosen[i]), text);
      const bool is_last = i + 1 == chosen.size();
      out += columns[chosen[i]].is_right_aligned ? padding + painted : painted + (is_last ? "" : padding);
      if (!is_last) out += "  ";
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  if (options.has_header)
    line([&](std::size_t i) { return columns[i].title; }, [](std::size_t) { return Colour::kBold; });
  for (const auto& row : rows)
    line([&](std::size_t i) { return row[i].text; }, [&](std::size_t i) { return row[i].colour; });
  return out;
}

int ShowListing(const ListingOptions& options, const std::function<Result<std::string>()>& draw) {
  if (!options.is_watched) {
    auto text = draw();
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
      // Home, each line cleared to its end, then the rest of the screen: nothing flickers.
      std::string screen = "\033[H";
      for (std::string_view row : Split(frame, '\n')) screen += std::string(row) + "\033[K\n";
      screen.pop_back();
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
