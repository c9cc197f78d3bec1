// The agent's persistent state: its controller, its node name, and the newest controller epoch that it followed. Its
// key is stored next to it (identity.pem); tokens are never stored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/agent/dialled_stream.h"

namespace divvy {

struct AgentState {
  std::string name;
  ControllerAddress controller;  // The one that led last.
  std::vector<HostPort> others;  // The other controllers of the cluster, which have the same certificate.
  std::uint64_t epoch = 0;
  std::string emulate;
  std::map<std::string, std::string> labels;

  friend bool operator==(const AgentState& a, const AgentState& b) {
    return a.name == b.name && a.controller.at == b.controller.at &&
           a.controller.fingerprint == b.controller.fingerprint && a.others == b.others && a.epoch == b.epoch &&
           a.emulate == b.emulate && a.labels == b.labels;
  }
};

std::string FormatAgentState(const AgentState& state);
/// Fails with kCorruptData, naming the path and a remedy.
Result<AgentState> ParseAgentState(const std::string& text, const std::string& path);
/// Returns nullopt if there is no file: the agent has never joined a controller.
Result<std::optional<AgentState>> LoadAgentState(const std::string& path);

}  // namespace divvy
