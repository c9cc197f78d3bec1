#include "daemon/agent/agent_state.h"

#include <unistd.h>

#include "base/text.h"
#include "daemon/node/machine.h"

namespace divvy {

std::string FormatAgentState(const AgentState& state) {
  std::string text = "name " + state.name + "\ncontroller " + ToString(state.controller.at) + "\nfingerprint " +
                     state.controller.fingerprint + "\nepoch " + std::to_string(state.epoch) + "\n";
  for (const HostPort& other : state.others) text += "standby " + ToString(other) + "\n";
  if (!state.emulate.empty()) text += "emulate " + state.emulate + "\n";
  for (const auto& [label, value] : state.labels) text += "label " + label + "=" + value + "\n";
  return text;
}

Result<AgentState> ParseAgentState(const std::string& text, const std::string& path) {
  AgentState state;
  const Error damaged = CorruptData(path + " is damaged; remove it, and join again with a token that divvy token " +
                                    "create --node prints on the controller");
  for (const std::string_view line : Split(text, '\n')) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "name") state.name = std::string(value);
    if (key == "fingerprint") state.controller.fingerprint = std::string(value);
    if (key == "emulate") state.emulate = std::string(value);
    if (key == "controller") {
      auto at = ParseHostPort(value);
      if (!at) return damaged;
      state.controller.at = *std::move(at);
    }
    if (key == "standby") {
      auto at = ParseHostPort(value);
      if (!at) return damaged;
      state.others.push_back(*std::move(at));
    }
    if (key == "epoch") {
      const auto epoch = ParseInteger(value);
      if (!epoch || *epoch < 0) return damaged;
      state.epoch = static_cast<std::uint64_t>(*epoch);
    }
    const std::size_t equals = value.find('=');
    if (key == "label" && equals != std::string_view::npos)
      state.labels.emplace(value.substr(0, equals), value.substr(equals + 1));
  }
  if (state.name.empty() || state.controller.at.host.empty() || state.controller.fingerprint.size() != 64)
    return damaged;
  return state;
}

Result<std::optional<AgentState>> LoadAgentState(const std::string& path) {
  const auto text = ReadWhole(path);
  if (!text && ::access(path.c_str(), F_OK) != 0) return std::optional<AgentState>();
  if (!text) return text.error();
  DIVVY_TRY(AgentState state, ParseAgentState(*text, path));
  return std::optional(std::move(state));
}

}  // namespace divvy
