#include "wire/messages/agent_codec.h"

#include <algorithm>

#include "wire/http/frame.h"
#include "wire/json/json.h"
#include "wire/messages/agent_messages_describe.h"

namespace divvy::wire {
namespace {

/// Limits for a message between agent and controller. It may have a sweep with 100,000 values in each of ten columns,
/// at 32 bytes per value.
constexpr JsonLimits kAgentLimits = {std::size_t{40} << 20, 32, std::size_t{1} << 21};

}  // namespace

Result<int> ChooseAgentVersion(const std::vector<int>& offered) {
  int best = 0;
  std::string text;
  for (const int version : offered) {
    if (version >= kOldestAgentVersion && version <= kAgentVersion) best = std::max(best, version);
    text += (text.empty() ? "" : ", ") + std::to_string(version);
  }
  if (best != 0) return best;
  return FailedPrecondition("the agent uses protocol version " + (text.empty() ? "none" : text) + ", this controller " +
                            std::to_string(kOldestAgentVersion) + " to " + std::to_string(kAgentVersion) +
                            "; bring both to releases at most one apart");
}

template <typename Message>
std::string EncodeAgent(const Message& message) {
  return ToJson(message, Fields::kChanged);
}

template <typename Message>
Result<Message> DecodeAgent(std::string_view text) {
  return FromJson<Message>(text, Unknown::kIgnore, kAgentLimits);
}

std::string EncodeAsk(const NumberedQuestion& ask) {
  std::string payload;
  AppendNumber(payload, ask.number);
  return payload + ToJson(ask.question, Fields::kChanged);
}

Result<NumberedQuestion> DecodeAsk(std::string_view payload) {
  const auto number = TakeNumber(payload);
  if (!number) return InvalidArgument("a query has no number");
  DIVVY_TRY(AgentQuestion question, FromJson<AgentQuestion>(payload, Unknown::kIgnore, kAgentLimits));
  return NumberedQuestion{*number, std::move(question)};
}

// A file's bytes need not be valid text, so they follow the JSON unencoded.
std::string EncodeAnswer(const NumberedAnswer& answer) {
  const std::string head = ToJson(answer.answer, Fields::kChanged);
  std::string payload;
  AppendNumber(payload, answer.number);
  AppendNumber(payload, head.size());
  return payload + head + answer.bytes;
}

Result<NumberedAnswer> DecodeAnswer(std::string_view payload) {
  const auto number = TakeNumber(payload);
  const auto head = TakeNumber(payload);
  if (!number || !head || *head > payload.size()) return InvalidArgument("an answer is truncated");
  if (payload.size() - *head > static_cast<std::size_t>(kAnswerBytes)) {
    return InvalidArgument("an answer brings " + std::to_string(payload.size() - *head) + " bytes, at most " +
                           std::to_string(kAnswerBytes) + " are taken");
  }
  DIVVY_TRY(AgentAnswer answer, FromJson<AgentAnswer>(payload.substr(0, *head), Unknown::kIgnore, kAgentLimits));
  return NumberedAnswer{*number, std::move(answer), std::string(payload.substr(*head))};
}

#define DIVVY_AGENT_MESSAGE(Message)                        \
  template std::string EncodeAgent(const Message& message); \
  template Result<Message> DecodeAgent<Message>(std::string_view text);

DIVVY_AGENT_MESSAGE(AgentHello)
DIVVY_AGENT_MESSAGE(AgentWelcome)
DIVVY_AGENT_MESSAGE(AgentRefused)
DIVVY_AGENT_MESSAGE(AgentCommand)
DIVVY_AGENT_MESSAGE(AgentReport)
DIVVY_AGENT_MESSAGE(MachineFacts)
DIVVY_AGENT_MESSAGE(ChannelPurpose)
DIVVY_AGENT_MESSAGE(RunDescription)

#undef DIVVY_AGENT_MESSAGE

}  // namespace divvy::wire
