// Refuses at submission what could never run, even on an idle cluster, and names the nearest possible request. GPUs
// that are out of service count as present, because they may come back. Impossible with HardwareClasses::Of::kUsable
// answers the same question for the GPUs that are usable now.
//
// Nodes with the same hardware are treated as one hardware class. Counting them takes one short look at each node's
// facts, and each check after that takes microseconds; together well under a millisecond for 10,000 nodes. A check
// never refuses a request that can run. Different task groups of one request are checked separately.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/core/explain/explanation.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/state.h"

namespace divvy::core {

/// The nodes of a cluster grouped by hardware. It stays valid until a node is added or, for kUsable, until a node or
/// GPU goes in or out of service. Checks use only these groups and do not look at the nodes again.
struct HardwareClasses {
  enum class Of { kAll, kUsable };
  HardwareClasses(const ClusterState& state, Of which);

  struct HardwareClass {
    NodeState idle;
    GpuSet gpus;      // GPUs that count: all of them, or those in service (kUsable).
    NodeFacts facts;  // The facts of one of these nodes; the others differ only in name, rack and block.
    std::int64_t nodes = 0;
  };
  /// The number of nodes of a class in one rack (or block).
  struct Cell {
    std::uint64_t domain = 0;
    std::uint32_t hardware_class = 0;
    std::int64_t nodes = 0;
  };
  Of which = Of::kAll;
  std::size_t nodes = 0;
  std::vector<HardwareClass> classes;
  std::vector<Cell> racks;  // Sorted by domain, as are the blocks.
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
  kLocality
};

/// The first part of a request that nothing can serve.
struct Lack {
  LackingPart part = LackingPart::kGpus;
  std::string text;                           // "asks for 16 GPUs on one node, but the largest has 8".
  std::string nearest;                        // "--gpus 8 is the maximum for one node"; may be empty.
  BlockerUnit unit = BlockerUnit::kGpuParts;  // This field and the next two: see Blocker.
  std::int64_t needed = 0;
  std::int64_t available = 0;
  std::optional<ResourceRequest> request;  // The nearest possible request, if `nearest` names one.
};

/// Returns the first part of the request that no node can ever fulfil; nullopt if the request is possible.
std::optional<Lack> Impossible(const HardwareClasses& classes, const ResourceRequest& request, const Names& names);

/// Refuses with kLimitExceeded a request that the cluster could never run; the message names the nearest possible
/// request. FeasibleForTeam refuses a request that the limit or quota of its team never allows.
Status Feasible(const HardwareClasses& classes, const ResourceRequest& request, const Names& names);
Status Feasible(const Cluster& cluster, const ResourceRequest& request, const Names& names);
Status Feasible(const Cluster& cluster, const ResourceRequest& request);
/// Says by how much a job that may not be preempted exceeds its team's quota, and what would have to change: "8 GPUs
/// exceed team nlp's quota of 4 and the job may not borrow, so it can never start; use --gpus 4, or ...".
std::string BeyondQuotaText(const TeamSpec& team, const ResourceRequest& request);
Status FeasibleForTeam(const Cluster& cluster, const ResourceRequest& request, TeamIndex team, Preemptible preemptible);

}  // namespace divvy::core
