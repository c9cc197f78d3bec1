#include "cli/top/top_screen.h"

#define NCURSES_NOMACROS 1  // Their names include move and erase.
#define NCURSES_WIDECHAR 1  // Reads whole characters instead of bytes.
#include <langinfo.h>
#include <ncurses.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace divvy::cli {
namespace {

constexpr int kEscapeKey = 27;
constexpr int kDeleteKey = 127;

attr_t AttributeOf(Colour colour, bool has_colour) {
  if (colour == Colour::kBold) return A_BOLD;
  if (colour == Colour::kDim) return A_DIM;
  if (!has_colour || colour == Colour::kNone) return A_NORMAL;
  return static_cast<attr_t>(COLOR_PAIR(static_cast<short>(colour)));
}

void MakeColours() {
  ::start_color();
  ::use_default_colors();
  constexpr std::pair<Colour, short> kInks[] = {{Colour::kGreen, COLOR_GREEN},
                                                {Colour::kYellow, COLOR_YELLOW},
                                                {Colour::kRed, COLOR_RED},
                                                {Colour::kBlue, COLOR_CYAN}};
  for (const auto& [colour, ink] : kInks) ::init_pair(static_cast<short>(colour), ink, -1);
}

/// Clears the visible screen; what users can scroll up to stays.
void ClearLines(int rows) {
  std::fputs(std::string(static_cast<std::size_t>(rows), '\n').c_str(), stdout);
  // -1 and null mean that the terminal lacks this capability.
  char* const home = ::tigetstr("home");
  if (home != nullptr && reinterpret_cast<std::intptr_t>(home) != -1) ::putp(home);
  std::fflush(stdout);
}

void Begin() {
  ::cbreak();
  ::noecho();
  ::curs_set(0);
  ::keypad(stdscr, TRUE);
  ::mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  ::mouseinterval(0);
}

TopEvent MouseEvent() {
  MEVENT event;
  if (::getmouse(&event) != OK) return {};
  if ((event.bstate & BUTTON4_PRESSED) != 0) return {TopKey::kUp, 0, 0};
  if ((event.bstate & BUTTON5_PRESSED) != 0) return {TopKey::kDown, 0, 0};
  return {TopKey::kClick, 0, static_cast<std::size_t>(std::max(event.y, 0))};
}

TopEvent FunctionKey(wint_t key) {
  switch (key) {
    case KEY_UP:
      return {TopKey::kUp, 0, 0};
    case KEY_DOWN:
      return {TopKey::kDown, 0, 0};
    case KEY_PPAGE:
      return {TopKey::kPageUp, 0, 0};
    case KEY_NPAGE:
      return {TopKey::kPageDown, 0, 0};
    case KEY_HOME:
      return {TopKey::kHome, 0, 0};
    case KEY_END:
      return {TopKey::kEnd, 0, 0};
    case KEY_RESIZE:
      return {TopKey::kResize, 0, 0};
    case KEY_MOUSE:
      return MouseEvent();
    case KEY_ENTER:
      return {TopKey::kEnter, 0, 0};
    case KEY_BACKSPACE:
      return {TopKey::kBackspace, 0, 0};
    default:
      return {};
  }
}

}  // namespace

Result<std::unique_ptr<TopScreen>> TopScreen::Take() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    return FailedPrecondition("divvy top needs a terminal; divvy top --once prints one screen and exits");
  std::setlocale(LC_ALL, "");
  const char* term = std::getenv("TERM");
  ::set_escdelay(25);
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    return FailedPrecondition(
        "the terminal '" + std::string(term == nullptr ? "" : term) +
        "' (TERM) is unknown here; try TERM=xterm divvy top, or print one screen with divvy top --once");
  }
  std::unique_ptr<TopScreen> screen(new TopScreen);
  screen->is_ascii_ = std::string_view(::nl_langinfo(CODESET)) != "UTF-8";
  const char* no_colour = std::getenv("NO_COLOR");
  screen->has_colour_ = ::has_colors() && (no_colour == nullptr || *no_colour == '\0');
  if (screen->has_colour_) MakeColours();
  Begin();
  return screen;
}

TopScreen::~TopScreen() { ::endwin(); }

std::size_t TopScreen::rows() const { return static_cast<std::size_t>(std::max(LINES, 1)); }
std::size_t TopScreen::columns() const { return static_cast<std::size_t>(std::max(COLS, 1)); }

void TopScreen::Draw(const std::vector<TopLine>& rows, std::size_t selected, std::optional<std::size_t> cursor) {
  ::erase();
  for (std::size_t row = 0; row < rows.size() && row < this->rows(); ++row) {
    const attr_t mark = row == selected ? A_REVERSE : A_NORMAL;
    ::move(static_cast<int>(row), 0);
    std::size_t room = columns();
    for (const Cell& span : rows[row].spans) {
      if (room == 0) break;
      const std::string text = Width(span.text) > room ? Cut(span.text, room) : span.text;
      ::attrset(AttributeOf(span.colour, has_colour_) | mark);
      ::addstr(text.c_str());
      room -= Width(text);
    }
    if (mark != A_NORMAL) ::addstr(std::string(room, ' ').c_str());
  }
  ::attrset(A_NORMAL);
  ::curs_set(cursor ? 1 : 0);
  if (cursor) ::move(LINES - 1, static_cast<int>(*cursor));
  ::refresh();
}

TopEvent TopScreen::Wait(int most_ms) {
  ::timeout(most_ms);
  wint_t key = 0;
  const int got = ::get_wch(&key);
  if (got == ERR) return {};
  if (got == KEY_CODE_YES) return FunctionKey(key);
  switch (key) {
    case '\r':
    case '\n':
      return {TopKey::kEnter, 0, 0};
    case kEscapeKey:
      return {TopKey::kEscape, 0, 0};
    case '\b':
    case kDeleteKey:
      return {TopKey::kBackspace, 0, 0};
    default:
      return {TopKey::kCharacter, static_cast<char32_t>(key), 0};
  }
}

void TopScreen::Aside(const std::function<void()>& work) {
  ::def_prog_mode();
  ::endwin();
  ClearLines(LINES);
  work();
  ::reset_prog_mode();
  ::clearok(stdscr, TRUE);
  ::refresh();
}

}  // namespace divvy::cli
