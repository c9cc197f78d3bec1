// An agent node's row in the registry, and its text form for the store: one line per field, a key and the rest of the
// line.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "model/lease_terms.h"
#include "model/machine_facts.h"

namespace divvy {

/// The work setting that an administrator chose for a node. Stored as text.
enum class NodeWork {
  kTakes,     // Takes new work.
  kCordoned,  // No new work; running jobs continue.
  kDraining,  // No new work; running jobs end by themselves or are stopped at the deadline.
};
std::string_view Name(NodeWork work);  // "up", "cordoned", "draining"

struct NodeRow {
  std::string name;
  std::string fingerprint;       // Fingerprint of its agent's current certificate.
  std::string next_fingerprint;  // Fingerprint of the announced next certificate; empty: none is announced.
  Time joined = kNoTime;
  NodeWork work = NodeWork::kTakes;
  Time drain_deadline = kNever;               // While draining: running jobs are stopped then.
  std::string reason;                         // The administrator's reason for taking no work, and who gave it.
  Time work_since = kNoTime;                  // When that was set; kNoTime: unknown.
  std::map<std::string, std::string> labels;  // Set by administrators; these override learned labels.
  std::string accounted_boot;                 // The boot in which its runs were last reconciled.
  /// The minimum of what the node does when disconnected; it may have received stricter terms that it has not
  /// confirmed.
  LeaseTerms terms;
  MachineFacts facts;  // As reported at its last connection.

  /// Returns all labels of the node: those that it reported and those that administrators have set.
  std::map<std::string, std::string> AllLabels() const;
  friend bool operator==(const NodeRow&, const NodeRow&) = default;
};

/// Returns true if the character is allowed in names of nodes, labels and pools.
bool IsNameChar(char c);
inline constexpr std::size_t kLongestNodeName = 63;
/// Checks that a node's name is valid: a letter or digit, then up to 62 letters, digits, '.', '_' and '-'.
Status CheckNodeName(std::string_view name);

std::string FormatNode(const NodeRow& row);
/// Parses a node's row of the store. Returns nullopt if the text is not valid. Unknown keys are ignored.
std::optional<NodeRow> ParseNode(std::string_view name, std::string_view text);

}  // namespace divvy
