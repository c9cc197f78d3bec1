// Messages to and from JSON without the templates behind it: for every file that sends or reads a message. What is
// instantiated is the list at the end of codec.cc; a message that is missing there does not link.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job.h"
#include "wire/messages/messages.h"

namespace divvy {
struct JsonType;
}

namespace divvy::wire {

/// Every field, also those at their defaults: what the daemon answers and what --json prints.
template <typename Message>
std::string Encode(const Message& message);

/// Only what differs from the defaults, which Decode fills in again: what a client sends.
template <typename Message>
std::string EncodeChanged(const Message& message);

/// Unknown fields are ignored, missing ones take their defaults. Fails with kInvalidArgument and every wrong field by
/// its path.
template <typename Message>
Result<Message> Decode(std::string_view text);

/// How the message looks in JSON, for the OpenAPI document.
template <typename Message>
const JsonType& TypeOf();

}  // namespace divvy::wire
