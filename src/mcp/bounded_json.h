// Rewrites JSON so that it is short and harmless to read, for readers that pay for every byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::mcp {

/// Returns `json` in at most `most` bytes. Leaves out null, "", [] and {}. Within members named "request", "share" and
/// "fraction" it also leaves out 0 and false, which mean "not requested" there. If the result is too long, it cuts long
/// texts and lists; a text at the cut says how much is left out. Control characters in texts become visible text such
/// as "\x1b"; line breaks and tabs stay. Fails with kInvalidArgument if `json` is not JSON. Requires: most >= 100.
Result<std::string> BoundedJson(std::string_view json, std::size_t most);

/// Returns the beginning of `text` in at most `most` bytes, with a note if something is left out. Control characters
/// become visible text; line breaks and tabs stay. Requires: most >= 100.
std::string BoundedText(std::string_view text, std::size_t most);

/// Returns the last part of `text` in at most `most` bytes, from the beginning of a line if possible. The first line is
/// a note if something is left out, or was already (`is_cut_already`). Control characters become visible text; line
/// breaks and tabs stay.
std::string BoundedTail(std::string_view text, std::size_t most, bool is_cut_already);

}  // namespace divvy::mcp
