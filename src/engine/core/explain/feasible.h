// What could never run, whoever else leaves: refused at submission with the nearest thing that can. GPUs that are out
// of service count as there, because they may come back; the same question about what can be used now is Impossible
// with another NodeKinds.
//
// Nodes with the same hardware are looked at as one. Counting them costs one short look at each node's facts, a verdict
// after that microseconds; together well under a millisecond for 10,000 nodes. A verdict never refuses what can run; of
// several different task groups each is looked at alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/core/explain/explain.h"
#include "engine/core/state/state.h"

namespace divvy::core {

/// The nodes of a cluster by what they are. May be kept as long as no node is added and, for kUsable, nothing goes in
/// or out of service; asks are then judged without a look at the nodes.
struct NodeKinds {
  enum class Of { kAll, kUsable };
  NodeKinds(const Cluster::State& state, Of which);

  struct Kind {
    NodeState idle;
    GpuSet gpus;      // That count.
    NodeFacts facts;  // One of these nodes; the others differ in name and place alone.
    std::int64_t nodes = 0;
  };
  /// So many nodes of a kind lie in one rack (or block).
  struct Cell {
    std::uint64_t domain = 0;
    std::uint32_t kind = 0;
    std::int64_t nodes = 0;
  };
  Of which = Of::kAll;
  std::size_t nodes = 0;
  std::vector<Kind> kinds;
  std::vector<Cell> racks;  // By domain.
  std::vector<Cell> blocks;
};

enum class LackingPart : std::uint8_t {
  kKind,
  kGpus,
  kCpus,
  kMemory,
  kHost,
  kGpuMemory,
  kTopology,
  kTasks,
  kOneModel,
  kTogether
};

/// The first part of an ask that nothing can serve.
struct Lack {
  LackingPart part = LackingPart::kGpus;
  std::string text;                           // "asks for 16 GPUs on one node, but the largest has 8".
  std::string nearest;                        // "--gpus 8 is the most that one can ever give"; may be empty.
  BlockerUnit unit = BlockerUnit::kGpuParts;  // As in Blocker, as are the next two.
  std::int64_t needed = 0;
  std::int64_t available = 0;
  std::optional<Ask> ask;  // The nearest that is possible, where one is named.
};

/// Nothing: it is possible.
std::optional<Lack> Impossible(const NodeKinds& kinds, const Ask& ask, const Names& names);

/// Refuses with kLimitExceeded what the cluster, the team's limit or a cap on GPUs could never let run; the message
/// names the nearest thing that can.
Status Feasible(const NodeKinds& kinds, const Ask& ask, const Names& names);
Status Feasible(const Cluster& cluster, const Ask& ask, const Names& names);
Status Feasible(const Cluster& cluster, const Ask& ask);
/// Says by how much a job that may not be preempted exceeds its team's quota, and what would have to change: "8 GPUs
/// exceed team nlp's quota of 4 and the job may not borrow, so it can never start; use --gpus 4, or ...".
std::string BeyondQuotaText(const TeamSpec& team, const Ask& ask);
Status FeasibleForTeam(const Cluster& cluster, const Ask& ask, TeamIndex team, Preemptible preemptible);
Status FeasibleForCaps(const Cluster& cluster, const Ask& ask, const std::vector<CapIndex>& caps);

}  // namespace divvy::core
