#include "simulate/report_text.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace divvy::simulate {
namespace {

/// Length in bytes of the UTF-8 character at the start of `text`. 0: invalid.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (length == 0 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string Decimals(double value, int digits) {
  if (!std::isfinite(value)) value = 0;
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  std::string result = text.data();
  if (result.front() == '-' && result.find_first_not_of("-0.") == std::string::npos) result.erase(0, 1);
  return result;
}

std::string Grouped(double value) {
  std::string digits = Decimals(value, 0);
  const std::size_t sign = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string ShortSeconds(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < 10) return Decimals(seconds, 1) + " s";
  if (seconds < 100) return Decimals(seconds, 0) + " s";
  if (seconds < 100 * kMinute) return Decimals(seconds / kMinute, 1) + " min";
  if (seconds < 100 * kHour) return Decimals(seconds / kHour, 1) + " h";
  return Decimals(seconds / kDay, 1) + " d";
}

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const char c = text.front();
    if (length == 0) {
      out += '?';
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escaped.data();
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

std::string HtmlText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace divvy::simulate
