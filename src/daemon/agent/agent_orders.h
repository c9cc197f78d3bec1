// The controller's orders and the node's facts as messages, and back.
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

/// `spec`: of a LaunchOrder or AdoptOrder. `live`: the record that a TimeLimitOrder is about; limits travel as
/// durations, since the clocks of the two machines may differ.
wire::AgentOrder MessageOf(const Order& order, const JobSpec* spec, const JobRecord* live);
/// The order in it, with its spec; nothing for one that is no order to a node's runs (look, renewed).
struct NodeOrder {
  Order order;
  std::shared_ptr<const JobSpec> spec;
};
std::optional<NodeOrder> OrderOf(wire::AgentOrder message);

/// The part of a specification that an agent knows for a run that it did not launch: how to stop it.
JobSpec TermsOf(const wire::AgentRun& run);

std::string_view WordOf(RunVanished how);
Result<RunVanished> VanishedOf(std::string_view word);

}  // namespace divvy
