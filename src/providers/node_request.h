// A node that was requested from a provider, as stored: one row for each, from before it is created until it is certain
// that it is gone. Then a shorter row keeps what it cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/provider.h"

namespace divvy::providers {

/// The key of a row in the store is this prefix and the request's token.
inline constexpr std::string_view kRequestPrefix = "providers.request.";
/// The same for a node that is gone. Its row is kept for reports about money.
inline constexpr std::string_view kPastPrefix = "providers.past.";

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
  std::string provider;  // This and the next five are as configured at the time of the request.
  std::string shape;
  int gpus = 0;
  int cpus = 0;
  Money hourly;
  Duration billing_period{0};
  std::string team;  // The team of the jobs that it was requested for, which pays for it. Optional.
  std::string set;   // The token of the first node of the same set. They are created together or not at all.
  NodeState state = NodeState::kRequested;
  std::string instance;                  // The provider's id of the node. Empty: not known yet.
  std::vector<std::string> join_tokens;  // Ids of the tokens with which the node's agent may join.
  Time requested = kNoTime;
  Time booting = kNoTime;
  Time joined = kNoTime;
  Time gone = kNever;  // When it was certain that the node no longer exists.
  /// Until this time, a call to the provider whose outcome is unknown could still create the node. kNoTime: there is no
  /// such call.
  Time unsure_until = kNoTime;
  bool was_used = false;   // It has run a job.
  bool is_forced = false;  // It is being returned without waiting for the end of its jobs.
  std::string why;         // Why it is being returned; empty: it is not.

  friend bool operator==(const NodeRequest&, const NodeRequest&) = default;
};

/// One line per field: a key and the rest of the line.
std::string FormatRequest(const NodeRequest& request);
/// Parses the text of a row. Returns nullopt if it is not valid. Unknown keys are ignored.
std::optional<NodeRequest> ParseRequest(std::string_view token, std::string_view text);

/// The data of a node from which reports compute its cost.
struct PricedNode {
  std::string node;
  int gpus = 0;
  int cpus = 0;  // 0: unknown.
  Money hourly;
  Duration billing_period{0};
  Time requested = kNoTime;
  Time gone = kNever;
};

/// Returns what the node costs from `from` until `until` or until it is gone, if it exists. Each billing period since
/// the request counts as a whole.
Money CostBetween(const NodeRequest& request, Time from, Time until);
Money CostBetween(const PricedNode& node, Time from, Time until);

}  // namespace divvy::providers
