// The answers of the daemon as the commands show them: what other users, machines and older stores put into them cannot
// speak to the terminal.
#pragma once

#include <string>
#include <string_view>

#include "wire/messages/codec.h"

namespace divvy::cli {

/// A JSON text in whose strings each control character (base/utf8.h) is text that shows it, such as "\x1b"; line breaks
/// and tabs stay, which scripts have.
std::string WithoutControlsInJson(std::string_view json);

/// As wire::Decode, but decodes WithoutControlsInJson(json). Commands that show an answer to people use this one; those
/// that print JSON (--json) print the text as it came.
template <typename Message>
Result<Message> DecodeShown(std::string_view json) {
  return wire::Decode<Message>(WithoutControlsInJson(json));
}

}  // namespace divvy::cli
