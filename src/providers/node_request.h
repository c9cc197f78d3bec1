// A node that was requested from a provider, as stored: one row for each, from before it is created until it is certain
// that it is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/provider.h"

namespace divvy::providers {

/// A row's key is this and the token.
inline constexpr std::string_view kRequestPrefix = "providers.request.";

enum class NodeState {
  kRequested,   // It may exist already: the answer to its creation was lost, or has not come yet.
  kBooting,     // It exists; its agent has not joined yet.
  kJoined,      // Its agent has joined.
  kDraining,    // It takes no new jobs; it is destroyed when its jobs have ended.
  kDestroying,  // It is being destroyed, or it is not certain yet that it is gone.
};
/// "requested", "booting", "joined", "draining", "destroying".
std::string_view Name(NodeState state);

struct NodeRequest {
  std::string token;     // 32 hexadecimal digits. The provider creates at most one node for it.
  std::string node;      // Its name in divvy.
  std::string provider;  // This and the next four: as of the request, whatever the configuration says later.
  std::string shape;
  int gpus = 0;
  Money hourly;
  Duration billing_period{0};
  std::string team;  // The team of the jobs that it was requested for, which pays for it. Optional.
  std::string set;   // The token of the first node of the same set. They are created together or not at all.
  NodeState state = NodeState::kRequested;
  std::string instance;                  // The provider's id of it. Empty: not known yet.
  std::vector<std::string> join_tokens;  // Ids of the tokens with which its agent may join.
  Time requested = kNoTime;
  Time booting = kNoTime;
  Time joined = kNoTime;
  /// Until then a call that may have been made could still create it. kNoTime: there is no call with an unknown
  /// outcome.
  Time unsure_until = kNoTime;
  bool was_used = false;   // It has run a job.
  bool is_forced = false;  // It is being returned without waiting for the end of its jobs.
  std::string why;         // Why it is being returned; empty: it is not.

  friend bool operator==(const NodeRequest&, const NodeRequest&) = default;
};

/// One line per field: a key and the rest of the line.
std::string FormatRequest(const NodeRequest& request);
/// Returns nothing if the text is not a valid row. Unknown keys are ignored.
std::optional<NodeRequest> ParseRequest(std::string_view token, std::string_view text);

/// Returns the cost of the node from `from` until `until`, in whole billing periods since its request, if it exists.
Money CostBetween(const NodeRequest& request, Time from, Time until);

}  // namespace divvy::providers
