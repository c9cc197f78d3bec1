// The text form of the messages between a node and its keeper.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/messages/share_messages.h"

namespace divvy::wire {

/// One line without its line feed. Only fields that differ from their defaults.
template <typename Message>
std::string EncodeShare(const Message& message);
/// For KeeperRequest and KeeperLine. Fails with kInvalidArgument and lists every wrong field by its path.
template <typename Message>
Result<Message> DecodeShare(std::string_view text);

}  // namespace divvy::wire
