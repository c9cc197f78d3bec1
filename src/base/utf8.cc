#include "base/utf8.h"

#include <cstdio>

namespace divvy {

std::string Utf8(std::uint32_t code) {
  if (code >= 0x110000 || (code >= 0xD800 && code < 0xE000)) return "";
  std::string out;
  const auto add = [&out](std::uint32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (code < 0x80) {
    add(code);
    return out;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  add(kLead[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) add(0x80 | (code >> (6 * i) & 0x3F));
  return out;
}

Utf8Character FirstCharacter(std::string_view text) {
  constexpr Utf8Character kBroken = {0xFFFD, 1};
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return kBroken;
  std::uint32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return kBroken;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  // Overlong encodings and surrogates are not characters.
  return Utf8(code).size() == length ? Utf8Character{code, length} : kBroken;
}

bool IsControl(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::string ControlText(std::uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
  return text;
}

std::string WithoutControls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (IsControl(character.code)) out += ControlText(character.code);
    else out += text.substr(0, character.length);
    text.remove_prefix(character.length);
  }
  return out;
}

std::optional<std::string> FirstControl(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (IsControl(character.code)) return ControlText(character.code);
    text.remove_prefix(character.length);
  }
  return std::nullopt;
}

}  // namespace divvy
