#include "engine/core/place/job_perspective.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/result.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

namespace divvy::core {
namespace {

/// For a gang without locality requirements, at most this many nodes with room are considered, or twice its task count
/// if that is more.
constexpr std::size_t kScope = 64;

}  // namespace

Seeker SeekerOf(const ClusterState& state, JobId entry) {
  const auto at = state.waiting.find(entry);
  DIVVY_ASSERT(at != state.waiting.end());
  const ClassKey& key = state.classes[at->second.job_class].key;
  return {state.requests[key.request], key, at->second.place};
}

Key OrderOf(const ClusterState& state, const Seeker& seeker, Time now) {
  Standing standing = state.StandingOf(state.waiting.at(seeker.place.id).job_class, seeker.place);
  const bool is_own_front = standing.front_parts == standing.gpu_parts;
  standing.gpu_parts = LeastGpuParts(seeker.request);
  if (is_own_front) standing.front_parts = standing.gpu_parts;
  standing.predicted = seeker.key.predicted > Duration(0) ? seeker.key.predicted : seeker.key.limit;
  return KeyOf(state.pools[standing.pool], state.teams, standing, now);
}

std::int64_t RoomOf(const NodeState& node, const Shape& shape) {
  if (!placement::Fits(node, shape)) return 0;
  std::int64_t room = std::numeric_limits<std::int32_t>::max();
  if (shape.cpu_milli > 0) room = std::min<std::int64_t>(room, node.cpu_free / shape.cpu_milli);
  if (shape.memory_mib > 0) room = std::min<std::int64_t>(room, node.memory_free / shape.memory_mib);
  if (shape.gpus == 0) return room;
  const bool is_plain = !shape.slice && shape.gpu_memory_mib == 0;
  if (is_plain && shape.parts == placement::kGpuParts) return std::min<std::int64_t>(room, node.whole / shape.gpus);
  if (is_plain && shape.gpus == 1) {
    std::int64_t shares = 0;
    for (const placement::GpuRoom& gpu : node.rooms()) shares += gpu.free_parts / shape.parts;
    return std::min(room, shares);
  }
  NodeState left = node;
  std::int64_t count = 0;
  for (; count < room && placement::Fits(left, shape); ++count) {
    placement::Take(left, shape, placement::RoomiestGpus(left, shape));
  }
  return count;
}

std::int64_t RoomOf(const NodeState& node, const TaskGroup& group) {
  std::int64_t most = 0;
  for (const Shape& shape : group.alternatives) most = std::max(most, RoomOf(node, shape));
  return group.AtMostOnOne(most);
}

std::int64_t RoomOn(const NodeFacts& facts, const NodeState& node, const TaskGroup& group, std::optional<int> model) {
  std::int64_t most = 0;
  for (const Shape& shape : group.alternatives) {
    if (model && shape.gpus > 0 && !HasModel(facts, *model)) continue;
    if (facts.gpu_classes.empty()) most = std::max(most, RoomOf(node, shape));
    else most = std::max(most, RoomOf(SeenBy(facts, node, shape, model), shape));
  }
  return group.AtMostOnOne(most);
}

bool NeedsTopology(const ResourceRequest& request, const Shape& shape) {
  return request.requires_topology && request.topology != TopologyNeed::kAny && shape.gpus > 1 && shape.is_whole();
}

GpuSet WholeFreeOf(const NodeState& node) {
  GpuSet free;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    if (placement::RoomOfGpu(node, gpu).free_parts == placement::kGpuParts) free.Insert(gpu);
  }
  return free;
}

JobPerspective::JobPerspective(ClusterState& state, Seeker seeker, Time now)
    : state_(state), seeker_(std::move(seeker)), now_(now) {
  order_ = OrderOf(state_, seeker_, now_);
  for (const ReservationSlot& slot : state_.reservations) {
    if (slot.reservation.entry == seeker_.place.id) {
      Lift(slot);
      continue;
    }
    const Place& place = state_.waiting.at(slot.reservation.entry).place;
    if (state_.KeyAt(slot.job_class, place, now_) < order_) {
      before_.push_back(slot.reservation.entry);
    } else if (!slot.reservation.is_nomination) {
      Lift(slot);
    }
  }
}

void JobPerspective::Lift(const ReservationSlot& slot) {
  for (const TaskPlacement& placed : slot.reservation.placements) {
    Node& node = state_.nodes[placed.node];
    const bool is_known =
        std::any_of(lifted_.begin(), lifted_.end(), [&](const Lifted& one) { return one.node == placed.node; });
    if (!is_known) lifted_.push_back({placed.node, node.reserved});
    std::erase_if(node.reserved, [&](const ReservedCapacity& reserved) {
      return reserved.entry == slot.reservation.entry && reserved.advance == 0;
    });
  }
}

JobPerspective::~JobPerspective() {
  for (Lifted& one : lifted_) {
    state_.nodes[one.node].reserved = std::move(one.reserved);
    state_.Show(one.node);  // Trying a gang may have shown the node to the fleet without this reserved capacity.
  }
}

bool IsBarred(const ClusterState& state, const ResourceRequest& request, const ClassKey& key) {
  const std::int64_t parts = LeastGpuParts(request);
  if (RefusedBy(state, key.caps, parts)) return true;
  return !TeamsHaveRoom(state.teams, key.team, key.preemptible == Preemptible::kNever, parts);
}

Time JobPerspective::Until() const {
  return seeker_.key.limit > Duration(0) ? AddSaturating(now_, seeker_.key.limit) : kNever;
}

bool JobPerspective::IsBefore(const ReservationSlot& slot) const {
  return std::find(before_.begin(), before_.end(), slot.reservation.entry) != before_.end();
}

// Returns how much of the limit is reserved for jobs before this one, by the same rule as SchedulingCycle::IsKept.
CapUse JobPerspective::KeptOf(CapIndex cap) const {
  return KeptOfCap(state_, cap, Until(), [&](const ReservationSlot& slot) { return IsBefore(slot); });
}

KeptOfTeams JobPerspective::KeptOfItsTeams() const {
  return KeptByTeam(state_, Until(), [&](const ReservationSlot& slot) { return IsBefore(slot); });
}

bool JobPerspective::IsBarred() const {
  if (core::IsBarred(state_, seeker_.request, seeker_.key)) return true;
  const std::int64_t parts = LeastGpuParts(seeker_.request);
  const bool is_of_cap = std::any_of(seeker_.key.caps.begin(), seeker_.key.caps.end(),
                                     [&](CapIndex cap) { return Refuses(state_.caps[cap], parts, KeptOf(cap)); });
  if (is_of_cap || !state_.teams.has_rules()) return is_of_cap;
  const bool is_firm = seeker_.key.preemptible == Preemptible::kNever;
  return !TeamsHaveRoom(state_.teams, seeker_.key.team, is_firm, parts, KeptOfItsTeams());
}

std::optional<JobId> JobPerspective::BlockedBefore() const {
  if (state_.rules.backfill != Backfill::kNone) return std::nullopt;
  const bool wants_gpu = WantsGpu(seeker_.request);
  std::optional<Key> first;
  for (ClassIndex index = 0; index < state_.queue_heads.size(); ++index) {
    const JobClass& job_class = state_.classes[index];
    const QueueHead& front = state_.queue_heads[index];
    if (!front.is_waiting || front.wants_gpu != wants_gpu || front.pool != seeker_.request.pool) continue;
    ClassQueue::Position at = job_class.queue.begin();
    if (job_class.queue.At(at).place.id == seeker_.place.id) at = job_class.queue.Next(at);
    if (job_class.queue.IsEnd(at)) continue;
    const Key key = state_.KeyAt(index, job_class.queue.At(at).place, now_);
    if (order_ < key || (first && *first < key)) continue;
    if (job_class.checked_epoch == state_.usable_epoch && !job_class.could_run) continue;
    if (core::IsBarred(state_, state_.requests[job_class.key.request], job_class.key)) continue;
    first = key;
  }
  if (!first) return std::nullopt;
  return first->id;
}

// Returns true if the job may not use these reserved resources, by the same rule as Placer. It may use those of an
// advance reservation that was made for it, and those whose reservation ends before the job starts or begins after it
// has ended.
bool JobPerspective::Binds(const ReservedCapacity& reserved) const {
  const Time until = Until();
  if ((reserved.from >= until || reserved.until <= now_) && !reserved.drains) return false;
  if (reserved.advance == 0) return true;
  const AdvanceReservation* advance = AdvanceReservationOf(state_, reserved.advance);
  const bool is_open = advance != nullptr && IsTheirs(*advance, seeker_.key.team, seeker_.key.user) &&
                       now_ >= advance->from && until <= advance->until;
  return !is_open;
}

bool JobPerspective::HasTopology(const Node& node, const Shape& shape) {
  const GpuTopology* topology = node.facts.topology.get();
  if (topology == nullptr || !NeedsTopology(seeker_.request, shape)) return true;
  const GpuSet idle = WholeFreeOf(node.state);
  for (const Joined& one : joined_) {
    if (one.topology == topology && one.idle == idle && one.gpus == shape.gpus) return one.is_there;
  }
  static const SizeDemand kUsual = UsualSizeDemand();
  const bool is_there = topology->Pick(idle, shape.gpus, kUsual, seeker_.request.topology).has_value();
  joined_.push_back({topology, idle, shape.gpus, is_there});
  return is_there;
}

std::optional<NodeIndex> JobPerspective::Room() { return IsSingle(seeker_.request) ? RoomForOne() : RoomForGang(); }

std::optional<NodeIndex> JobPerspective::WouldStart() {
  if (IsBarred()) return std::nullopt;
  const std::optional<NodeIndex> node = Room();
  if (!node || BlockedBefore()) return std::nullopt;
  return node;
}

// On a node with equal GPUs and without reservations, the task only has to fit. Other nodes are checked as a scheduling
// cycle does it.
std::optional<NodeIndex> JobPerspective::RoomForOne() {
  std::vector<NodeIndex> held;
  for (const Shape& shape : seeker_.request.groups.front().alternatives) {
    for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
      const Node& node = state_.nodes[index];
      if (!FitsNode(node, node.state, shape)) continue;
      if (!node.reserved.empty() || node.is_mixed()) held.push_back(index);
      else if (HasTopology(node, shape)) return index;
    }
  }
  if (held.empty()) return std::nullopt;
  std::sort(held.begin(), held.end());
  held.erase(std::unique(held.begin(), held.end()), held.end());
  Placer placing(state_, now_, now_);
  const std::vector<TaskPlacement> placements = placing.Find(seeker_.request, LengthOf(state_.rules, seeker_.key), held,
                                                             false, seeker_.key.team, seeker_.key.user);
  if (placements.empty()) return std::nullopt;
  return placements.front().node;
}

// Equal tasks of whole GPUs fit wherever there is room, so without reserved capacity the totals decide.
bool JobPerspective::IsCountable() const {
  const ResourceRequest& request = seeker_.request;
  if (request.groups.size() != 1 || request.groups.front().alternatives.size() != 1) return false;
  const Shape& shape = request.groups.front().alternatives.front();
  return !NeedsTopology(request, shape) && (shape.gpus == 0 || shape.is_whole());
}

bool JobPerspective::FitsUnheld() const {
  const ResourceRequest& request = seeker_.request;
  const Locality level = WidestOf(request);
  const bool is_one_model = RunsOnOneModel(request);
  std::map<std::pair<std::uint64_t, int>, std::int64_t> sums;
  for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
    const Node& node = state_.nodes[index];
    if (!node.reserved.empty()) continue;
    bool is_enough = false;
    ForEachModel(node.facts, is_one_model, [&](int model) {
      const auto only = is_one_model ? std::optional(model) : std::nullopt;
      const std::int64_t room = RoomOn(node.facts, node.state, request.groups.front(), only);
      if (room == 0) return;
      std::int64_t& sum = sums[{DomainOf(node.facts, index, level), model}];
      sum += room;
      is_enough |= sum >= request.groups.front().least;
    });
    if (is_enough) return true;
  }
  return false;
}

std::vector<NodeIndex> JobPerspective::GangScope() const {
  std::vector<std::pair<std::int64_t, NodeIndex>> roomy;
  std::size_t held = 0;
  for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
    const Node& node = state_.nodes[index];
    std::int64_t room = 0;
    for (const TaskGroup& group : seeker_.request.groups) room += RoomOf(node.state, group);
    if (room == 0) continue;
    const bool is_held = !node.reserved.empty();
    held += is_held;
    roomy.emplace_back(is_held ? std::numeric_limits<std::int64_t>::max() : room, index);
  }
  const bool lies_together = WidestOf(seeker_.request) != Locality::kAnywhere || TakesOneAlternative(seeker_.request) ||
                             IsHeterogeneous(seeker_.request);
  const std::size_t most = held + std::max(kScope, 2 * static_cast<std::size_t>(LeastTasks(seeker_.request)));
  if (!lies_together && roomy.size() > most) {
    std::stable_sort(roomy.begin(), roomy.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    roomy.resize(most);
  }
  std::vector<NodeIndex> scope;
  if (held == 0 && IsCountable()) return scope;  // FitsUnheld has already covered this case.
  for (const auto& [room, index] : roomy) scope.push_back(index);
  std::sort(scope.begin(), scope.end());
  return scope;
}

std::optional<NodeIndex> JobPerspective::RoomForGang() {
  if (!IsCountable() || !FitsUnheld()) {
    const std::vector<NodeIndex> scope = GangScope();
    if (scope.empty()) return std::nullopt;
    Placer placing(state_, now_, now_);
    const std::vector<TaskPlacement> placements = placing.Find(seeker_.request, LengthOf(state_.rules, seeker_.key),
                                                               scope, false, seeker_.key.team, seeker_.key.user);
    if (placements.empty()) return std::nullopt;
    return placements.front().node;
  }
  for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
    if (RoomOf(state_.nodes[index].state, seeker_.request.groups.front()) > 0) return index;
  }
  return std::nullopt;
}

}  // namespace divvy::core
