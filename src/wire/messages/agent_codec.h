// The text forms of the messages between controller and agent, and the version that both speak.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/messages/agent_messages.h"

namespace divvy::wire {

/// Returns the newest of `offered` that this build speaks. Fails with kFailedPrecondition, naming both sides' versions.
Result<int> ChooseAgentVersion(const std::vector<int>& offered);

/// Writes only the fields that differ from their defaults.
template <typename Message>
std::string EncodeAgent(const Message& message);
/// Fails with kInvalidArgument and lists every wrong field by its path.
template <typename Message>
Result<Message> DecodeAgent(std::string_view text);

std::string EncodeAsk(const NumberedQuestion& ask);
std::string EncodeAnswer(const NumberedAnswer& answer);
/// Both fail with kInvalidArgument if `payload` is not a valid question or answer.
Result<NumberedQuestion> DecodeAsk(std::string_view payload);
Result<NumberedAnswer> DecodeAnswer(std::string_view payload);

}  // namespace divvy::wire
