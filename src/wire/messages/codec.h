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

/// Writes every field, including defaults. Used for the daemon's answers and for --json.
template <typename Message>
std::string Encode(const Message& message);

/// Writes only fields that differ from their defaults, which Decode restores. Used for client requests.
template <typename Message>
std::string EncodeChanged(const Message& message);

/// Ignores unknown fields and sets missing ones to their defaults. Fails with kInvalidArgument and lists every wrong
/// field by its path.
template <typename Message>
Result<Message> Decode(std::string_view text);

/// The same. `notes`, if it is not null, receives a line for each field that has only its name of the last release.
template <typename Message>
Result<Message> Decode(std::string_view text, std::vector<std::string>* notes);

/// The JSON type of the message, for the OpenAPI document.
template <typename Message>
const JsonType& TypeOf();

}  // namespace divvy::wire
