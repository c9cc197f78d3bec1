// What jobs ask of a cluster, and what they get. An ask is one or more groups of equal tasks, each task on one node;
// all of the least number of tasks start together or none does.
//
// Asks are interned: jobs that ask for the same thing share one, which is what lets 100,000 of them cost as much as
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

using AskIndex = std::uint32_t;
using ClassIndex = std::uint32_t;
using TeamIndex = std::uint32_t;
using CapIndex = std::uint32_t;
using UserIndex = std::uint32_t;
using PoolIndex = std::uint32_t;
/// What a request says of its nodes (KindBook).
using FilterIndex = std::uint32_t;
/// Every node will do.
inline constexpr FilterIndex kNoFilter = 0;

/// The pool that has no name: all there is, until pools are made.
inline constexpr PoolIndex kWholeCluster = 0;

/// How close to each other the tasks of one ask must be. Wider first.
enum class Together : std::uint8_t { kAnywhere, kBlock, kRack, kNode };

/// Equal tasks.
struct TaskGroup {
  /// What one task needs; where there are several, any of them will do and the first is liked best (faster GPUs, say).
  std::vector<Shape> alternatives;
  std::int32_t least = 1;
  std::int32_t most = 1;  // Beyond `least`: takes more when nobody else can use it, and gives it back first.
  /// How fast a task is on each of the alternatives, in thousandths of the fastest. Empty: equally fast.
  std::vector<std::int16_t> speeds;
  /// What Shape::models of each alternative was made from, so that it can be made anew when nodes are told apart in
  /// another way (Cluster::SetKinds). Empty: it stays as it is.
  std::vector<FilterIndex> filters;
  /// Each task on a node on which no other task of its component lies.
  bool apart = false;
  /// Of a heterogeneous job: what its tasks have in common is said of each component by itself. Groups of one component
  /// stand in a row, components ascending from 0.
  std::uint8_t component = 0;

  /// Tasks that one node can have at most, of `tasks`.
  std::int64_t AtMostOnOne(std::int64_t tasks) const { return apart && tasks > 1 ? 1 : tasks; }

  friend auto operator<=>(const TaskGroup&, const TaskGroup&) = default;
};

struct Ask {
  std::vector<TaskGroup> groups;
  Together together = Together::kAnywhere;
  bool requires_together = false;         // False: as close as there is, up to `together`.
  Together widest = Together::kAnywhere;  // But never further apart than this, whatever `together` is.
  bool mixes_models = false;              // Tasks of one job otherwise run on GPUs of one model.
  bool alike = false;                     // All tasks of all groups take the same alternative, by its number.
  PlacementStrategy placement = PlacementStrategy::kBest;
  TopologyNeed topology = TopologyNeed::kAny;  // Of the GPUs of one task.
  bool requires_topology = false;
  PoolIndex pool = kWholeCluster;  // In whose line it stands. Which nodes it may use is for the shapes to say.
  bool wants_few_nodes = false;    // Of one group: rather on as few nodes as there is room on.

  friend auto operator<=>(const Ask&, const Ask&) = default;
};

/// Its tasks are looked for a place from as close as was asked to as wide as is allowed.
Together ClosestOf(const Ask& ask);
Together WidestOf(const Ask& ask);

/// Several components: each has its own nodes, model of GPUs and alternative, and all start together. Then
/// `together`, `alike` and `mixes_models` of the ask say nothing.
inline bool IsHeterogeneous(const Ask& ask) { return ask.groups.back().component > 0; }
/// The ask of one component alone. Its tasks are rather in one rack where they lie apart, else on one node.
Ask ComponentAsk(const Ask& ask, std::uint8_t component);

/// Parts of GPU that the least number of tasks takes, in the first alternative.
std::int64_t LeastGpuParts(const Ask& ask);
int LeastTasks(const Ask& ask);
bool WantsGpu(const Ask& ask);
bool IsElastic(const Ask& ask);

/// Tasks must agree on an alternative: as many as each group has. Requires: all groups have as many.
bool TakesOneAlternative(const Ask& ask);
/// The ask with that alternative alone.
Ask Narrowed(const Ask& ask, std::size_t alternative);

/// One task's place.
struct Piece {
  NodeIndex node = 0;
  GpuPlace place;
  std::uint8_t group = 0;
  std::uint8_t alternative = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The GPUs of all pieces together. Requires: they lie on one node.
inline GpuSet GpusOf(const std::vector<Piece>& pieces) {
  GpuSet gpus;
  for (const Piece& piece : pieces) gpus |= piece.place.gpus;
  return gpus;
}

inline const Shape& ShapeOf(const Ask& ask, const Piece& piece) {
  return ask.groups[piece.group].alternatives[piece.alternative];
}

/// What a piece takes of GPUs, and what that is worth to its job: a GPU on which it runs at 0.55 is 0.55 of one.
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
GpuUse UseOf(const Ask& ask, const Piece& piece);

}  // namespace divvy::core
