// The text forms of the messages between controller and agent, and the version that both speak.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/messages/agent_messages.h"

namespace divvy::wire {

/// Returns the newest protocol version of `offered` that this build supports. If there is none, fails with
/// kFailedPrecondition and names the versions of both sides.
Result<int> ChooseAgentVersion(const std::vector<int>& offered);

/// Returns the message as JSON, with only the fields that differ from their defaults.
template <typename Message>
std::string EncodeAgent(const Message& message);
/// Parses a message. Fails with kInvalidArgument and lists every invalid field by its path.
template <typename Message>
Result<Message> DecodeAgent(std::string_view text);

std::string EncodeAsk(const NumberedQuestion& ask);
std::string EncodeAnswer(const NumberedAnswer& answer);
/// DecodeAsk parses a question of the controller, DecodeAnswer an agent's answer. Both fail with kInvalidArgument if
/// the payload is invalid.
Result<NumberedQuestion> DecodeAsk(std::string_view payload);
Result<NumberedAnswer> DecodeAnswer(std::string_view payload);

}  // namespace divvy::wire
