// Chooses places for a job that no known end lets start; it gets them as they become free. It takes nothing that is
// reserved for others, so no other job starts there, and it starts when the last owner has left.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "engine/core/place/earliest.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"
#include "engine/gpu_choice.h"

namespace divvy::core {
namespace {

// An estimate of the wait: fewer owners that must leave is better, then owners that have run longer.
struct Wait {
  int busy = 0;
  Time youngest = kNoTime;  // Start of the owner that started last.

  friend auto operator<=>(const Wait&, const Wait&) = default;
};

struct Spot {
  Wait wait;
  NodeIndex node = 0;
  GpuPlace place;
  std::uint8_t alternative = 0;
};

class Drain {
 public:
  Drain(const ClusterState& state, const ResourceRequest& request) : state_(state), request_(request) {}

  /// Starts with the room that earlier components of the job left, in the form of Unreserved().
  void Begin(std::map<NodeIndex, NodeState> unreserved) { before_ = std::move(unreserved); }
  /// Returns the unreserved room after `placements` are taken as well.
  std::map<NodeIndex, NodeState> With(const std::vector<TaskPlacement>& placements) {
    unreserved_ = before_;
    for (const TaskPlacement& placed : placements)
      placement::Take(Unreserved(placed.node), ShapeOf(request_, placed), placed.place);
    return std::move(unreserved_);
  }

  /// Restricts the search to these nodes, if there are any.
  void Restrict(std::vector<NodeIndex> nodes) { nodes_ = std::move(nodes); }

  /// Returns the places with the shortest wait; none if that is not shorter than the wait for `than`.
  std::vector<TaskPlacement> Find(const std::vector<TaskPlacement>* than) {
    std::vector<TaskPlacement> best;
    std::optional<Wait> least;
    if (than != nullptr) least = Wait{BusyOf(*than), kNoTime};
    for (const Domain& domain : Domains()) {
      unreserved_ = before_;
      Wait wait;
      std::vector<TaskPlacement> placements;
      if (!Fill(domain, placements, wait) || (least && !(wait < *least))) continue;
      least = wait;
      best = std::move(placements);
    }
    return best;
  }

  bool Stands(const std::vector<TaskPlacement>& placements) {
    return std::all_of(placements.begin(), placements.end(), [&](const TaskPlacement& placed) {
      NodeState& unreserved = Unreserved(placed.node);
      const Shape& shape = ShapeOf(request_, placed);
      if (!state_.nodes[placed.node].accepts || !FitsOn(unreserved, shape, placed.place)) return false;
      placement::Take(unreserved, shape, placed.place);
      return true;
    });
  }

 private:
  /// Nodes that can hold all tasks together, with one GPU model and one alternative if required.
  struct Domain {
    std::optional<int> model;
    std::optional<std::size_t> alternative;  // Set if the tasks must agree on it.
    std::vector<NodeIndex> nodes;
  };

  int BusyOf(const std::vector<TaskPlacement>& placements) {
    int busy = 0;
    for (const TaskPlacement& placed : placements) {
      const Node& node = state_.nodes[placed.node];
      const Shape& shape = ShapeOf(request_, placed);
      for (const int gpu : placed.place.gpus) busy += IsBusy(placed.node, shape, gpu);
      if (IsHostBusy(node, shape)) busy += 1;
    }
    return busy;
  }

  // Returns whether the GPU lacks room that it would have if nothing ran there.
  bool IsBusy(NodeIndex index, const Shape& shape, int gpu) {
    const Node& node = state_.nodes[index];
    NodeState left = node.state;
    for (const ReservedCapacity& reserved : node.reserved) Deduct(left, reserved.shape, reserved.place);
    return !placement::FitsGpu(left, gpu, shape);
  }

  static bool IsHostBusy(const Node& node, const Shape& shape) {
    return node.state.cpu_free < shape.cpu_milli || node.state.memory_free < shape.memory_mib;
  }

  // Uses the widest allowed locality: a preference for closeness must not lengthen the wait.
  std::vector<Domain> Domains() const {
    std::vector<std::optional<int>> models;
    if (RunsOnOneModel(request_)) {
      const std::vector<int> list = ModelsFor(state_, request_);
      if (list.size() > 1) models.assign(list.begin(), list.end());
    }
    if (models.empty()) models.emplace_back();
    const bool is_all_gpus = std::all_of(request_.groups.begin(), request_.groups.end(),
                                         [](const TaskGroup& group) { return group.alternatives.front().gpus > 0; });
    std::vector<Domain> all;
    for (const std::optional<int>& model : models) {
      std::map<std::uint64_t, Domain> domains;
      const auto add = [&](NodeIndex index) {
        const NodeFacts& facts = state_.nodes[index].facts;
        if (!state_.nodes[index].accepts || (model && is_all_gpus && !HasModel(facts, *model))) return;
        domains[DomainOf(facts, index, WidestOf(request_))].nodes.push_back(index);
      };
      if (nodes_.empty()) {
        for (NodeIndex index = 0; index < state_.nodes.size(); ++index) add(index);
      } else {
        for (const NodeIndex index : nodes_) add(index);
      }
      for (auto& [name, domain] : domains) {
        domain.model = model;
        const std::size_t alternatives =
            TakesOneAlternative(request_) ? request_.groups.front().alternatives.size() : 0;
        for (std::size_t i = 0; i < alternatives; ++i) {
          all.push_back(domain);
          all.back().alternative = i;
        }
        if (alternatives == 0) all.push_back(std::move(domain));
      }
    }
    return all;
  }

  bool Fill(const Domain& domain, std::vector<TaskPlacement>& placements, Wait& wait) {
    for (std::size_t group = 0; group < request_.groups.size(); ++group) {
      for (int task = 0; task < request_.groups[group].least; ++task) {
        std::optional<Spot> best;
        for (const NodeIndex node : domain.nodes) {
          for (std::size_t i = 0; i < request_.groups[group].alternatives.size(); ++i) {
            if (domain.alternative && *domain.alternative != i) continue;
            if (request_.groups[group].anti_affinity && HasPiece(placements, node)) continue;
            const auto spot = On(node, request_.groups[group].alternatives[i], domain.model);
            if (!spot || (best && !(spot->wait < best->wait))) continue;
            best = spot;
            best->alternative = static_cast<std::uint8_t>(i);
          }
        }
        if (!best) return false;
        const Shape& shape = request_.groups[group].alternatives[best->alternative];
        placement::Take(Unreserved(best->node), shape, best->place);
        placements.push_back({best->node, best->place, static_cast<std::uint8_t>(group), best->alternative});
        wait.busy += best->wait.busy;
        wait.youngest = std::max(wait.youngest, best->wait.youngest);
      }
    }
    return true;
  }

  static bool HasPiece(const std::vector<TaskPlacement>& placements, NodeIndex node) {
    return std::any_of(placements.begin(), placements.end(),
                       [&](const TaskPlacement& placed) { return placed.node == node; });
  }

  // Returns the room of the node as if no job ran, minus what is reserved.
  NodeState& Unreserved(NodeIndex index) {
    const auto [at, is_new] = unreserved_.try_emplace(index);
    if (!is_new) return at->second;
    const Node& node = state_.nodes[index];
    at->second = IdleState(node);
    for (const ReservedCapacity& reserved : node.reserved) {
      Deduct(at->second, reserved.shape, reserved.place);
      DeductHost(at->second, reserved.shape);
    }
    return at->second;
  }

  std::optional<Spot> On(NodeIndex index, const Shape& shape, std::optional<int> model) {
    const Node& node = state_.nodes[index];
    if (model && shape.gpus > 0 && !HasModel(node.facts, *model)) return std::nullopt;
    std::optional<NodeState> of_model;
    if (model && !node.facts.gpu_models.empty()) of_model = SeenBy(node.facts, Unreserved(index), shape, model);
    const NodeState& unreserved = of_model ? *of_model : Unreserved(index);
    if (!FitsNode(node, unreserved, shape)) return std::nullopt;
    // Free GPUs first, then those whose owners have run longest.
    std::vector<std::tuple<bool, Time, int>> gpus;
    for (int gpu = 0; gpu < node.facts.gpus; ++gpu) {
      if (!placement::FitsGpu(unreserved, gpu, shape)) continue;
      const bool is_busy = IsBusy(index, shape, gpu);
      Time owner = kNoTime;
      for (const RunningTask& placed : node.placements) {
        if (is_busy && placed.place.gpus.Contains(gpu)) owner = std::max(owner, placed.started);
      }
      gpus.emplace_back(is_busy, owner, gpu);
    }
    std::sort(gpus.begin(), gpus.end());
    Spot spot;
    spot.node = index;
    if (shape.gpus > 0) {
      const std::optional<GpuPlace> chosen = Choose(node, shape, unreserved, gpus);
      if (!chosen) return std::nullopt;
      spot.place = *chosen;
    }
    for (const auto& [is_busy, owner, gpu] : gpus) {
      if (!is_busy || !spot.place.gpus.Contains(gpu)) continue;
      spot.wait.busy += 1;
      spot.wait.youngest = std::max(spot.wait.youngest, owner);
    }
    if (IsHostBusy(node, shape)) spot.wait.busy += 1;
    return spot;
  }

  // Uses the shortest prefix of `gpus` that suffices. If the GPUs must be connected, uses the connected set with the
  // shortest wait.
  std::optional<GpuPlace> Choose(const Node& node, const Shape& shape, const NodeState& unreserved,
                                 const std::vector<std::tuple<bool, Time, int>>& gpus) const {
    if (request_.requires_topology && node.facts.topology != nullptr) return Joined(node, shape, unreserved, gpus);
    NodeState few = unreserved;
    placement::Block(few, GpuSet::FirstN(node.facts.gpus));
    for (const auto& [is_busy, owner, gpu] : gpus) {
      placement::CopyGpu(few, unreserved, gpu);
      if (const auto chosen = ChooseGpus(state_, request_, shape, node, few, 0)) return chosen;
    }
    return std::nullopt;
  }

  std::optional<GpuPlace> Joined(const Node& node, const Shape& shape, const NodeState& unreserved,
                                 const std::vector<std::tuple<bool, Time, int>>& gpus) const {
    const NodeState seen = SeenBy(node, unreserved, shape);
    std::vector<std::tuple<bool, Time, int>> suitable;
    std::vector<int> order;
    for (const auto& gpu : gpus) {
      if (!placement::FitsGpu(seen, std::get<2>(gpu), shape)) continue;
      suitable.push_back(gpu);
      order.push_back(std::get<2>(gpu));
    }
    const GpuChoice choice{request_.placement, 0, request_.topology, true, node.facts.topology.get()};
    std::optional<Wait> least;
    GpuSet best;
    for (const std::vector<std::size_t>& places : GrownSets(order, shape.gpus, choice)) {
      Wait wait;
      GpuSet set;
      for (const std::size_t place : places) {
        const auto& [is_busy, owner, gpu] = suitable[place];
        set.Insert(gpu);
        if (!is_busy) continue;
        wait.busy += 1;
        wait.youngest = std::max(wait.youngest, owner);
      }
      if (least && !(wait < *least)) continue;
      least = wait;
      best = set;
    }
    return least ? std::optional(GpuPlace{best}) : std::nullopt;
  }

  const ClusterState& state_;
  const ResourceRequest& request_;
  std::vector<NodeIndex> nodes_;
  std::map<NodeIndex, NodeState> before_;
  std::map<NodeIndex, NodeState> unreserved_;
};

// Places each component next to the earlier ones; the component with the fewest possible nodes goes first.
std::vector<TaskPlacement> ComponentsOf(const ClusterState& state, const ResourceRequest& request) {
  struct One {
    std::size_t nodes = 0;
    std::size_t first_group = 0;
    ResourceRequest request;
  };
  std::vector<One> components;
  for (std::size_t group = 0; group < request.groups.size(); ++group) {
    if (request.groups[group].component < components.size()) continue;
    One& one = components.emplace_back(One{0, group, ComponentRequest(request, request.groups[group].component)});
    const std::vector<Shape>& shapes = one.request.groups.front().alternatives;
    one.nodes = static_cast<std::size_t>(std::ranges::count_if(state.nodes, [&](const Node& node) {
      const NodeState idle = IdleState(node);
      return node.accepts && std::ranges::any_of(shapes, [&](const auto& s) { return FitsNode(node, idle, s); });
    }));
  }
  std::ranges::stable_sort(components, {}, &One::nodes);
  std::vector<TaskPlacement> placements;
  std::map<NodeIndex, NodeState> unreserved;
  for (const One& one : components) {
    Drain drain(state, one.request);
    drain.Begin(std::move(unreserved));
    std::vector<TaskPlacement> found = drain.Find(nullptr);
    if (found.empty()) return {};
    unreserved = drain.With(found);
    for (TaskPlacement& placed : found) {
      placed.group = static_cast<std::uint8_t>(placed.group + one.first_group);
      placements.push_back(placed);
    }
  }
  std::ranges::stable_sort(placements, {}, &TaskPlacement::group);
  return placements;
}

}  // namespace

std::optional<BackfillReservation> DrainFor(const ClusterState& state, const ResourceRequest& request) {
  BackfillReservation reservation;
  reservation.placements =
      IsHeterogeneous(request) ? ComponentsOf(state, request) : Drain(state, request).Find(nullptr);
  if (reservation.placements.empty()) return std::nullopt;
  return reservation;
}

bool DrainStands(const ClusterState& state, const ResourceRequest& request,
                 const std::vector<TaskPlacement>& placements) {
  return Drain(state, request).Stands(placements);
}

std::optional<BackfillReservation> BetterDrain(const ClusterState& state, const ResourceRequest& request,
                                               const std::vector<NodeIndex>& nodes,
                                               const std::vector<TaskPlacement>& than) {
  // A job with several components keeps the nodes that drain for it: this search compares the places of one component.
  if (IsHeterogeneous(request)) return std::nullopt;
  Drain drain(state, request);
  // For a gang, better nodes alone do not show whether the whole gang improves.
  if (LeastTasks(request) == 1 && request.groups.size() == 1) drain.Restrict(nodes);
  BackfillReservation reservation;
  reservation.placements = drain.Find(&than);
  if (reservation.placements.empty()) return std::nullopt;
  return reservation;
}

}  // namespace divvy::core
