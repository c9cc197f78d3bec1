#include "daemon/runtime/log.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace divvy {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warning", "error", "off"};

void ToStandardError(std::string_view line) {
  // A single call, so that lines of two threads do not mix.
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

std::string Stamp() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts)};
}

}  // namespace

LogLevel LogLevelFromName(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return LogLevel::kInfo;
}

Log::Log() : sink_(ToStandardError) {}

void Log::Write(LogLevel level, std::string_view line) const {
  if (!Writes(level)) return;
  std::string text = Stamp();
  text.append(" ").append(kNames[static_cast<std::size_t>(level)]).append(" ").append(line);
  sink_(text);
}

std::string LogQuoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < ' ' || byte == 127) {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace divvy
