// The text form of the messages between a node and its keeper, the process that manages the node's shared GPUs.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/messages/share_messages.h"

namespace divvy::wire {

/// Returns the message as one line of JSON without a line feed, with only the fields that differ from their defaults.
template <typename Message>
std::string EncodeShare(const Message& message);
/// Parses a message: a KeeperRequest or a KeeperLine. Fails with kInvalidArgument and lists every invalid field by its
/// path.
template <typename Message>
Result<Message> DecodeShare(std::string_view text);

}  // namespace divvy::wire
