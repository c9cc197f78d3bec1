#include "cli/shims/gflow/gflow_words.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/term/text_width.h"

extern char** environ;

namespace divvy::cli {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

/// Returns argv for exec. argv[0] is "divvy"; with the name of the present tool (gqueue, ...), the program would act as
/// that tool again.
std::vector<char*> Argv(std::vector<std::string>& words) {
  words.insert(words.begin(), "divvy");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace

void AddGlobalOptions(std::vector<dialect::Option>& options) {
  auto ignore = [](std::string_view) -> Status { return {}; };
  for (std::string_view name : {"config", "verbose", "quiet"}) {
    bool is_there =
        std::any_of(options.begin(), options.end(), [&](const dialect::Option& option) { return option.name == name; });
    if (is_there) continue;
    dialect::Option option;
    option.name = name;
    char letter = name == "verbose" ? 'v' : name == "quiet" ? 'q' : '\0';
    bool is_letter_free = std::none_of(options.begin(), options.end(),
                                       [&](const dialect::Option& other) { return other.letter == letter; });
    option.letter = is_letter_free ? letter : '\0';
    option.takes = name == "config" ? dialect::Takes::kValue : dialect::Takes::kNothing;
    option.apply = ignore;
    option.is_hidden = true;
    options.push_back(std::move(option));
  }
}

std::string UsageText(std::string_view usage, const std::vector<dialect::Option>& options) {
  std::vector<std::vector<std::string>> rows;
  for (const dialect::Option& option : options) {
    if (option.is_hidden) continue;
    std::string left = option.letter != 0 ? std::string("  -") + option.letter + ", --" : "      --";
    left += option.name;
    if (option.takes != dialect::Takes::kNothing) {
      left += " " + std::string(option.value_name.empty() ? std::string_view("VALUE") : option.value_name);
    }
    rows.push_back({left, std::string(option.help)});
  }
  return "usage: " + std::string(usage) + "\n" + (rows.empty() ? "" : "\n") + AlignRows(rows);
}

Result<std::vector<std::string>> ParseIdList(std::string_view text) {
  std::vector<std::string> out;
  for (std::string_view part : Split(text, ',')) {
    part = Trim(part);
    if (part.empty())
      return InvalidArgument("'" + std::string(text) + "' is not a list of jobs; write ids such as 12 or 1-3,7");
    out.emplace_back(part);
  }
  return out;
}

int BecomeDivvy(const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  std::vector<char*> argv = Argv(all);
  std::fflush(stdout);
  ::execv(kSelf, argv.data());
  return Fail(Internal("cannot run " + std::string(kSelf) + ": " + std::strerror(errno)));
}

int RunDivvy(const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  std::vector<char*> argv = Argv(all);
  std::fflush(stdout);
  pid_t pid = 0;
  if (int error = ::posix_spawn(&pid, kSelf, nullptr, nullptr, argv.data(), environ); error != 0) {
    return Fail(Internal("cannot run " + std::string(kSelf) + ": " + std::strerror(error)));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string LongClock(double seconds) {
  auto total = static_cast<long long>(std::max(0.0, seconds));
  std::array<char, 48> out{};
  std::snprintf(out.data(), out.size(), "%02lld:%02lld:%02lld", total / 3600 % 24, total / 60 % 60, total % 60);
  return total >= 86400 ? std::to_string(total / 86400) + "-" + out.data() : out.data();
}

std::string AlignRows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string CsvRow(const std::vector<std::string>& cells, char separator) {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += separator;
    if (cells[i].find_first_of(std::string("\"\n\r") + separator) == std::string::npos) {
      out += cells[i];
      continue;
    }
    out += '"';
    for (char c : cells[i]) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out + "\n";
}

}  // namespace divvy::cli
