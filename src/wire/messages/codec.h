// Converts messages to and from JSON without including the templates. Every file that sends or reads a message uses
// this header. The list at the end of codec.cc names all instantiated messages; others do not link.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "wire/messages/messages.h"

namespace divvy {
struct JsonType;
}

namespace divvy::wire {

/// Returns the message as JSON with every field, including defaults. Used for the daemon's answers and for --json.
template <typename Message>
std::string Encode(const Message& message);

/// Returns the message as JSON with only the fields that differ from their defaults; Decode restores the others. Used
/// for client requests.
template <typename Message>
std::string EncodeChanged(const Message& message);

/// Parses a message. Ignores unknown fields and sets missing ones to their defaults. Fails with kInvalidArgument and
/// lists every invalid field by its path.
template <typename Message>
Result<Message> Decode(std::string_view text);

/// Like Decode above. `notes`, if it is not null, receives a line for each field that was given only under its name in
/// the last release.
template <typename Message>
Result<Message> Decode(std::string_view text, std::vector<std::string>* notes);

/// The JSON type of the message, for the OpenAPI document.
template <typename Message>
const JsonType& TypeOf();

}  // namespace divvy::wire
