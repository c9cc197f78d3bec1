#include "cli/client/shown_answer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/utf8.h"

namespace divvy::cli {
namespace {

/// Returns the character that the escape at the beginning of `json` encodes, or 0 for a plain one such as \".
std::uint32_t EscapedControl(std::string_view json) {
  constexpr std::size_t kUnicode = 6;  // \u001b
  if (json.size() < 2) return 0;
  if (json[1] == 'b') return '\b';
  if (json[1] == 'f') return '\f';
  if (json[1] == 'r') return '\r';
  std::uint32_t code = 0;
  if (json[1] == 'u' && json.size() >= kUnicode) std::from_chars(json.data() + 2, json.data() + kUnicode, code, 16);
  return code;
}

}  // namespace

std::string WithoutControlsInJson(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const bool is_escape = json.front() == '\\';
    const Utf8Character character = FirstCharacter(json);
    const std::uint32_t code = is_escape ? EscapedControl(json) : character.code;
    const std::size_t length = !is_escape ? character.length : json.size() > 1 && json[1] == 'u' ? 6 : 2;
    // Line breaks and tabs also occur between values. Invalid characters are left for the parser to reject.
    const bool is_shown = code == 0 || code == '\n' || code == '\t' || !IsControl(code);
    if (is_shown) out += json.substr(0, length);
    else out += "\\" + ControlText(code);
    json.remove_prefix(std::min(length, json.size()));
  }
  return out;
}

}  // namespace divvy::cli
