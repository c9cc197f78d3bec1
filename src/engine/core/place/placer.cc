#include "engine/core/place/placer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/result.h"
#include "engine/core/state/models.h"
#include "engine/gpu_choice.h"

namespace divvy::core {
namespace {

using placement::Fits;
using placement::kNoRoom;

GpuSet WholeFree(const NodeState& state) {
  GpuSet free;
  for (int gpu = 0; gpu < state.gpus; ++gpu) {
    if (placement::RoomOfGpu(state, gpu).free_parts == placement::kGpuParts) free.Insert(gpu);
  }
  return free;
}

}  // namespace

void DeductHost(NodeState& state, const Shape& shape) {
  state.cpu_free = std::max(0, state.cpu_free - shape.cpu_milli);
  state.memory_free = std::max(0, state.memory_free - shape.memory_mib);
}

NodeState SeenBy(const Node& node, const NodeState& state, const Shape& shape) {
  return SeenBy(node.facts, state, shape);
}

bool FitsNode(const Node& node, const NodeState& state, const Shape& shape) {
  return node.is_mixed() ? Fits(SeenBy(node, state, shape), shape) : Fits(state, shape);
}

namespace {

const placement::Scorer& ScorerOf(const Cluster::State& cluster, const Ask& ask) {
  static const std::unique_ptr<placement::Scorer> kPack = placement::MakeSimpleScorer("pack");
  static const std::unique_ptr<placement::Scorer> kSpread = placement::MakeSimpleScorer("spread");
  static const placement::AnyRoom kAny;
  switch (ask.placement) {
    case PlacementStrategy::kPack:
      return *kPack;
    case PlacementStrategy::kSpread:
      return *kSpread;
    case PlacementStrategy::kSequential:
    case PlacementStrategy::kRandom:
      return kAny;
    case PlacementStrategy::kBest:
      break;
  }
  return cluster.fleet ? cluster.fleet->scorer() : kAny;
}

const Ask* AskOf(const Cluster::State& cluster, const ReservedCapacity& hold) {
  if (hold.booking != 0) {
    const AdvanceReservation* booking = BookingOf(cluster, hold.booking);
    return booking == nullptr ? nullptr : &cluster.asks[booking->ask];
  }
  const auto at = cluster.waiting.find(hold.entry);
  return at == cluster.waiting.end() ? nullptr : &cluster.asks[cluster.classes[at->second.job_class].key.ask];
}

}  // namespace

std::optional<GpuPlace> ChooseGpus(const Cluster::State& cluster, const Ask& ask, const Shape& shape, const Node& node,
                                   const NodeState& state, std::uint64_t draw) {
  if (shape.gpus == 0) return Fits(state, shape) ? std::optional(GpuPlace()) : std::nullopt;
  const NodeState seen = SeenBy(node, state, shape);
  if (!Fits(seen, shape)) return std::nullopt;
  const GpuTopology* topology = node.facts.topology.get();
  // On a node, the job's own requirements decide. A scorer rates nodes and GPU shares only.
  if (shape.is_whole() && (topology != nullptr || ask.placement == PlacementStrategy::kRandom)) {
    GpuChoice choice{ask.placement, draw, ask.topology, ask.requires_topology, topology};
    if (topology == nullptr) choice.topology = TopologyNeed::kAny;
    const std::optional<GpuSet> set = PickGpus(WholeFree(seen), shape.gpus, choice);
    if (!set) return std::nullopt;
    return GpuPlace{*set};
  }
  const placement::Scorer& scorer = ScorerOf(cluster, ask);
  return placement::ChooseOn(scorer, seen, scorer.Worth(seen), shape);
}

std::optional<GpuPlace> ServedOn(const Cluster::State& cluster, const Node& node, const ReservedCapacity& hold,
                                 const NodeState& state) {
  if (FitsOn(state, hold.shape, hold.place)) return hold.place;
  const Ask* ask = AskOf(cluster, hold);
  NodeState seen = SeenBy(node, state, hold.shape);
  // The job's other tasks run on this model.
  if (!node.facts.gpu_models.empty() && ask != nullptr && RunsOnOneModel(*ask) && !hold.place.gpus.empty()) {
    const int model = ModelOf(node.facts, hold.place.gpus.First());
    seen = SeenBy(node.facts, state, hold.shape, model);
  }
  if (!Fits(seen, hold.shape)) return std::nullopt;
  if (ask != nullptr && ask->requires_topology) return ChooseGpus(cluster, *ask, hold.shape, node, seen, 0);
  return hold.shape.gpus == 0 ? GpuPlace() : placement::TightestGpus(seen, hold.shape);
}

std::uint64_t DomainOf(const NodeFacts& facts, NodeIndex node, Locality level) {
  switch (level) {
    case Locality::kNode:
      return node;
    case Locality::kRack:
      return std::uint64_t{facts.block} << 32 | facts.rack;
    case Locality::kBlock:
      return facts.block;
    case Locality::kAnywhere:
      break;
  }
  return 0;
}

NodeState IdleState(const Node& node) {
  NodeState idle = Cluster::State::EmptyState(node.facts);
  idle.carved = node.carved;
  placement::Block(idle, node.blocked);
  return idle;
}

void ReleasePiece(const Node& node, const RunPiece& piece, NodeState& after) {
  const GpuSet gpus = piece.place.gpus - node.blocked;
  if (gpus == piece.place.gpus) {
    placement::Release(after, piece.shape, piece.place);
    return;
  }
  after.cpu_free += piece.shape.cpu_milli;
  after.memory_free += piece.shape.memory_mib;
  Shape rest = piece.shape;
  rest.gpus = static_cast<std::int16_t>(gpus.size());
  rest.cpu_milli = rest.memory_mib = 0;
  if (rest.gpus > 0) placement::Release(after, rest, {gpus});
}

NodeState StateAt(const Cluster::State& state, NodeIndex index, Time now, Time at) {
  const Node& node = state.nodes[index];
  NodeState after = node.state;
  if (at <= now || !node.accepts) return after;
  for (const RunPiece& piece : node.pieces) {
    if (EndOf(state.rules, piece, now) <= at) ReleasePiece(node, piece, after);
  }
  return after;
}

NodeState StateWithoutLeaving(const Cluster::State& state, NodeIndex index) {
  const Node& node = state.nodes[index];
  NodeState after = node.state;
  if (!node.accepts) return after;
  for (const RunPiece& piece : node.pieces) {
    if (piece.is_leaving) ReleasePiece(node, piece, after);
  }
  return after;
}

bool IsTheirs(const AdvanceReservation& booking, TeamIndex team, UserIndex user) {
  return booking.user ? *booking.user == user : booking.team == team && team != kRootTeam;
}

const AdvanceReservation* BookingOf(const Cluster::State& state, std::uint64_t id) {
  const auto at = std::find_if(state.bookings.begin(), state.bookings.end(),
                               [&](const AdvanceReservation& one) { return one.id == id; });
  return at == state.bookings.end() ? nullptr : &*at;
}

ReservedCapacity Unserved(const Cluster::State& state, const Node& node, const ReservedCapacity& hold, Time now,
                          Time moment) {
  ReservedCapacity rest = hold;
  if (hold.booking == 0 || hold.from > now) return rest;
  const AdvanceReservation* booking = BookingOf(state, hold.booking);
  if (booking == nullptr) return rest;
  rest.closed = hold.place.gpus;
  for (const RunPiece& piece : node.pieces) {
    if ((piece.place.gpus & hold.place.gpus).empty()) continue;
    const auto owner = state.running.find(piece.job);
    if (owner == state.running.end()) continue;  // A stand-in piece (SchedulingCycle::MovePromises).
    const ClassKey& key = state.classes[owner->second.job_class].key;
    if (!IsTheirs(*booking, key.team, key.user) || EndOf(state.rules, piece, now) <= moment) continue;
    rest.place.gpus -= piece.place.gpus;
    rest.shape.cpu_milli = std::max(0, rest.shape.cpu_milli - piece.shape.cpu_milli);
    rest.shape.memory_mib = std::max(0, rest.shape.memory_mib - piece.shape.memory_mib);
  }
  rest.shape.gpus = static_cast<std::int16_t>(rest.place.gpus.size());
  return rest;
}

Length LengthOf(const Rules& rules, const ClassKey& key) {
  const bool is_guess = key.limit == Duration(0) && rules.uses_predictions;
  return {key.limit, is_guess ? key.predicted : key.limit};
}

Placer::Placer(Cluster::State& state, Time now, Time at) : state_(state), now_(now), at_(at) { state_.MakeFleet(); }

Placer::~Placer() { Undo(); }

void Placer::Undo() {
  const auto extras = std::move(extras_);
  extras_.clear();
  if (at_ > now_) return;
  for (const auto& [node, list] : extras) state_.Show(node);
}

NodeState Placer::StateOf(NodeIndex node) const {
  NodeState state = StateAt(state_, node, now_, at_);
  const auto extra = extras_.find(node);
  if (extra == extras_.end()) return state;
  for (const Extra& one : extra->second) placement::Take(state, one.shape, one.place);
  return state;
}

bool Placer::IsPassed(const ReservedCapacity& hold) const {
  return passes_gpu_holds_ && hold.shape.gpus > 0 && hold.booking == 0 && !hold.is_claim;
}

void Placer::SetLength(Length length) {
  until_ = length.sure > Duration(0) ? AddSaturating(at_, length.sure) : kNever;
  likely_until_ = length.likely > Duration(0) ? AddSaturating(at_, length.likely) : until_;
}

// A wrong prediction may delay reservations that rest on predictions, but never sure ones.
Time Placer::UntilFor(const ReservedCapacity& hold) const {
  return hold.is_sure || hold.booking != 0 ? until_ : likely_until_;
}

bool Placer::Binds(const ReservedCapacity& hold) const {
  if (IsPassed(hold)) return false;
  if (hold.from >= UntilFor(hold) || hold.until <= at_) {
    if (!hold.drains) return false;
  }
  if (hold.booking == 0) return true;
  return !IsOpen(hold);
}

// Returns whether this job may use the booking: it was made for the job's team or user, and the job stays inside its
// time.
bool Placer::IsOpen(const ReservedCapacity& hold) const {
  if (hold.booking == 0) return false;
  const AdvanceReservation* booking = BookingOf(state_, hold.booking);
  return booking != nullptr && IsTheirs(*booking, team_, user_) && at_ >= booking->from && until_ <= booking->until;
}

std::optional<GpuPlace> Placer::Choose(const Ask& ask, const Shape& shape, NodeIndex node,
                                       const NodeState& state) const {
  return ChooseGpus(state_, ask, shape, state_.nodes[node], state, draw_);
}

NodeState Undrained(const Node& node, const NodeState& state) {
  NodeState rest = state;
  for (const ReservedCapacity& hold : node.holds) {
    if (hold.drains) Deduct(rest, hold.shape, hold.place);
  }
  return rest;
}

std::optional<GpuPlace> Placer::On(const Ask& ask, const Shape& shape, NodeIndex index, const NodeState& state) {
  const Node& node = state_.nodes[index];
  if (!FitsNode(node, state, shape)) return std::nullopt;
  NodeState unpromised = state;
  GpuSet booked;
  bool is_bound = false;
  for (const ReservedCapacity& hold : node.holds) {
    if (IsOpen(hold)) booked |= hold.place.gpus;
    if (!Binds(hold)) continue;
    is_bound = true;
    Deduct(unpromised, hold.shape, hold.place);
  }
  if (!is_bound && booked.empty()) return Choose(ask, shape, index, state);
  if (!booked.empty()) {
    // Prefer what is reserved for this job's own team or user: no other job can use it.
    NodeState own = state;
    placement::Block(own, GpuSet::FirstN(node.facts.gpus) - booked);
    if (FitsNode(node, own, shape)) {
      const std::optional<GpuPlace> gpus = Choose(ask, shape, index, own);
      if (gpus && HoldsStand(index, shape, *gpus)) return gpus;
    }
  }
  // Every strategy except kBest only says which GPUs of a node to use. A job that starts now gets its choice, and holds
  // move.
  if (ask.placement != PlacementStrategy::kBest && at_ <= now_) {
    const std::optional<GpuPlace> gpus = Choose(ask, shape, index, state);
    if (gpus && HoldsStand(index, shape, *gpus)) return gpus;
  }
  if (FitsNode(node, unpromised, shape)) {
    const std::optional<GpuPlace> gpus = Choose(ask, shape, index, unpromised);
    if (gpus && HoldsStand(index, shape, *gpus)) return gpus;
  }
  const std::optional<GpuPlace> gpus = Choose(ask, shape, index, state);
  if (gpus && HoldsStand(index, shape, *gpus)) return gpus;
  return std::nullopt;
}

void Placer::Offer(const Ask& ask, const Shape& shape, NodeIndex node, std::optional<int> gpu_model,
                   std::optional<Spot>& best) {
  const NodeFacts& facts = state_.nodes[node].facts;
  if (is_apart_ && HasOfComponent(node)) return;
  if (gpu_model && shape.gpus > 0 && !HasModel(facts, *gpu_model)) return;
  NodeState state = StateOf(node);
  if (gpu_model && !facts.gpu_models.empty()) state = SeenBy(facts, state, shape, gpu_model);
  const NodeState seen = SeenBy(state_.nodes[node], state, shape);
  const placement::Scorer& scorer = ScorerOf(state_, ask);
  const placement::Score score = placement::RateNode(scorer, seen, scorer.Worth(seen), shape);
  if (score == kNoRoom || (best && (best->score > score || (best->score == score && best->piece.node < node)))) return;
  const std::optional<GpuPlace> gpus = On(ask, shape, node, state);
  if (gpus) best = Spot{{node, *gpus, 0, 0}, score};
}

std::optional<Placer::Spot> Placer::Best(const Ask& ask, std::size_t group, const Domain& domain) {
  const std::vector<Shape>& alternatives = ask.groups[group].alternatives;
  is_apart_ = ask.groups[group].apart;
  component_ = ask.groups[group].component;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    if (!domain.Allows(i)) continue;
    Shape shape = alternatives[i];
    std::optional<Spot> best;
    const bool uses_fleet = domain.is_everywhere && at_ <= now_ && !domain.gpu_model &&
                            ask.placement == PlacementStrategy::kBest && !ask.requires_topology &&
                            !IsHeterogeneous(ask);
    if (uses_fleet) {
      const placement::ShapeIndex known = state_.fleet->Know(shape);
      if (const auto found = state_.fleet->Find(known)) {
        const NodeState& state = state_.fleet->nodes()[found->node];
        const placement::Scorer& scorer = ScorerOf(state_, ask);
        const std::optional<GpuPlace> gpus = Choose(ask, shape, found->node, state);
        best = Spot{{found->node, gpus.value_or(found->place), 0, 0},
                    placement::RateNode(scorer, state, scorer.Worth(state), shape)};
      }
      for (const NodeIndex node : state_.held) Offer(ask, shape, node, {}, best);
      for (const NodeIndex node : state_.mixed) {
        if (state_.nodes[node].holds.empty()) Offer(ask, shape, node, {}, best);
      }
    } else if (domain.is_everywhere) {
      for (NodeIndex node = 0; node < state_.nodes.size(); ++node) Offer(ask, shape, node, domain.gpu_model, best);
    } else {
      for (const NodeIndex node : domain.nodes) Offer(ask, shape, node, domain.gpu_model, best);
    }
    if (!best) continue;
    best->piece.group = static_cast<std::uint8_t>(group);
    best->piece.alternative = static_cast<std::uint8_t>(i);
    return best;
  }
  return std::nullopt;
}

void Placer::Put(const Ask& ask, const TaskPlacement& piece) {
  extras_[piece.node].push_back({ShapeOf(ask, piece), piece.place, ask.groups[piece.group].component});
  // Nodes are examined one by one for heterogeneous jobs: placer_components.cc.
  if (IsHeterogeneous(ask)) return;
  if (at_ > now_ || !state_.nodes[piece.node].holds.empty() || state_.nodes[piece.node].is_mixed()) return;
  NodeState left = StateOf(piece.node);
  if (ask.groups[piece.group].apart) {
    // Hides the node until Undo shows it again.
    placement::Block(left, GpuSet::FirstN(state_.nodes[piece.node].facts.gpus));
    left.cpu_free = left.memory_free = -1;
  }
  state_.fleet->Set(piece.node, left);
}

int Placer::Room(NodeIndex node, const Shape& shape, int most, std::optional<int> gpu_model) {
  const NodeFacts& facts = state_.nodes[node].facts;
  if (gpu_model && shape.gpus > 0 && !HasModel(facts, *gpu_model)) return 0;
  if (facts.gpu_models.empty()) gpu_model.reset();
  NodeState state = SeenBy(facts, StateOf(node), shape, gpu_model);
  int count = 0;
  while (count < most && Fits(state, shape)) {
    placement::Take(state, shape, shape.gpus == 0 ? GpuPlace() : placement::TightestGpus(state, shape));
    ++count;
  }
  return count;
}

// Tightest domain first, which fragments less.
std::vector<Placer::Domain> Placer::DomainsOf(const Ask& ask, Locality level, const Domain& within) {
  std::map<std::uint64_t, std::pair<std::int64_t, Domain>> found;
  const int tasks = LeastTasks(ask);
  const auto room_for = [&](NodeIndex index, const TaskGroup& group) {
    int most = 0;
    for (std::size_t i = 0; i < group.alternatives.size(); ++i) {
      if (!within.Allows(i)) continue;
      const int at_most = static_cast<int>(group.AtMostOnOne(tasks));
      most = std::max(most, Room(index, group.alternatives[i], at_most, within.gpu_model));
    }
    return most;
  };
  const auto look = [&](NodeIndex index) {
    const int room = room_for(index, ask.groups.front());
    const bool serves = room > 0 || std::any_of(ask.groups.begin() + 1, ask.groups.end(),
                                                [&](const TaskGroup& group) { return room_for(index, group) > 0; });
    if (!serves) return;
    auto& [sum, domain] = found[DomainOf(state_.nodes[index].facts, index, level)];
    sum += room;
    domain.nodes.push_back(index);
  };
  if (within.is_everywhere) {
    for (NodeIndex node = 0; node < state_.nodes.size(); ++node) look(node);
  } else {
    for (const NodeIndex node : within.nodes) look(node);
  }
  std::vector<std::pair<std::int64_t, Domain>> fitting;
  for (auto& [name, entry] : found) {
    if (entry.first < ask.groups.front().least) continue;
    entry.second.gpu_model = within.gpu_model;
    entry.second.alternative = within.alternative;
    fitting.push_back(std::move(entry));
  }
  std::stable_sort(fitting.begin(), fitting.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Domain> domains;
  for (auto& [sum, domain] : fitting) domains.push_back(std::move(domain));
  return domains;
}

// Large tasks first, because they fit in the fewest places.
bool Placer::Fill(const Ask& ask, const Domain& domain, std::vector<TaskPlacement>& pieces) {
  std::vector<std::size_t> order(ask.groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ask.groups[a].alternatives.front().gpu_parts() > ask.groups[b].alternatives.front().gpu_parts();
  });
  for (const std::size_t group : order) {
    if (FillGroup(ask, group, domain, pieces)) continue;
    Undo();
    pieces.clear();
    return false;
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const TaskPlacement& a, const TaskPlacement& b) { return a.group < b.group; });
  return true;
}

bool Placer::FillGroup(const Ask& ask, std::size_t group, const Domain& domain, std::vector<TaskPlacement>& pieces) {
  for (int task = 0; task < ask.groups[group].least; ++task) {
    const std::optional<Spot> spot = Best(ask, group, domain);
    if (!spot) return false;
    pieces.push_back(spot->piece);
    Put(ask, spot->piece);
  }
  return true;
}

// Preemption the roomiest nodes first uses the fewest nodes for equal tasks. The last node is the one that the rest
// just fits on.
Placer::Domain Placer::FewestOf(const Ask& ask, const Domain& within) {
  const TaskGroup& group = ask.groups.front();
  std::vector<std::pair<int, NodeIndex>> rooms;  // Room is negated, so that the list sorts by descending room, then by
                                                 // node.
  const auto look = [&](NodeIndex node) {
    int most = 0;
    for (std::size_t i = 0; i < group.alternatives.size(); ++i) {
      if (within.Allows(i)) most = std::max(most, Room(node, group.alternatives[i], group.least, within.gpu_model));
    }
    if (most > 0) rooms.emplace_back(-most, node);
  };
  if (within.is_everywhere) {
    for (NodeIndex node = 0; node < state_.nodes.size(); ++node) look(node);
  } else {
    for (const NodeIndex node : within.nodes) look(node);
  }
  std::sort(rooms.begin(), rooms.end());
  Domain few = within;
  few.is_everywhere = false;
  few.nodes.clear();
  int left = group.least;
  for (std::size_t i = 0; i < rooms.size() && left > 0; ++i) {
    std::size_t taken = i;
    // If nodes have room for all that is left, take the tightest of them.
    for (std::size_t k = i; k < rooms.size() && -rooms[k].first >= left; ++k) {
      if (rooms[k].first > rooms[taken].first) taken = k;
    }
    few.nodes.push_back(rooms[taken].second);
    left += rooms[taken].first;
  }
  std::sort(few.nodes.begin(), few.nodes.end());
  return few;
}

bool Placer::FillFew(const Ask& ask, const Domain& domain, std::vector<TaskPlacement>& pieces) {
  return ask.wants_few_nodes && ask.groups.size() == 1 && Fill(ask, FewestOf(ask, domain), pieces);
}

// Lists the choices that all tasks must share wherever they run: the alternative and the GPU model.
std::vector<Placer::Domain> Placer::DomainsAlike(const Ask& ask, const Domain& within) const {
  std::vector<int> models;
  if (RunsOnOneModel(ask)) models = ModelsFor(state_, ask);
  const std::size_t alternatives = TakesOneAlternative(ask) ? ask.groups.front().alternatives.size() : 1;
  std::vector<Domain> domains;
  for (std::size_t i = 0; i < alternatives; ++i) {
    for (std::size_t k = 0; k < std::max<std::size_t>(models.size(), 1); ++k) {
      if (models.empty() && RunsOnOneModel(ask)) continue;
      domains.push_back(within);
      if (alternatives > 1) domains.back().alternative = i;
      if (models.size() > 1) domains.back().gpu_model = models[k];
    }
  }
  return domains;
}

std::vector<TaskPlacement> Placer::Find(const Ask& ask, Length length, std::span<const NodeIndex> scope,
                                        bool is_everywhere, TeamIndex team, UserIndex user) {
  SetLength(length);
  team_ = team;
  user_ = user;
  passes_gpu_holds_ = state_.rules.cpu_jobs_pass && !WantsGpu(ask);
  Domain all;
  all.is_everywhere = is_everywhere;
  if (!is_everywhere) all.nodes.assign(scope.begin(), scope.end());
  std::vector<TaskPlacement> pieces;
  if (LeastTasks(ask) == 1 && ask.groups.size() == 1) {
    if (const auto spot = Best(ask, 0, all)) pieces.push_back(spot->piece);
    return pieces;
  }
  if (IsHeterogeneous(ask)) return FindComponents(ask, all);
  const std::vector<Domain> models = DomainsAlike(ask, all);
  for (int level = static_cast<int>(ClosestOf(ask)); level >= static_cast<int>(WidestOf(ask)); --level) {
    for (const Domain& domain : models) {
      if (level == static_cast<int>(Locality::kAnywhere)) {
        if (FillFew(ask, domain, pieces) || Fill(ask, domain, pieces)) return pieces;
        continue;
      }
      for (const Domain& part : DomainsOf(ask, static_cast<Locality>(level), domain)) {
        if (FillFew(ask, part, pieces) || Fill(ask, part, pieces)) return pieces;
      }
    }
  }
  return {};
}

bool Placer::Keeps(const Ask& ask, const std::vector<TaskPlacement>& pieces, Length length, TeamIndex team,
                   UserIndex user) {
  SetLength(length);
  team_ = team;
  user_ = user;
  passes_gpu_holds_ = state_.rules.cpu_jobs_pass && !WantsGpu(ask);
  for (const TaskPlacement& piece : pieces) {
    const Shape& shape = ShapeOf(ask, piece);
    if (!FitsOn(StateOf(piece.node), shape, piece.place) || !HoldsStand(piece.node, shape, piece.place)) return false;
    Put(ask, piece);
  }
  return true;
}

std::optional<std::vector<Shift>> Placer::Shifts(const Ask& ask, const std::vector<TaskPlacement>& pieces,
                                                 Length length, TeamIndex team, UserIndex user) {
  SetLength(length);
  team_ = team;
  user_ = user;
  passes_gpu_holds_ = state_.rules.cpu_jobs_pass && !WantsGpu(ask);
  std::vector<Shift> shifts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const TaskPlacement& piece = pieces[i];
    const bool is_last = std::none_of(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1, pieces.end(),
                                      [&](const TaskPlacement& other) { return other.node == piece.node; });
    if (is_last && !state_.nodes[piece.node].holds.empty()) {
      if (!HoldsStand(piece.node, ShapeOf(ask, piece), piece.place, &shifts)) return std::nullopt;
    }
    extras_[piece.node].push_back({ShapeOf(ask, piece), piece.place, 0});
  }
  extras_.clear();
  return shifts;
}

std::optional<TaskPlacement> Placer::FindOne(const Ask& ask, std::size_t group, const Run& run,
                                             std::vector<NodeIndex> nodes) {
  const ClassKey& key = state_.classes[run.job_class].key;
  until_ = run.end;
  likely_until_ = EndOf(state_.rules, run, now_);
  team_ = key.team;
  user_ = key.user;
  Domain domain;
  domain.nodes = std::move(nodes);
  const NodeIndex first = run.pieces.front().node;
  const Locality level = WidestOf(ask);
  if (domain.nodes.empty() && level != Locality::kAnywhere) {
    const auto domain_of = [&](NodeIndex node) { return DomainOf(state_.nodes[node].facts, node, level); };
    for (NodeIndex node = 0; node < state_.nodes.size(); ++node) {
      if (domain_of(node) == domain_of(first)) domain.nodes.push_back(node);
    }
  }
  domain.is_everywhere = domain.nodes.empty();
  if (!ask.mixes_models && WantsGpu(ask) && ModelsFor(state_, ask).size() > 1) {
    const std::vector<int> models = ModelsOf(state_, run.pieces);
    // A single task may span several models; then no other task can match it.
    if (models.size() > 1 && ask.groups[group].alternatives.front().gpus > 0) return std::nullopt;
    if (!models.empty()) domain.gpu_model = models.front();
  }
  if (TakesOneAlternative(ask)) domain.alternative = run.pieces.front().alternative;
  const auto spot = Best(ask, group, domain);
  if (!spot) return std::nullopt;
  return spot->piece;
}

}  // namespace divvy::core
