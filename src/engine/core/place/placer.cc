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

const placement::Scorer& ScorerOf(const ClusterState& cluster, const ResourceRequest& request) {
  static const std::unique_ptr<placement::Scorer> kPack = placement::MakeSimpleScorer("pack");
  static const std::unique_ptr<placement::Scorer> kSpread = placement::MakeSimpleScorer("spread");
  static const placement::AnyRoom kAny;
  switch (request.placement) {
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

const ResourceRequest* RequestOf(const ClusterState& cluster, const ReservedCapacity& reserved) {
  if (reserved.advance != 0) {
    const AdvanceReservation* advance = AdvanceReservationOf(cluster, reserved.advance);
    return advance == nullptr ? nullptr : &cluster.requests[advance->request];
  }
  const auto at = cluster.waiting.find(reserved.entry);
  return at == cluster.waiting.end() ? nullptr : &cluster.requests[cluster.classes[at->second.job_class].key.request];
}

}  // namespace

std::optional<GpuPlace> ChooseGpus(const ClusterState& cluster, const ResourceRequest& request, const Shape& shape,
                                   const Node& node, const NodeState& state, std::uint64_t draw) {
  if (shape.gpus == 0) return Fits(state, shape) ? std::optional(GpuPlace()) : std::nullopt;
  const NodeState seen = SeenBy(node, state, shape);
  if (!Fits(seen, shape)) return std::nullopt;
  const GpuTopology* topology = node.facts.topology.get();
  // Which GPUs of a node a job gets depends on its own requirements. A scorer only rates nodes, and GPUs for fractions.
  if (shape.is_whole() && (topology != nullptr || request.placement == PlacementStrategy::kRandom)) {
    GpuChoice choice{request.placement, draw, request.topology, request.requires_topology, topology};
    if (topology == nullptr) choice.topology = TopologyNeed::kAny;
    const std::optional<GpuSet> set = PickGpus(WholeFree(seen), shape.gpus, choice);
    if (!set) return std::nullopt;
    return GpuPlace{*set};
  }
  const placement::Scorer& scorer = ScorerOf(cluster, request);
  return placement::ChooseOn(scorer, seen, scorer.Worth(seen), shape);
}

std::optional<GpuPlace> ServedOn(const ClusterState& cluster, const Node& node, const ReservedCapacity& reserved,
                                 const NodeState& state) {
  if (FitsOn(state, reserved.shape, reserved.place)) return reserved.place;
  const ResourceRequest* request = RequestOf(cluster, reserved);
  NodeState seen = SeenBy(node, state, reserved.shape);
  // The job's other tasks run on this model.
  if (!node.facts.gpu_models.empty() && request != nullptr && RunsOnOneModel(*request) &&
      !reserved.place.gpus.empty()) {
    const int model = ModelOf(node.facts, reserved.place.gpus.First());
    seen = SeenBy(node.facts, state, reserved.shape, model);
  }
  if (!Fits(seen, reserved.shape)) return std::nullopt;
  if (request != nullptr && request->requires_topology)
    return ChooseGpus(cluster, *request, reserved.shape, node, seen, 0);
  return reserved.shape.gpus == 0 ? GpuPlace() : placement::TightestGpus(seen, reserved.shape);
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
  NodeState idle = ClusterState::EmptyState(node.facts);
  idle.carved = node.carved;
  placement::Block(idle, node.blocked);
  return idle;
}

void ReleaseTask(const Node& node, const RunningTask& placed, NodeState& after) {
  const GpuSet gpus = placed.place.gpus - node.blocked;
  if (gpus == placed.place.gpus) {
    placement::Release(after, placed.shape, placed.place);
    return;
  }
  after.cpu_free += placed.shape.cpu_milli;
  after.memory_free += placed.shape.memory_mib;
  Shape rest = placed.shape;
  rest.gpus = static_cast<std::int16_t>(gpus.size());
  rest.cpu_milli = rest.memory_mib = 0;
  if (rest.gpus > 0) placement::Release(after, rest, {gpus});
}

NodeState StateAt(const ClusterState& state, NodeIndex index, Time now, Time at) {
  const Node& node = state.nodes[index];
  NodeState after = node.state;
  if (at <= now || !node.accepts) return after;
  for (const RunningTask& placed : node.placements) {
    if (EndOf(state.rules, placed, now) <= at) ReleaseTask(node, placed, after);
  }
  return after;
}

NodeState StateWithoutLeaving(const ClusterState& state, NodeIndex index) {
  const Node& node = state.nodes[index];
  NodeState after = node.state;
  if (!node.accepts) return after;
  for (const RunningTask& placed : node.placements) {
    if (placed.is_leaving) ReleaseTask(node, placed, after);
  }
  return after;
}

bool IsTheirs(const AdvanceReservation& advance, TeamIndex team, UserIndex user) {
  return advance.user ? *advance.user == user : advance.team == team && team != kRootTeam;
}

const AdvanceReservation* AdvanceReservationOf(const ClusterState& state, std::uint64_t id) {
  const auto at = std::find_if(state.advance_reservations.begin(), state.advance_reservations.end(),
                               [&](const AdvanceReservation& one) { return one.id == id; });
  return at == state.advance_reservations.end() ? nullptr : &*at;
}

ReservedCapacity Unserved(const ClusterState& state, const Node& node, const ReservedCapacity& reserved, Time now,
                          Time moment) {
  ReservedCapacity rest = reserved;
  if (reserved.advance == 0 || reserved.from > now) return rest;
  const AdvanceReservation* advance = AdvanceReservationOf(state, reserved.advance);
  if (advance == nullptr) return rest;
  rest.closed = reserved.place.gpus;
  for (const RunningTask& placed : node.placements) {
    if ((placed.place.gpus & reserved.place.gpus).empty()) continue;
    const auto owner = state.running.find(placed.job);
    if (owner == state.running.end()) continue;  // A stand-in placement (SchedulingCycle::MoveReservations).
    const ClassKey& key = state.classes[owner->second.job_class].key;
    if (!IsTheirs(*advance, key.team, key.user) || EndOf(state.rules, placed, now) <= moment) continue;
    rest.place.gpus -= placed.place.gpus;
    rest.shape.cpu_milli = std::max(0, rest.shape.cpu_milli - placed.shape.cpu_milli);
    rest.shape.memory_mib = std::max(0, rest.shape.memory_mib - placed.shape.memory_mib);
  }
  rest.shape.gpus = static_cast<std::int16_t>(rest.place.gpus.size());
  return rest;
}

Length LengthOf(const Rules& rules, const ClassKey& key) {
  const bool is_guess = key.limit == Duration(0) && rules.uses_predictions;
  return {key.limit, is_guess ? key.predicted : key.limit};
}

Placer::Placer(ClusterState& state, Time now, Time at) : state_(state), now_(now), at_(at) { state_.MakeFleet(); }

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

bool Placer::IsPassed(const ReservedCapacity& reserved) const {
  return passes_gpu_holds_ && reserved.shape.gpus > 0 && reserved.advance == 0 && !reserved.is_nomination;
}

void Placer::SetLength(Length length) {
  until_ = length.sure > Duration(0) ? AddSaturating(at_, length.sure) : kNever;
  likely_until_ = length.likely > Duration(0) ? AddSaturating(at_, length.likely) : until_;
}

// Returns until when the job counts as running, compared with the reservation `reserved`. A wrongly predicted run time
// may delay a reservation that itself rests on predictions, but never one that rests on time limits.
Time Placer::UntilFor(const ReservedCapacity& reserved) const {
  return reserved.is_sure || reserved.advance != 0 ? until_ : likely_until_;
}

bool Placer::Binds(const ReservedCapacity& reserved) const {
  if (IsPassed(reserved)) return false;
  if (reserved.from >= UntilFor(reserved) || reserved.until <= at_) {
    if (!reserved.drains) return false;
  }
  if (reserved.advance == 0) return true;
  return !IsOpen(reserved);
}

// Returns whether this job may use the advance reservation: it was made for the job's team or user, and the job stays
// inside its time.
bool Placer::IsOpen(const ReservedCapacity& reserved) const {
  if (reserved.advance == 0) return false;
  const AdvanceReservation* advance = AdvanceReservationOf(state_, reserved.advance);
  return advance != nullptr && IsTheirs(*advance, team_, user_) && at_ >= advance->from && until_ <= advance->until;
}

std::optional<GpuPlace> Placer::Choose(const ResourceRequest& request, const Shape& shape, NodeIndex node,
                                       const NodeState& state) const {
  return ChooseGpus(state_, request, shape, state_.nodes[node], state, draw_);
}

NodeState Undrained(const Node& node, const NodeState& state) {
  NodeState rest = state;
  for (const ReservedCapacity& reserved : node.reserved) {
    if (reserved.drains) Deduct(rest, reserved.shape, reserved.place);
  }
  return rest;
}

std::optional<GpuPlace> Placer::On(const ResourceRequest& request, const Shape& shape, NodeIndex index,
                                   const NodeState& state) {
  const Node& node = state_.nodes[index];
  if (!FitsNode(node, state, shape)) return std::nullopt;
  NodeState unreserved = state;
  GpuSet booked;
  bool is_bound = false;
  for (const ReservedCapacity& reserved : node.reserved) {
    if (IsOpen(reserved)) booked |= reserved.place.gpus;
    if (!Binds(reserved)) continue;
    is_bound = true;
    Deduct(unreserved, reserved.shape, reserved.place);
  }
  if (!is_bound && booked.empty()) return Choose(request, shape, index, state);
  if (!booked.empty()) {
    // Prefer what is reserved for this job's own team or user: no other job can use it.
    NodeState own = state;
    placement::Block(own, GpuSet::FirstN(node.facts.gpus) - booked);
    if (FitsNode(node, own, shape)) {
      const std::optional<GpuPlace> gpus = Choose(request, shape, index, own);
      if (gpus && ReservedStands(index, shape, *gpus)) return gpus;
    }
  }
  // Every strategy except kBest says which GPUs of a node a job gets. A job that starts now gets these, and
  // reservations for them are changed to other GPUs.
  if (request.placement != PlacementStrategy::kBest && at_ <= now_) {
    const std::optional<GpuPlace> gpus = Choose(request, shape, index, state);
    if (gpus && ReservedStands(index, shape, *gpus)) return gpus;
  }
  if (FitsNode(node, unreserved, shape)) {
    const std::optional<GpuPlace> gpus = Choose(request, shape, index, unreserved);
    if (gpus && ReservedStands(index, shape, *gpus)) return gpus;
  }
  const std::optional<GpuPlace> gpus = Choose(request, shape, index, state);
  if (gpus && ReservedStands(index, shape, *gpus)) return gpus;
  return std::nullopt;
}

void Placer::Offer(const ResourceRequest& request, const Shape& shape, NodeIndex node, std::optional<int> gpu_model,
                   std::optional<Spot>& best) {
  const NodeFacts& facts = state_.nodes[node].facts;
  if (has_anti_affinity_ && HasOfComponent(node)) return;
  if (gpu_model && shape.gpus > 0 && !HasModel(facts, *gpu_model)) return;
  NodeState state = StateOf(node);
  if (gpu_model && !facts.gpu_models.empty()) state = SeenBy(facts, state, shape, gpu_model);
  const NodeState seen = SeenBy(state_.nodes[node], state, shape);
  const placement::Scorer& scorer = ScorerOf(state_, request);
  const placement::Score score = placement::RateNode(scorer, seen, scorer.Worth(seen), shape);
  if (score == kNoRoom || (best && (best->score > score || (best->score == score && best->placed.node < node)))) return;
  const std::optional<GpuPlace> gpus = On(request, shape, node, state);
  if (gpus) best = Spot{{node, *gpus, 0, 0}, score};
}

std::optional<Placer::Spot> Placer::Best(const ResourceRequest& request, std::size_t group, const Domain& domain) {
  const std::vector<Shape>& alternatives = request.groups[group].alternatives;
  has_anti_affinity_ = request.groups[group].anti_affinity;
  component_ = request.groups[group].component;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    if (!domain.Allows(i)) continue;
    Shape shape = alternatives[i];
    std::optional<Spot> best;
    const bool uses_fleet = domain.is_everywhere && at_ <= now_ && !domain.gpu_model &&
                            request.placement == PlacementStrategy::kBest && !request.requires_topology &&
                            !IsHeterogeneous(request);
    if (uses_fleet) {
      const placement::ShapeIndex known = state_.fleet->Know(shape);
      if (const auto found = state_.fleet->Find(known)) {
        const NodeState& state = state_.fleet->nodes()[found->node];
        const placement::Scorer& scorer = ScorerOf(state_, request);
        const std::optional<GpuPlace> gpus = Choose(request, shape, found->node, state);
        best = Spot{{found->node, gpus.value_or(found->place), 0, 0},
                    placement::RateNode(scorer, state, scorer.Worth(state), shape)};
      }
      for (const NodeIndex node : state_.held) Offer(request, shape, node, {}, best);
      for (const NodeIndex node : state_.mixed) {
        if (state_.nodes[node].reserved.empty()) Offer(request, shape, node, {}, best);
      }
    } else if (domain.is_everywhere) {
      for (NodeIndex node = 0; node < state_.nodes.size(); ++node) Offer(request, shape, node, domain.gpu_model, best);
    } else {
      for (const NodeIndex node : domain.nodes) Offer(request, shape, node, domain.gpu_model, best);
    }
    if (!best) continue;
    best->placed.group = static_cast<std::uint8_t>(group);
    best->placed.alternative = static_cast<std::uint8_t>(i);
    return best;
  }
  return std::nullopt;
}

void Placer::Put(const ResourceRequest& request, const TaskPlacement& placed) {
  extras_[placed.node].push_back({ShapeOf(request, placed), placed.place, request.groups[placed.group].component});
  // Nodes are examined one by one for heterogeneous jobs: placer_components.cc.
  if (IsHeterogeneous(request)) return;
  if (at_ > now_ || !state_.nodes[placed.node].reserved.empty() || state_.nodes[placed.node].is_mixed()) return;
  NodeState left = StateOf(placed.node);
  if (request.groups[placed.group].anti_affinity) {
    // Hides the node until Undo shows it again.
    placement::Block(left, GpuSet::FirstN(state_.nodes[placed.node].facts.gpus));
    left.cpu_free = left.memory_free = -1;
  }
  state_.fleet->Set(placed.node, left);
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

// Returns the racks (or other domains) with room, the one with the least room first, because that leaves larger free
// domains.
std::vector<Placer::Domain> Placer::DomainsOf(const ResourceRequest& request, Locality level, const Domain& within) {
  std::map<std::uint64_t, std::pair<std::int64_t, Domain>> found;
  const int tasks = LeastTasks(request);
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
    const int room = room_for(index, request.groups.front());
    const bool serves = room > 0 || std::any_of(request.groups.begin() + 1, request.groups.end(),
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
    if (entry.first < request.groups.front().least) continue;
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
bool Placer::Fill(const ResourceRequest& request, const Domain& domain, std::vector<TaskPlacement>& placements) {
  std::vector<std::size_t> order(request.groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return request.groups[a].alternatives.front().gpu_parts() > request.groups[b].alternatives.front().gpu_parts();
  });
  for (const std::size_t group : order) {
    if (FillGroup(request, group, domain, placements)) continue;
    Undo();
    placements.clear();
    return false;
  }
  std::stable_sort(placements.begin(), placements.end(),
                   [](const TaskPlacement& a, const TaskPlacement& b) { return a.group < b.group; });
  return true;
}

bool Placer::FillGroup(const ResourceRequest& request, std::size_t group, const Domain& domain,
                       std::vector<TaskPlacement>& placements) {
  for (int task = 0; task < request.groups[group].least; ++task) {
    const std::optional<Spot> spot = Best(request, group, domain);
    if (!spot) return false;
    placements.push_back(spot->placed);
    Put(request, spot->placed);
  }
  return true;
}

// Taking the nodes with the most room first uses the fewest nodes for equal tasks. The last node is the one that the
// rest just fits on.
Placer::Domain Placer::FewestOf(const ResourceRequest& request, const Domain& within) {
  const TaskGroup& group = request.groups.front();
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

bool Placer::FillFew(const ResourceRequest& request, const Domain& domain, std::vector<TaskPlacement>& placements) {
  return request.wants_few_nodes && request.groups.size() == 1 && Fill(request, FewestOf(request, domain), placements);
}

// Lists the choices that all tasks must share wherever they run: the alternative and the GPU model.
std::vector<Placer::Domain> Placer::DomainsAlike(const ResourceRequest& request, const Domain& within) const {
  std::vector<int> models;
  if (RunsOnOneModel(request)) models = ModelsFor(state_, request);
  const std::size_t alternatives = TakesOneAlternative(request) ? request.groups.front().alternatives.size() : 1;
  std::vector<Domain> domains;
  for (std::size_t i = 0; i < alternatives; ++i) {
    for (std::size_t k = 0; k < std::max<std::size_t>(models.size(), 1); ++k) {
      if (models.empty() && RunsOnOneModel(request)) continue;
      domains.push_back(within);
      if (alternatives > 1) domains.back().alternative = i;
      if (models.size() > 1) domains.back().gpu_model = models[k];
    }
  }
  return domains;
}

std::vector<TaskPlacement> Placer::Find(const ResourceRequest& request, Length length, std::span<const NodeIndex> scope,
                                        bool is_everywhere, TeamIndex team, UserIndex user) {
  SetLength(length);
  team_ = team;
  user_ = user;
  passes_gpu_holds_ = state_.rules.cpu_jobs_pass && !WantsGpu(request);
  Domain all;
  all.is_everywhere = is_everywhere;
  if (!is_everywhere) all.nodes.assign(scope.begin(), scope.end());
  std::vector<TaskPlacement> placements;
  if (LeastTasks(request) == 1 && request.groups.size() == 1) {
    if (const auto spot = Best(request, 0, all)) placements.push_back(spot->placed);
    return placements;
  }
  if (IsHeterogeneous(request)) return FindComponents(request, all);
  const std::vector<Domain> models = DomainsAlike(request, all);
  for (int level = static_cast<int>(ClosestOf(request)); level >= static_cast<int>(WidestOf(request)); --level) {
    for (const Domain& domain : models) {
      if (level == static_cast<int>(Locality::kAnywhere)) {
        if (FillFew(request, domain, placements) || Fill(request, domain, placements)) return placements;
        continue;
      }
      for (const Domain& part : DomainsOf(request, static_cast<Locality>(level), domain)) {
        if (FillFew(request, part, placements) || Fill(request, part, placements)) return placements;
      }
    }
  }
  return {};
}

bool Placer::Keeps(const ResourceRequest& request, const std::vector<TaskPlacement>& placements, Length length,
                   TeamIndex team, UserIndex user) {
  SetLength(length);
  team_ = team;
  user_ = user;
  passes_gpu_holds_ = state_.rules.cpu_jobs_pass && !WantsGpu(request);
  for (const TaskPlacement& placed : placements) {
    const Shape& shape = ShapeOf(request, placed);
    if (!FitsOn(StateOf(placed.node), shape, placed.place) || !ReservedStands(placed.node, shape, placed.place))
      return false;
    Put(request, placed);
  }
  return true;
}

std::optional<std::vector<Shift>> Placer::Shifts(const ResourceRequest& request,
                                                 const std::vector<TaskPlacement>& placements, Length length,
                                                 TeamIndex team, UserIndex user) {
  SetLength(length);
  team_ = team;
  user_ = user;
  passes_gpu_holds_ = state_.rules.cpu_jobs_pass && !WantsGpu(request);
  std::vector<Shift> shifts;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const TaskPlacement& placed = placements[i];
    const bool is_last = std::none_of(placements.begin() + static_cast<std::ptrdiff_t>(i) + 1, placements.end(),
                                      [&](const TaskPlacement& other) { return other.node == placed.node; });
    if (is_last && !state_.nodes[placed.node].reserved.empty()) {
      if (!ReservedStands(placed.node, ShapeOf(request, placed), placed.place, &shifts)) return std::nullopt;
    }
    extras_[placed.node].push_back({ShapeOf(request, placed), placed.place, 0});
  }
  extras_.clear();
  return shifts;
}

std::optional<TaskPlacement> Placer::FindOne(const ResourceRequest& request, std::size_t group, const Run& run,
                                             std::vector<NodeIndex> nodes) {
  const ClassKey& key = state_.classes[run.job_class].key;
  until_ = run.end;
  likely_until_ = EndOf(state_.rules, run, now_);
  team_ = key.team;
  user_ = key.user;
  Domain domain;
  domain.nodes = std::move(nodes);
  const NodeIndex first = run.placements.front().node;
  const Locality level = WidestOf(request);
  if (domain.nodes.empty() && level != Locality::kAnywhere) {
    const auto domain_of = [&](NodeIndex node) { return DomainOf(state_.nodes[node].facts, node, level); };
    for (NodeIndex node = 0; node < state_.nodes.size(); ++node) {
      if (domain_of(node) == domain_of(first)) domain.nodes.push_back(node);
    }
  }
  domain.is_everywhere = domain.nodes.empty();
  if (!request.mixes_models && WantsGpu(request) && ModelsFor(state_, request).size() > 1) {
    const std::vector<int> models = ModelsOf(state_, run.placements);
    // The tasks placed so far are on several GPU models, so no further task can be on the same one.
    if (models.size() > 1 && request.groups[group].alternatives.front().gpus > 0) return std::nullopt;
    if (!models.empty()) domain.gpu_model = models.front();
  }
  if (TakesOneAlternative(request)) domain.alternative = run.placements.front().alternative;
  const auto spot = Best(request, group, domain);
  if (!spot) return std::nullopt;
  return spot->placed;
}

}  // namespace divvy::core
