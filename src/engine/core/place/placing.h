// Where the tasks of one ask go, now or at a later moment: which nodes and which of their GPUs. Tasks of a gang see
// each other; all are placed or none. Nothing in the cluster changes.
//
// Nodes with holds are looked at one by one: a task may use what is held if the hold can still be served at its time,
// if need be on other GPUs of the same node. All other nodes go through the fleet's index.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// A hold goes to other GPUs of its node.
struct Shift {
  NodeIndex node = 0;
  JobId entry;
  std::uint64_t booking = 0;
  GpuPlace from;
  GpuPlace to;
};

/// How long a job holds what it gets. 0: nobody knows.
struct Length {
  Duration sure{0};    // At most, by its time limit.
  Duration likely{0};  // Else by its prediction.

  Length(Duration limit) : sure(limit), likely(limit) {}  // NOLINT: a limit is a length.
  Length(Duration limit, Duration predicted) : sure(limit), likely(predicted) {}
};
Length LengthOf(const Rules& rules, const ClassKey& key);

class Placing {
 public:
  /// `at` is now or later. Later, running jobs have ended as far as their ends are known.
  Placing(Cluster::State& state, Time now, Time at);
  ~Placing();
  Placing(const Placing&) = delete;
  Placing& operator=(const Placing&) = delete;

  /// For asks that are placed at random (State::DrawOf).
  void SetDraw(std::uint64_t draw) { draw_ = draw; }

  /// The least tasks of `ask`, to run for `length`; a promise that rests on predictions itself minds the likely one
  /// only. `scope`: these nodes alone. Empty: no room. `booked`: the holds of these bookings do not bind.
  std::vector<Piece> Find(const Ask& ask, Length length, std::span<const NodeIndex> scope, bool is_everywhere,
                          TeamIndex team, UserIndex user);
  /// After a Find of several components that found nothing: there is no place, also where its search did not look.
  bool is_proven() const { return is_proven_; }
  /// One more task of `group` for a job that runs; on these nodes alone if there are any.
  std::optional<Piece> FindOne(const Ask& ask, std::size_t group, const Run& run, std::vector<NodeIndex> nodes);

  /// Whether exactly these pieces are still to be had.
  bool Keeps(const Ask& ask, const std::vector<Piece>& pieces, Length length, TeamIndex team, UserIndex user);

  /// Which holds have to move once `pieces`, as they were found, are taken. Nothing if one of them could not be served.
  std::optional<std::vector<Shift>> Shifts(const Ask& ask, const std::vector<Piece>& pieces, Length length,
                                           TeamIndex team, UserIndex user);

  /// How many tasks of `shape` the node has room for, at most `most`; on GPUs of `gpu_model` alone if there is one.
  int Room(NodeIndex node, const Shape& shape, int most, std::optional<int> gpu_model = {});

 private:
  struct Spot {
    Piece piece;
    placement::Score score = placement::kNoRoom;
  };
  /// What a node has left at some moment.
  struct Left {
    NodeState left;
    bool Add(const Placing& placing, NodeIndex index, const Shape& shape, const GpuPlace& place, Time moment);
    void Meet(const Left& other);
  };
  struct Domain {
    std::vector<NodeIndex> nodes;
    bool is_everywhere = false;
    std::optional<int> gpu_model;
    std::optional<std::size_t> alternative;  // That tasks have to agree on.

    bool Allows(std::size_t i) const { return !alternative || *alternative == i; }
  };

  NodeState StateOf(NodeIndex node) const;
  bool Fill(const Ask& ask, const Domain& domain, std::vector<Piece>& pieces);
  /// One group's tasks, beside what is placed already.
  bool FillGroup(const Ask& ask, std::size_t group, const Domain& domain, std::vector<Piece>& pieces);
  /// The components that are left, the first of `order` first. What was placed for an earlier one is tried elsewhere
  /// when a later one finds no room.
  bool FillComponents(const Ask& ask, std::span<const std::uint8_t> order, const Domain& all,
                      std::vector<Piece>& pieces);
  std::vector<Piece> FindComponents(const Ask& ask, const Domain& all);
  /// Components in this order are tried in every way that makes a difference, as long as the tries last.
  bool TriesAllWays(const Ask& ask, std::span<const std::uint8_t> order) const;
  /// Where one component may be looked for, liked best first.
  std::vector<Domain> DomainsOfComponent(const Ask& component, const Domain& all);
  /// Where one of its tasks has room, beside what is placed already.
  std::vector<NodeIndex> NodesOf(const Ask& component, const Domain& all) const;
  /// The same on the fewest nodes of it, where the ask wishes for that and no hold is in the way.
  bool FillFew(const Ask& ask, const Domain& domain, std::vector<Piece>& pieces);
  Domain FewestOf(const Ask& ask, const Domain& within);
  std::optional<Spot> Best(const Ask& ask, std::size_t group, const Domain& domain);
  void Offer(const Ask& ask, const Shape& shape, NodeIndex node, std::optional<int> gpu_model,
             std::optional<Spot>& best);
  std::optional<GpuPlace> On(const Ask& ask, const Shape& shape, NodeIndex node, const NodeState& state);
  bool HoldsStand(NodeIndex node, const Shape& shape, const GpuPlace& place,
                  std::vector<Shift>* shifts = nullptr) const;
  Left LeftAt(NodeIndex node, Time moment, const std::vector<Hold>& placed) const;
  bool ClaimsStand(NodeIndex node, const Shape& shape, const GpuPlace& place) const;
  bool Binds(const Hold& hold) const;
  void SetLength(Length length);
  Time UntilFor(const Hold& hold) const;
  bool IsOpen(const Hold& hold) const;
  std::optional<GpuPlace> Choose(const Ask& ask, const Shape& shape, NodeIndex node, const NodeState& state) const;
  bool IsPassed(const Hold& hold) const;
  void Put(const Ask& ask, const Piece& piece);
  void Undo();
  std::vector<Domain> DomainsOf(const Ask& ask, Together level, const Domain& within);
  std::vector<Domain> DomainsAlike(const Ask& ask, const Domain& within) const;
  bool HasOfComponent(NodeIndex node) const;

  Cluster::State& state_;
  Time now_;
  Time at_;
  Time until_ = kNever;         // Surely gone by then,
  Time likely_until_ = kNever;  // and most likely.
  TeamIndex team_ = kRootTeam;
  UserIndex user_ = 0;
  std::uint64_t draw_ = 0;
  bool is_apart_ = false;       // What is placed just now lies on no node of another task of its component.
  std::uint8_t component_ = 0;  // Of what is placed just now.
  int tries_left_ = 0;          // Of FillComponents; below 0: it gave up.
  bool is_proven_ = false;
  bool passes_gpu_holds_ = false;  // A job without GPUs, where those wait for no GPU job.
  struct Extra {
    Shape shape;
    GpuPlace place;
    std::uint8_t component = 0;
  };
  std::map<NodeIndex, std::vector<Extra>> extras_;  // Tasks placed already.
};

/// The name of a domain that tasks must share; kAnywhere: 0.
std::uint64_t DomainOf(const NodeFacts& facts, NodeIndex node, Together level);

/// The node as it will be at `at`: what is expected to have ended by then is gone.
NodeState StateAt(const Cluster::State& state, NodeIndex node, Time now, Time at);

/// The booking was made for this user, or for the team.
bool IsTheirs(const Booking& booking, TeamIndex team, UserIndex user);
const Booking* BookingOf(const Cluster::State& state, std::uint64_t id);

/// What of a hold is still to be served at `moment`: of a booking that has begun, what its owners' jobs do not run on.
Hold Unserved(const Cluster::State& state, const Node& node, const Hold& hold, Time now, Time moment);

/// The node once those have left it that were told to.
NodeState StateWithoutLeaving(const Cluster::State& state, NodeIndex node);

/// `state`, one of `node`, as a task of `shape` sees it: with those GPUs alone whose kind it accepts.
NodeState SeenBy(const Node& node, const NodeState& state, const Shape& shape);
/// Fits, of the GPUs that it accepts.
bool FitsNode(const Node& node, const NodeState& state, const Shape& shape);
/// GPUs for one task of `ask` on `node` as it is in `state`; nothing where it does not fit, or not as `ask` requires.
std::optional<GpuPlace> ChooseGpus(const Cluster::State& cluster, const Ask& ask, const Shape& shape, const Node& node,
                                   const NodeState& state, std::uint64_t draw);
/// Where a hold can be served: on the GPUs that it names, else on others of the node; nothing: not at all.
std::optional<GpuPlace> ServedOn(const Cluster::State& cluster, const Node& node, const Hold& hold,
                                 const NodeState& state);

/// A hold is deducted (never below nothing) because it may get what it keeps from jobs that end.
using placement::Deduct;
using placement::FitsOn;
void DeductHost(NodeState& state, const Shape& shape);

/// The node if nothing ran there; what is out of service is taken.
NodeState IdleState(const Node& node);
/// The node without the piece, of which what is out of service stays so.
void ReleasePiece(const Node& node, const RunPiece& piece, NodeState& after);

/// Less what drains: another hold may not move there.
NodeState Undrained(const Node& node, const NodeState& state);

void Apply(Cluster::State& state, const std::vector<Shift>& shifts);

/// After `node` changed in a way that asked no hold: holds whose GPUs are no longer free in time move to others of the
/// node.
void RefitHolds(Cluster::State& state, NodeIndex node, Time now);

}  // namespace divvy::core
