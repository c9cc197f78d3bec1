// Places the tasks of one ResourceRequest, now or at a later moment: on which nodes and GPUs. Tasks of a gang see each
// other, and either all are placed or none. The cluster does not change.
//
// Nodes with reserved capacity are examined one by one: a task may use it if the reservation can still be served in
// time, possibly on other GPUs of the node. All other nodes are found through the fleet's index.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Reserved capacity moves to other GPUs of its node.
struct Shift {
  NodeIndex node = 0;
  JobId entry;
  std::uint64_t advance = 0;
  GpuPlace from;
  GpuPlace to;
};

/// How long a job occupies its resources. 0: unknown.
struct Length {
  Duration sure{0};    // The maximum, by its time limit.
  Duration likely{0};  // By its prediction, if it has no limit.

  Length(Duration limit) : sure(limit), likely(limit) {}  // NOLINT: a limit is a length.
  Length(Duration limit, Duration predicted) : sure(limit), likely(predicted) {}
};
Length LengthOf(const Rules& rules, const ClassKey& key);

class Placer {
 public:
  /// Places jobs as of the time `at`, which is `now` or later. Running jobs whose expected end is not after `at` count
  /// as ended.
  Placer(ClusterState& state, Time now, Time at);
  ~Placer();
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  /// Sets the random number for random placement (ClusterState::DrawOf).
  void SetDraw(std::uint64_t draw) { draw_ = draw; }

  /// Places the minimum number of tasks of `request`, to run for `length`. A reservation that rests on predictions is
  /// compared with the likely length only. `scope`: the nodes to use; ignored if `is_everywhere`, which means all
  /// nodes. Advance reservations that `team` or `user` may use during `length` do not bind. Returns nothing (empty) if
  /// there is no room.
  std::vector<TaskPlacement> Find(const ResourceRequest& request, Length length, std::span<const NodeIndex> scope,
                                  bool is_everywhere, TeamIndex team, UserIndex user);
  /// After Find has found no place for a job with several components: returns true if there certainly is none, false if
  /// the search did not try all possibilities.
  bool is_proven() const { return is_proven_; }
  /// Finds a place for one more task of `group` of a running job. If `nodes` is not empty, only these nodes are
  /// considered. Returns nullopt if there is no room.
  std::optional<TaskPlacement> FindOne(const ResourceRequest& request, std::size_t group, const Run& run,
                                       std::vector<NodeIndex> nodes);

  /// Returns true if the job can still get exactly these placements.
  bool Keeps(const ResourceRequest& request, const std::vector<TaskPlacement>& placements, Length length,
             TeamIndex team, UserIndex user);

  /// Returns which reservations must be changed to other GPUs of their nodes when a job takes `placements`, which Find
  /// has found. Returns nullopt if a reservation could not be kept.
  std::optional<std::vector<Shift>> Shifts(const ResourceRequest& request, const std::vector<TaskPlacement>& placements,
                                           Length length, TeamIndex team, UserIndex user);

  /// Returns how many tasks of `shape` fit on the node, at most `most`; only on GPUs of `gpu_model` if given.
  int Room(NodeIndex node, const Shape& shape, int most, std::optional<int> gpu_model = {});

 private:
  struct Spot {
    TaskPlacement placed;
    placement::Score score = placement::kNoRoom;
  };
  /// The free room of a node at some moment.
  struct Left {
    NodeState left;
    bool Add(const Placer& placing, NodeIndex index, const Shape& shape, const GpuPlace& place, Time moment);
    void Meet(const Left& other);
  };
  struct Domain {
    std::vector<NodeIndex> nodes;
    bool is_everywhere = false;
    std::optional<int> gpu_model;
    std::optional<std::size_t> alternative;  // Set if the tasks must agree on it.

    bool Allows(std::size_t i) const { return !alternative || *alternative == i; }
  };

  NodeState StateOf(NodeIndex node) const;
  bool Fill(const ResourceRequest& request, const Domain& domain, std::vector<TaskPlacement>& placements);
  /// Finds places for the tasks of one group, beside the tasks in `placements`, and adds them there. Returns false if
  /// there is no room.
  bool FillGroup(const ResourceRequest& request, std::size_t group, const Domain& domain,
                 std::vector<TaskPlacement>& placements);
  /// Finds places for the components with these numbers, in this order. If there is no room for a later one, earlier
  /// ones are tried elsewhere. Returns false if no combination fits.
  bool FillComponents(const ResourceRequest& request, std::span<const std::uint8_t> order, const Domain& all,
                      std::vector<TaskPlacement>& placements);
  std::vector<TaskPlacement> FindComponents(const ResourceRequest& request, const Domain& all);
  /// Returns true if the search of FillComponents in this order finds a place whenever there is one, unless it runs out
  /// of tries.
  bool TriesAllWays(const ResourceRequest& request, std::span<const std::uint8_t> order) const;
  /// Returns the sets of nodes (such as one node or one rack) in which one component may be placed, preferred ones
  /// first.
  std::vector<Domain> DomainsOfComponent(const ResourceRequest& component, const Domain& all);
  /// Returns the nodes with room for one task of the component, beside the tasks placed so far.
  std::vector<NodeIndex> NodesOf(const ResourceRequest& component, const Domain& all) const;
  /// Like Fill, but uses only as few nodes as possible. Returns false unless the request has one group and prefers few
  /// nodes. It also returns false if reserved capacity leaves too little room on these nodes.
  bool FillFew(const ResourceRequest& request, const Domain& domain, std::vector<TaskPlacement>& placements);
  Domain FewestOf(const ResourceRequest& request, const Domain& within);
  std::optional<Spot> Best(const ResourceRequest& request, std::size_t group, const Domain& domain);
  void Offer(const ResourceRequest& request, const Shape& shape, NodeIndex node, std::optional<int> gpu_model,
             std::optional<Spot>& best);
  std::optional<GpuPlace> On(const ResourceRequest& request, const Shape& shape, NodeIndex node,
                             const NodeState& state);
  bool ReservedStands(NodeIndex node, const Shape& shape, const GpuPlace& place,
                      std::vector<Shift>* shifts = nullptr) const;
  Left LeftAt(NodeIndex node, Time moment, const std::vector<ReservedCapacity>& placed) const;
  bool NominationsHold(NodeIndex node, const Shape& shape, const GpuPlace& place) const;
  bool Binds(const ReservedCapacity& reserved) const;
  void SetLength(Length length);
  Time UntilFor(const ReservedCapacity& reserved) const;
  bool IsOpen(const ReservedCapacity& reserved) const;
  std::optional<GpuPlace> Choose(const ResourceRequest& request, const Shape& shape, NodeIndex node,
                                 const NodeState& state) const;
  bool IsPassed(const ReservedCapacity& reserved) const;
  void Put(const ResourceRequest& request, const TaskPlacement& placed);
  void Undo();
  std::vector<Domain> DomainsOf(const ResourceRequest& request, Locality level, const Domain& within);
  std::vector<Domain> DomainsAlike(const ResourceRequest& request, const Domain& within) const;
  bool HasOfComponent(NodeIndex node) const;

  ClusterState& state_;
  Time now_;
  Time at_;
  Time until_ = kNever;         // When it has certainly ended.
  Time likely_until_ = kNever;  // When it has most likely ended.
  TeamIndex team_ = kRootTeam;
  UserIndex user_ = 0;
  std::uint64_t draw_ = 0;
  bool has_anti_affinity_ = false;  // The current group avoids nodes with other tasks of its component.
  std::uint8_t component_ = 0;      // The component being placed.
  int tries_left_ = 0;              // For FillComponents; negative: it gave up.
  bool is_proven_ = false;
  bool passes_gpu_holds_ = false;  // The job has no GPUs, and such jobs ignore the capacity reserved for GPU jobs.
  struct Extra {
    Shape shape;
    GpuPlace place;
    std::uint8_t component = 0;
  };
  std::map<NodeIndex, std::vector<Extra>> extras_;  // Tasks placed so far.
};

/// Returns a number that is the same for all nodes in the same domain, such as a rack, at this level; 0 for kAnywhere.
std::uint64_t DomainOf(const NodeFacts& facts, NodeIndex node, Locality level);

/// Returns the node's expected state at the time `at`: what jobs hold that are expected to have ended by then is free.
NodeState StateAt(const ClusterState& state, NodeIndex node, Time now, Time at);

/// Returns true if the advance reservation was made for this user, or for this team.
bool IsTheirs(const AdvanceReservation& advance, TeamIndex team, UserIndex user);
const AdvanceReservation* AdvanceReservationOf(const ClusterState& state, std::uint64_t id);

/// Returns the part of the reservation `reserved` that must be kept free at `moment`. Once an advance reservation has
/// begun, that excludes what jobs of its owners use.
ReservedCapacity Unserved(const ClusterState& state, const Node& node, const ReservedCapacity& reserved, Time now,
                          Time moment);

/// Returns the node's state after all jobs that were told to leave have left.
NodeState StateWithoutLeaving(const ClusterState& state, NodeIndex node);

/// Returns `state` of `node`, without the GPUs that a task of `shape` does not accept.
NodeState SeenBy(const Node& node, const NodeState& state, const Shape& shape);
/// Returns true if a task of `shape` fits on the node, counting only GPUs that it accepts.
bool FitsNode(const Node& node, const NodeState& state, const Shape& shape);
/// Chooses GPUs for one task of `request` on `node`, whose free room is `state`. Returns nullopt if the task does not
/// fit, or no GPUs meet a requirement such as the topology.
std::optional<GpuPlace> ChooseGpus(const ClusterState& cluster, const ResourceRequest& request, const Shape& shape,
                                   const Node& node, const NodeState& state, std::uint64_t draw);
/// Returns the GPUs of the node on which the reservation `reserved` can be kept if the free room is `state`: its
/// present ones if possible, otherwise others. nullopt if there are none.
std::optional<GpuPlace> ServedOn(const ClusterState& cluster, const Node& node, const ReservedCapacity& reserved,
                                 const NodeState& state);

/// Reserved capacity is deducted clamped at 0, because it may get its resources from jobs that end.
using placement::Deduct;
using placement::FitsOn;
void DeductHost(NodeState& state, const Shape& shape);

/// Returns the node's state as if no job ran; unusable GPUs count as used.
NodeState IdleState(const Node& node);
/// Makes the resources of the task `placed` free in `after`, except GPUs that take no new work.
void ReleaseTask(const Node& node, const RunningTask& placed, NodeState& after);

/// Returns `state` without the resources that are reserved as they become free, for jobs whose start is not known.
/// Other reservations must not be moved to these.
NodeState Undrained(const Node& node, const NodeState& state);

void Apply(ClusterState& state, const std::vector<Shift>& shifts);

/// Call this after `node` changed without regard to reservations. If the GPUs of a reservation are no longer free in
/// time, the reservation is changed to other GPUs of the node.
void RefitReserved(ClusterState& state, NodeIndex node, Time now);

}  // namespace divvy::core
