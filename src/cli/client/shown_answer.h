// Decodes the daemon's responses for display. Text in them from other users, nodes and older stores cannot send control
// sequences to the terminal.
#pragma once

#include <string>
#include <string_view>

#include "wire/messages/codec.h"

namespace divvy::cli {

/// Escapes each control character (base/utf8.h) in the strings of a JSON text as visible text such as "\x1b". Line
/// breaks and tabs stay, because scripts contain them.
std::string WithoutControlsInJson(std::string_view json);

/// Like wire::Decode, but decodes WithoutControlsInJson(json). Commands that show a response to users call this one.
/// For --json, commands print the response unchanged instead.
template <typename Message>
Result<Message> DecodeShown(std::string_view json) {
  return wire::Decode<Message>(WithoutControlsInJson(json));
}

}  // namespace divvy::cli
