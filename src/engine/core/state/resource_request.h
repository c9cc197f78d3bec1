// The resources that jobs request of a cluster, and what they are allocated. A ResourceRequest is one or more groups of
// equal tasks; each task runs on one node. The minimum number of tasks starts together, or none does.
//
// ResourceRequests are interned: jobs with equal requests share one ResourceRequest, so 100,000 of them cost as much as
// one.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "engine/placement/shape.h"
#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy::core {

using placement::GpuPlace;
using placement::NodeIndex;
using placement::NodeState;
using placement::Shape;

using RequestIndex = std::uint32_t;
using ClassIndex = std::uint32_t;
using TeamIndex = std::uint32_t;
using CapIndex = std::uint32_t;
using UserIndex = std::uint32_t;
using PoolIndex = std::uint32_t;
/// A condition on nodes (NodeClassIndex).
using FilterIndex = std::uint32_t;
/// Accepts every node.
inline constexpr FilterIndex kNoFilter = 0;

/// The unnamed default pool; the only one until pools are added.
inline constexpr PoolIndex kWholeCluster = 0;

/// How close to each other the tasks of one ResourceRequest must be. In order from wide to narrow.
enum class Locality : std::uint8_t { kAnywhere, kBlock, kRack, kNode };

/// A number of equal tasks.
struct TaskGroup {
  /// The resources of one task. If there are several, any is acceptable and the first is preferred (faster GPUs, for
  /// example).
  std::vector<Shape> alternatives;
  std::int32_t least = 1;
  std::int32_t most = 1;  // Tasks beyond `least` are added when no other job can use the room, and are removed first.
  /// Speed of a task on each alternative, in thousandths of the fastest. Empty: all are equally fast.
  std::vector<std::int16_t> speeds;
  /// The filters that Shape::models of each alternative was made from, so that it can be recomputed when nodes are
  /// reclassified (Cluster::SetNodeClasses). Empty: Shape::models is fixed.
  std::vector<FilterIndex> filters;
  /// Each task gets a node without other tasks of its component (anti-affinity).
  bool anti_affinity = false;
  /// For heterogeneous jobs: which component the group belongs to. Constraints between tasks apply within each
  /// component. Groups of one component are adjacent; components ascend from 0.
  std::uint8_t component = 0;

  /// Returns how many of `tasks` tasks of this group may be on the same node.
  std::int64_t AtMostOnOne(std::int64_t tasks) const { return anti_affinity && tasks > 1 ? 1 : tasks; }

  friend auto operator<=>(const TaskGroup&, const TaskGroup&) = default;
};

struct ResourceRequest {
  std::vector<TaskGroup> groups;
  Locality locality = Locality::kAnywhere;
  bool requires_locality = false;         // False: as close as possible, preferably within `locality`.
  Locality widest = Locality::kAnywhere;  // Tasks are never further apart than this, whatever `locality` is.
  bool mixes_models = false;              // False: all tasks run on GPUs of one model.
  bool alike = false;                     // All tasks of all groups use the alternative with the same number.
  PlacementStrategy placement = PlacementStrategy::kBest;
  TopologyNeed topology = TopologyNeed::kAny;  // For the GPUs of one task.
  bool requires_topology = false;
  PoolIndex pool = kWholeCluster;  // The pool whose queue the job is in. The shapes determine which nodes it may use.
  bool wants_few_nodes = false;    // For one group: prefers few nodes.

  friend auto operator<=>(const ResourceRequest&, const ResourceRequest&) = default;
};

/// Return the locality (such as one node or one rack) in which places are searched first, and the widest one in which
/// they are searched.
Locality ClosestOf(const ResourceRequest& request);
Locality WidestOf(const ResourceRequest& request);

/// Returns true if the request has several components. Each then has its own nodes, GPU model and alternative, and all
/// start together; `locality`, `alike` and `mixes_models` of the request do not apply.
inline bool IsHeterogeneous(const ResourceRequest& request) { return request.groups.back().component > 0; }
/// Returns the request of one component alone. Its tasks prefer one rack if they must be on different nodes, otherwise
/// one node.
ResourceRequest ComponentRequest(const ResourceRequest& request, std::uint8_t component);

/// Returns how many tasks of the size of `request.groups[group]` must have room at once: those of the group, and larger
/// tasks of its component whose nodes it must avoid.
int LeastWithLarger(const ResourceRequest& request, std::size_t group);

/// Returns the GPUs, in ten-thousandths, that the job needs with the minimum number of tasks of each group and the
/// first alternative of each.
std::int64_t LeastGpuParts(const ResourceRequest& request);
int LeastTasks(const ResourceRequest& request);
bool WantsGpu(const ResourceRequest& request);
bool IsElastic(const ResourceRequest& request);

/// Returns true if there are several alternatives and all tasks must use the same one. Requires: all groups have the
/// same number of alternatives.
bool TakesOneAlternative(const ResourceRequest& request);
/// Returns the request with only the alternative of this number.
ResourceRequest Narrowed(const ResourceRequest& request, std::size_t alternative);

/// The allocation of one task.
struct TaskPlacement {
  NodeIndex node = 0;
  GpuPlace place;
  std::uint8_t group = 0;
  std::uint8_t alternative = 0;
  friend bool operator==(const TaskPlacement&, const TaskPlacement&) = default;
};

/// Returns the GPUs of all these placements together. Requires: they are on the same node.
inline GpuSet GpusOf(const std::vector<TaskPlacement>& placements) {
  GpuSet gpus;
  for (const TaskPlacement& placed : placements) gpus |= placed.place.gpus;
  return gpus;
}

inline const Shape& ShapeOf(const ResourceRequest& request, const TaskPlacement& placed) {
  return request.groups[placed.group].alternatives[placed.alternative];
}

/// GPU parts of a placement, and their worth to the job: a GPU on which it runs at speed 0.55 is worth 0.55 of one.
struct GpuUse {
  std::int64_t parts = 0;
  std::int64_t worth = 0;

  GpuUse& operator+=(const GpuUse& more) {
    parts += more.parts;
    worth += more.worth;
    return *this;
  }
  GpuUse operator-() const { return {-parts, -worth}; }
};
GpuUse UseOf(const ResourceRequest& request, const TaskPlacement& placed);

}  // namespace divvy::core
