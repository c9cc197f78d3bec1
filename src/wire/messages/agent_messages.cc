#include "wire/messages/agent_messages.h"

#include <algorithm>

#include "wire/http/frame.h"
#include "wire/json/json.h"
#include "wire/messages/agent_messages_describe.h"

namespace divvy::wire {
namespace {

/// A sweep may have 100,000 values in each of ten columns, at 32 bytes per value.
constexpr JsonLimits kAgentLimits = {std::size_t{40} << 20, 32, std::size_t{1} << 21};

// Copies all fields that both types have, by name.
template <typename To, typename From>
To Copied(const From& from) {
  To to;
  to.id = from.id;
  to.spec_of = from.spec_of;
  to.state = from.state;
  to.user = from.user;
  to.name = from.name;
  to.request = from.request;
  to.priority = from.priority;
  to.submitted = from.submitted;
  to.started = from.started;
  to.time_limit = from.time_limit;
  to.node = from.node;
  to.gpus = from.gpus;
  to.gang = from.gang;
  to.was_let_go = from.was_let_go;
  to.gpu_model = from.gpu_model;
  to.gpu_slice = from.gpu_slice;
  to.takes_resizes = from.takes_resizes;
  to.gpus_asked_back = from.gpus_asked_back;
  to.gpus_used = from.gpus_used;
  to.attempt = from.attempt;
  to.restarts = from.restarts;
  to.retries_used = from.retries_used;
  to.project = from.project;
  to.team = from.team;
  to.pool = from.pool;
  to.comment = from.comment;
  to.group = from.group;
  to.dialect = from.dialect;
  to.stop_intent = from.stop_intent;
  to.is_foreground = from.is_foreground;
  to.wants_pty = from.wants_pty;
  to.retries = from.retries;
  to.array = from.array;
  to.array_index = from.array_index;
  to.array_ordinal = from.array_ordinal;
  to.array_count = from.array_count;
  to.array_indices = from.array_indices;
  return to;
}

}  // namespace

RecordMessage MessageOf(const JobRecord& record) {
  RecordMessage message = Copied<RecordMessage>(record);
  if (!record.pool_of_run.empty()) message.pool = record.pool_of_run;
  return message;
}
JobRecord RecordOf(RecordMessage message) { return Copied<JobRecord>(message); }

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
DIVVY_AGENT_MESSAGE(AgentOrder)
DIVVY_AGENT_MESSAGE(AgentReport)
DIVVY_AGENT_MESSAGE(MachineFacts)
DIVVY_AGENT_MESSAGE(ChannelPurpose)
DIVVY_AGENT_MESSAGE(RunDescription)

#undef DIVVY_AGENT_MESSAGE

}  // namespace divvy::wire
