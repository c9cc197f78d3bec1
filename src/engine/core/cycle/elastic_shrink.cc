#include "engine/core/cycle/elastic_shrink.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "engine/core/cycle/preemption_policy.h"
#include "engine/core/cycle/resize.h"
#include "engine/core/cycle/statement.h"
#include "engine/core/cycle/waiting_heads.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/nominations.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"

namespace divvy::core {
namespace {

/// Sets that are tried for one preemptor, best first.
constexpr std::size_t kMostTried = 64;

using Head = WaitingHeads::Head;

/// With up to this many usable GPUs all sets are searched; otherwise Asker::Narrow first reduces them.
constexpr std::size_t kSearched = 16;

/// A set of GPUs for one preemptor. Ordered by preference.
struct Choice {
  int asked = 0;
  int jobs = 0;
  // How many GPUs each elastic job releases, negated; jobs that grew last come first.
  std::array<std::int8_t, GpuSet::kCapacity> kept{};
  int worst_pair = 0;  // Negated, like the sum: more is better.
  int sum_of_pairs = 0;
  GpuSet gpus;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

class Asker {
 public:
  Asker(Cluster& cluster, std::vector<Surplus> surplus, Time now)
      : cluster_(cluster), state_(cluster.state()), surplus_(std::move(surplus)), now_(now) {
    std::stable_sort(surplus_.begin(), surplus_.end(), [](const Surplus& a, const Surplus& b) {
      return std::tuple(b.grown, a.job) < std::tuple(a.grown, b.job);
    });
    if (surplus_.size() > GpuSet::kCapacity) surplus_.resize(GpuSet::kCapacity);
  }

  std::vector<ElasticShrink> Run() {
    WaitingHeads heads(state_, now_);
    heads.AddAllWithGpus();
    for (int looked = 0; !heads.empty() && looked < kMostAskers && HasAny(); ++looked) {
      const Head head = heads.Take();
      const ReservationSlot* slot = SlotOf(state_, head.place.id);
      const bool is_served = (slot != nullptr && slot->reservation.is_nomination) || Serve(head);
      if (is_served) heads.AddNext(head);
    }
    return std::move(given_);
  }

 private:
  bool HasAny() const {
    return std::any_of(surplus_.begin(), surplus_.end(), [](const Surplus& one) { return one.most > 0; });
  }

  /// Returns whether the job could start this way, and sooner than its reservation.
  bool IsWorthALook(const Head& head) const {
    const ClassKey& key = state_.classes[head.job_class].key;
    const ResourceRequest& request = state_.requests[key.request];
    if (request.groups.size() != 1 || request.groups.front().least != 1) return false;
    if (!request.groups.front().alternatives.front().is_whole()) return false;
    if (StartBlockerOf(state_, head.job_class).could_never_run) return false;
    // No job ends by releasing GPUs. So if a limit on the number of running jobs is reached, this cannot help; a limit
    // on GPUs may get room.
    if (std::any_of(key.caps.begin(), key.caps.end(), [&](CapIndex cap) { return RefusesJobs(state_.caps[cap]); }))
      return false;
    const ReservationSlot* slot = SlotOf(state_, head.place.id);
    return slot == nullptr || slot->reservation.start > AddSaturating(now_, state_.rules.grace);
  }

  // A nomination lasts until the GPUs are released, and as long as it lasts no later start can be reserved on its node
  // (Placer::NominationsHold). A job before this one with such a reservation would lose it.
  bool OvertakesReservation(const Head& head) const {
    return std::any_of(state_.reservations.begin(), state_.reservations.end(), [&](const ReservationSlot& slot) {
      const BackfillReservation& reservation = slot.reservation;
      const bool has_date =
          !reservation.is_nomination && reservation.start != kNever && reservation.entry != head.place.id;
      if (!has_date || !(slot.key < head.key)) return false;
      return std::any_of(reservation.placements.begin(), reservation.placements.end(),
                         [&](const TaskPlacement& placed) {
                           return std::any_of(surplus_.begin(), surplus_.end(), [&](const Surplus& one) {
                             return one.most > 0 && cluster_.running(one.job)->placements.front().node == placed.node;
                           });
                         });
    });
  }

  bool Serve(const Head& head) {
    if (!IsWorthALook(head) || OvertakesReservation(head)) return false;
    std::vector<NodeIndex> nodes;
    for (const Surplus& one : surplus_) {
      const NodeIndex node = cluster_.running(one.job)->placements.front().node;
      if (one.most > 0 && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
    std::sort(nodes.begin(), nodes.end());
    LiftedCapacity own(state_, head.place.id);
    for (const NodeIndex node : nodes) {
      std::vector<Choice> choices = ChoicesOn(node, head);
      std::sort(choices.begin(), choices.end());
      if (choices.size() > kMostTried) choices.resize(kMostTried);
      for (const Choice& choice : choices) {
        const auto shifts = ShiftsFor(head, node, choice.gpus);
        if (!shifts) continue;
        own.Forget();
        core::Apply(state_, *shifts);
        Apply(head, node, choice.gpus);
        return true;
      }
    }
    return false;
  }

  const Shape& ShapeOf(const Head& head) const {
    return state_.requests[state_.classes[head.job_class].key.request].groups.front().alternatives.front();
  }

  /// GPUs of the job on `node` that were not requested yet; empty if it has no surplus.
  GpuSet Own(const Surplus& one, NodeIndex node) const {
    const core::Run& run = *cluster_.running(one.job);
    if (one.most <= 0 || run.placements.front().node != node) return {};
    return GpusOf(run) - RequestedOf(run);
  }

  /// The GPUs of a node among which sets for a preemptor are searched.
  struct Searched {
    std::array<GpuSet, GpuSet::kCapacity> own{};  // By index in surplus_: GPUs of that job on the node.
    GpuSet pool;                                  // The union of these.
    GpuSet open;                                  // Usable GPUs of an accepted kind: free ones and those of `pool`.
    GpuSet fixed;                                 // GPUs that every set contains.
  };

  // Returns all sets of GPUs on which the job could start, made of free GPUs and of at least one GPU that an elastic
  // job can release.
  std::vector<Choice> ChoicesOn(NodeIndex index, const Head& head) const {
    const Node& node = state_.nodes[index];
    const Shape& shape = ShapeOf(head);
    const ResourceRequest& request = state_.requests[state_.classes[head.job_class].key.request];
    Searched searched;
    for (std::size_t i = 0; i < surplus_.size(); ++i) {
      searched.own[i] = Own(surplus_[i], index) - node.blocked;
      searched.pool |= searched.own[i];
    }
    searched.open = searched.pool;
    for (int gpu = 0; gpu < node.facts.gpus; ++gpu) {
      if (placement::RoomOfGpu(node.state, gpu).free_parts >= placement::kGpuParts) searched.open.Insert(gpu);
      const int node_class =
          node.is_mixed() ? node.facts.gpu_classes[static_cast<std::size_t>(gpu)] : node.facts.node_class;
      if (((shape.models >> node_class) & 1) == 0) searched.open.Erase(gpu);
    }
    std::vector<Choice> choices;
    if (searched.open.size() < shape.gpus) return choices;
    if (static_cast<std::size_t>(searched.open.size()) > kSearched) searched = Narrow(searched, node, request);
    const GpuTopology* topology = node.facts.topology.get();
    const bool is_picky = topology != nullptr && !topology->is_uniform();
    const std::uint64_t open = searched.open.bits();
    for (std::uint64_t set = open; set != 0; set = (set - 1) & open) {
      const GpuSet gpus = GpuSet::FromBits(set) | searched.fixed;
      if (gpus.size() != shape.gpus || (gpus & searched.pool).empty()) continue;
      Choice choice;
      choice.gpus = gpus;
      bool is_allowed = true;
      for (std::size_t i = 0; i < surplus_.size() && is_allowed; ++i) {
        const int count = (gpus & searched.own[i]).size();
        choice.asked += count;
        choice.jobs += count > 0 ? 1 : 0;
        choice.kept[i] = static_cast<std::int8_t>(-count);
        is_allowed = count <= surplus_[i].most;
      }
      if (is_allowed && is_picky) {
        is_allowed = !request.requires_topology || topology->Satisfies(gpus, request.topology);
        choice.worst_pair = -topology->WorstPair(gpus);
        choice.sum_of_pairs = -topology->SumOfPairs(gpus);
      }
      if (is_allowed) choices.push_back(choice);
    }
    return choices;
  }

  /// Reduces the GPUs to search if more than kSearched are usable. GPUs are ordered: free ones first, then those of the
  /// jobs with the most surplus. The first ones are always used, and the kSearched around the last needed one are
  /// searched. If the GPUs must be connected, one connected set is searched.
  Searched Narrow(const Searched& all, const Node& node, const ResourceRequest& request) const {
    const std::size_t count = static_cast<std::size_t>(request.groups.front().alternatives.front().gpus);
    std::vector<int> order;
    if (request.requires_topology && node.facts.topology != nullptr) {
      static const SizeDemand kUsual = UsualSizeDemand();
      order = node.facts.topology->Pick(all.open, static_cast<int>(count), kUsual, request.topology)
                  .value_or(GpuSet())
                  .ToVector();
    } else {
      order = (all.open - all.pool).ToVector();
      if (order.size() >= count) order.resize(count - 1);  // At least one surplus GPU is needed.
      std::vector<std::size_t> jobs(surplus_.size());
      std::iota(jobs.begin(), jobs.end(), std::size_t{0});
      const auto gives = [&](std::size_t i) { return (all.own[i] & all.open).Lowest(surplus_[i].most); };
      std::ranges::stable_sort(jobs, std::greater<>(), [&](std::size_t i) { return gives(i).size(); });
      for (const std::size_t i : jobs) {
        for (const int gpu : gives(i)) order.push_back(gpu);
      }
    }
    Searched narrow = all;
    narrow.open = {};
    const std::size_t first = count > kSearched / 2 ? count - kSearched / 2 : 0;
    for (std::size_t i = 0; i < std::min(order.size(), first + kSearched); ++i) {
      (i < first ? narrow.fixed : narrow.open).Insert(order[i]);
    }
    return narrow;
  }

  std::vector<ElasticShrink::Part> PartsOf(NodeIndex node, GpuSet gpus) const {
    std::vector<ElasticShrink::Part> parts;
    for (const Surplus& one : surplus_) {
      const GpuSet part = Own(one, node) & gpus;
      if (!part.empty()) parts.push_back({one.job, part});
    }
    return parts;
  }

  // Returns which reservations must be changed to other GPUs so that the job can start there once the GPUs are
  // released; nullopt if it cannot. The time of release is unknown, so the job must delay no reservation whenever it
  // starts; its time limit does not help.
  std::optional<std::vector<Shift>> ShiftsFor(const Head& head, NodeIndex node, GpuSet gpus) {
    const ClassKey& key = state_.classes[head.job_class].key;
    const std::vector<ElasticShrink::Part> parts = PartsOf(node, gpus);
    std::vector<Loss> losses;
    std::vector<CapLoss> cap_losses;
    Statement trial(state_);
    for (const ElasticShrink::Part& part : parts) {
      const core::Run& run = *cluster_.running(part.job);
      TaskPlacement placed = run.placements.front();
      Shape shape = core::ShapeOf(state_.request_of(run), placed);
      trial.Remove(part.job, placed, shape);
      placed.place.gpus -= part.gpus;
      shape.gpus = static_cast<std::int16_t>(placed.place.gpus.size());
      trial.Add(part.job, placed, shape);
      losses.push_back({state_.classes[run.job_class].key.team, std::int64_t{placement::kGpuParts} * part.gpus.size(),
                        run.priority});
      cap_losses.push_back({run.job_class, losses.back().parts});
    }
    if (!FitsItsCaps(state_, head.job_class, cap_losses)) return std::nullopt;
    if (state_.teams.has_rules() && !PreemptionPolicy(state_).FitsItsTeams(head.job_class, losses)) return std::nullopt;
    const ResourceRequest& request = state_.requests[key.request];
    return core::ShiftsFor(state_, request, {node, {gpus}, 0, 0}, Length(Duration(0)), key.team, key.user, now_);
  }

  void Apply(const Head& head, NodeIndex node, GpuSet gpus) {
    ElasticShrink given{head.place.id, PartsOf(node, gpus)};
    for (const ElasticShrink::Part& part : given.parts) {
      const core::Run& run = *cluster_.running(part.job);
      const GpuSet asked = RequestedOf(run) | part.gpus;
      Resize(cluster_, part.job, GpusOf(run), asked, now_);
      for (Surplus& one : surplus_) {
        if (one.job == part.job) one.most -= part.gpus.size();
      }
    }
    Nominate(state_, now_, head.key, head.job_class, head.place.id, {{node, {gpus}, 0, 0}}, kNever);
    given_.push_back(std::move(given));
  }

  Cluster& cluster_;
  ClusterState& state_;
  std::vector<Surplus> surplus_;
  Time now_;
  std::vector<ElasticShrink> given_;
};

}  // namespace

std::vector<ElasticShrink> RequestShrinks(Cluster& cluster, std::vector<Surplus> surplus, Time now) {
  std::erase_if(surplus, [&](const Surplus& one) {
    const core::Run* run = cluster.running(one.job);
    return one.most <= 0 || run == nullptr || run->is_leaving;
  });
  if (surplus.empty()) return {};
  return Asker(cluster, std::move(surplus), now).Run();
}

}  // namespace divvy::core
