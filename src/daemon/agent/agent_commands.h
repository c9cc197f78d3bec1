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

/// `spec` belongs to a LaunchCommand or AdoptCommand. `live` is the record that a TimeLimitCommand is about. Limits are
/// sent as durations, since the clocks of the two machines may differ.
wire::AgentCommand MessageOf(const NodeCommand& command, const JobSpec* spec, const JobRecord* live);
/// Returns the command in the message, with its specification; nullopt for a message that is no command for the node's
/// runs (look, renewed).
struct ReceivedCommand {
  NodeCommand command;
  std::shared_ptr<const JobSpec> spec;
};
std::optional<ReceivedCommand> CommandOf(wire::AgentCommand message);

/// The part of a specification that an agent has for a run that it did not launch: how to stop it.
JobSpec TermsOf(const wire::AgentRun& run);

std::string_view WordOf(RunVanished how);
Result<RunVanished> VanishedOf(std::string_view word);

}  // namespace divvy
