#include "cli/top/top_filler.h"

#include <algorithm>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/term/text_width.h"

namespace divvy::cli {
namespace {

/// Replaces each column that ASCII cannot show with a question mark.
std::string InAscii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = FirstCharacter(text).length;
    if (length == 1 && static_cast<unsigned char>(text.front()) < 0x80) out += text.front();
    else out.append(Width(text.substr(0, length)), '?');
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

Filler& Filler::Add(std::string_view text, std::size_t width, Colour colour, bool is_right) {
  width = std::min(width == 0 ? Width(text) : width, room_);
  if (width == 0) return *this;
  room_ -= width;
  const std::string plain = is_ascii_ ? InAscii(text) : "";
  if (is_ascii_) text = plain;
  line_.spans.push_back({Fitted(text, width, is_right, is_ascii_), colour});
  return *this;
}

}  // namespace divvy::cli
