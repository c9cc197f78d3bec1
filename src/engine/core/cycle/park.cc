#include "engine/core/cycle/park.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "engine/core/cycle/preemption_policy.h"
#include "engine/core/cycle/resize.h"
#include "engine/core/cycle/statement.h"
#include "engine/core/cycle/waiting_heads.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/nominations.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"

namespace divvy::core {
namespace {

/// Waiting jobs that are examined in one decision, newcomers or not.
constexpr int kMostExamined = 1000;

using Head = WaitingHeads::Head;

/// Jobs of one node whose parking frees `gpus` GPUs.
struct Victims {
  int gpus = 0;
  std::int64_t weight = std::numeric_limits<std::int64_t>::max();
  std::vector<const Parkable*> jobs;
};

class Parking {
 public:
  Parking(Cluster& cluster, std::vector<Parkable> parkable, Time now)
      : cluster_(cluster), state_(cluster.state()), parkable_(std::move(parkable)), now_(now) {
    std::erase_if(parkable_, [&](const Parkable& one) {
      const Run* run = cluster_.running(one.job);
      return run == nullptr || run->is_leaving || !run->leaving.empty() || run->placements.size() != 1;
    });
    for (const Parkable& one : parkable_) by_node_[cluster_.running(one.job)->placements.front().node].push_back(&one);
  }

  std::vector<Park> Search(const std::function<bool(JobId)>& is_newcomer) {
    WaitingHeads heads(state_, now_);
    heads.AddAllWithGpus();
    int searched = 0;
    for (int i = 0; !heads.empty() && i < kMostExamined && searched < kMostNewcomers && !by_node_.empty(); ++i) {
      const Head head = heads.Take();
      const ReservationSlot* slot = SlotOf(state_, head.place.id);
      const bool is_served = slot != nullptr && slot->reservation.is_nomination;
      if (!is_served && is_newcomer(head.place.id)) {
        searched += 1;
        // An equal job behind it has no better chance.
        if (!Serve(head)) continue;
      }
      heads.AddNext(head);
    }
    return std::move(parks_);
  }

 private:
  const ResourceRequest& RequestOf(const Head& head) const {
    return state_.requests[state_.classes[head.job_class].key.request];
  }

  /// Whether nothing but GPUs of running jobs keeps the job from starting, and it will not start soon anyway.
  bool IsWorthALook(const Head& head) const {
    const ResourceRequest& request = RequestOf(head);
    if (request.groups.size() != 1 || request.groups.front().most != 1) return false;
    if (!request.groups.front().alternatives.front().is_whole()) return false;
    if (StartBlockerOf(state_, head.job_class).any() || !FitsItsCaps(state_, head.job_class)) return false;
    if (state_.teams.has_rules() && !PreemptionPolicy(state_).FitsItsTeams(head.job_class, {})) return false;
    const ReservationSlot* slot = SlotOf(state_, head.place.id);
    return slot == nullptr || slot->reservation.start > AddSaturating(now_, state_.rules.grace);
  }

  bool Serve(const Head& head) {
    if (!IsWorthALook(head)) return false;
    std::vector<std::pair<Victims, NodeIndex>> choices;
    for (const auto& [node, parkable] : by_node_) {
      for (Victims& victims : VictimsOn(node, parkable, head)) choices.emplace_back(std::move(victims), node);
    }
    std::stable_sort(choices.begin(), choices.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.gpus, a.first.weight) < std::pair(b.first.gpus, b.first.weight);
    });
    LiftedCapacity own(state_, head.place.id);
    for (auto& [victims, node] : choices) {
      std::vector<TaskPlacement> places = PlacesWithout(victims, node, head);
      if (places.empty()) continue;
      own.Forget();
      Apply(head, victims, node, std::move(places));
      return true;
    }
    return false;
  }

  /// Sets that free enough GPUs of the node, the smallest first: for each number of GPUs the one of the least weight.
  std::vector<Victims> VictimsOn(NodeIndex index, const std::vector<const Parkable*>& parkable,
                                 const Head& head) const {
    const Node& node = state_.nodes[index];
    const int wanted = RequestOf(head).groups.front().alternatives.front().gpus;
    int idle = 0;
    for (int gpu = 0; gpu < node.facts.gpus; ++gpu)
      idle += placement::RoomOfGpu(node.state, gpu).free_parts >= placement::kGpuParts;
    // At least one GPU must be freed, even if enough GPUs are idle: those may be reserved for other jobs.
    const int needed = std::max(wanted - idle, 1);
    std::array<Victims, GpuSet::kCapacity + 1> best;  // By the GPUs that they free.
    best[0].weight = 0;
    for (const Parkable* one : parkable) {
      const Run& run = *cluster_.running(one->job);
      const int gpus = run.placements.front().place.gpus.size();
      if (run.priority > head.place.priority || gpus == 0) continue;
      for (int sum = GpuSet::kCapacity; sum >= gpus; --sum) {
        const Victims& before = best[static_cast<std::size_t>(sum - gpus)];
        Victims& now = best[static_cast<std::size_t>(sum)];
        if (before.weight == std::numeric_limits<std::int64_t>::max() || before.weight + one->weight >= now.weight)
          continue;
        now = before;
        now.gpus = sum;
        now.weight += one->weight;
        now.jobs.push_back(one);
      }
    }
    std::vector<Victims> sets;
    for (std::size_t sum = static_cast<std::size_t>(needed); sum < best.size(); ++sum) {
      if (!best[sum].jobs.empty()) sets.push_back(std::move(best[sum]));
    }
    return sets;
  }

  /// Where the job fits once the victims are parked; nothing if it does not, or if the host memory does not suffice. It
  /// must hold the content of the newcomer's GPUs as well, so that a contract can require the newcomer to be parked.
  std::vector<TaskPlacement> PlacesWithout(const Victims& victims, NodeIndex node, const Head& head) {
    Statement trial(state_);
    std::int64_t of_one_gpu = 0;
    for (const Parkable* one : victims.jobs) {
      const Run& run = *cluster_.running(one->job);
      TaskPlacement placed = run.placements.front();
      Shape shape = core::ShapeOf(state_.request_of(run), placed);
      trial.Remove(one->job, placed, shape);
      of_one_gpu = std::max(of_one_gpu, std::int64_t{one->memory_mib} / placed.place.gpus.size());
      placed.place = {};
      shape.gpus = 0;
      shape.parts = 0;
      shape.memory_mib += one->memory_mib;
      if (state_.nodes[node].state.memory_free < shape.memory_mib) return {};
      trial.Add(one->job, placed, shape);
    }
    const Shape& wanted = RequestOf(head).groups.front().alternatives.front();
    if (state_.nodes[node].state.memory_free - wanted.memory_mib < of_one_gpu * wanted.gpus) return {};
    Placer placing(state_, now_, now_);
    placing.SetDraw(state_.DrawOf(head.place.id));
    const ClassKey& key = state_.classes[head.job_class].key;
    return placing.Find(RequestOf(head), LengthOf(state_.rules, key), std::vector<NodeIndex>{node}, false, key.team,
                        key.user);
  }

  void Apply(const Head& head, const Victims& victims, NodeIndex node, std::vector<TaskPlacement> places) {
    Park park{head.place.id, {}};
    for (const Parkable* one : victims.jobs) park.victims.push_back(*one);
    for (const Parkable& one : park.victims) {
      const GpuSet gpus = GpusOf(*cluster_.running(one.job));
      Resize(cluster_, one.job, gpus, gpus, now_, one.memory_mib);
      std::erase_if(by_node_.at(node), [&](const Parkable* other) { return other->job == one.job; });
    }
    if (by_node_.at(node).empty()) by_node_.erase(node);
    Nominate(state_, now_, head.key, head.job_class, head.place.id, std::move(places),
             AddSaturating(now_, state_.rules.grace));
    parks_.push_back(std::move(park));
  }

  Cluster& cluster_;
  ClusterState& state_;
  std::vector<Parkable> parkable_;
  Time now_;
  std::map<NodeIndex, std::vector<const Parkable*>> by_node_;
  std::vector<Park> parks_;
};

}  // namespace

std::vector<Park> RequestParks(Cluster& cluster, std::vector<Parkable> parkable,
                               const std::function<bool(JobId entry)>& is_newcomer, Time now) {
  if (parkable.empty()) return {};
  cluster.state().MakeFleet();
  return Parking(cluster, std::move(parkable), now).Search(is_newcomer);
}

}  // namespace divvy::core
