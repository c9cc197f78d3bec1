// Converts the controller's node commands to messages and back.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "control/books/effects.h"
#include "daemon/runtime/controller_port.h"
#include "wire/messages/agent_messages.h"

namespace divvy {

/// Converts a command to a message. `spec`: the job's specification, for a LaunchCommand or AdoptCommand. `live`: the
/// job's record, for a TimeLimitCommand. Limits are sent as durations, since the clocks of the two machines may differ.
wire::AgentCommand MessageOf(const NodeCommand& command, const JobSpec* spec, const JobRecord* live);
/// A command in a message from the controller, with the specification of its job if the message has one.
struct ReceivedCommand {
  NodeCommand command;
  std::shared_ptr<const JobSpec> spec;
};
/// Returns the command in a message; nullopt if the message is about something else than a run, such as "look at the
/// GPUs".
std::optional<ReceivedCommand> CommandOf(wire::AgentCommand message);

/// Returns a specification that only says how to stop the run. An agent uses it for runs whose full specification it
/// does not have, because an earlier agent process launched them.
JobSpec TermsOf(const wire::AgentRun& run);

std::string_view WordOf(RunVanished how);
Result<RunVanished> VanishedOf(std::string_view word);

}  // namespace divvy
