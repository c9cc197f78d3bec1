// What an agent keeps on disk about itself: whose node it is, by which name, and the newest controller it followed.
// Its key is beside it (identity.pem); a token is never kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "daemon/agent/dialled_stream.h"

namespace divvy {

struct AgentState {
  std::string name;
  ControllerAddress controller;
  std::uint64_t epoch = 0;
  std::string emulate;
  std::map<std::string, std::string> labels;

  friend bool operator==(const AgentState& a, const AgentState& b) {
    return a.name == b.name && a.controller.at == b.controller.at &&
           a.controller.fingerprint == b.controller.fingerprint && a.epoch == b.epoch && a.emulate == b.emulate &&
           a.labels == b.labels;
  }
};

std::string FormatAgentState(const AgentState& state);
/// kCorruptData with the path and what to do.
Result<AgentState> ParseAgentState(const std::string& text, const std::string& path);
/// Nothing where there is no file: it has joined nobody.
Result<std::optional<AgentState>> LoadAgentState(const std::string& path);

}  // namespace divvy
