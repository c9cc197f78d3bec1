// Assigns the GPUs and cores of a job to its steps, in queue order. Pure bookkeeping: the step process of each job
// has one StepResources.
//
// Steps that need GPUs (or cores) exclusively wait in one queue, first come first served. None overtakes another, so
// small steps never starve a large one. Steps that share the job's resources do not wait in the queue.
//
// Invariants: a GPU has at most one owner. A step is queued, or holds its grant, or is unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace divvy {

using StepNumber = std::uint32_t;

struct StepNeed {
  /// This many of these GPUs.
  struct Some {
    std::size_t gpus = 0;
    std::vector<std::size_t> of;
  };
  std::optional<std::size_t> gpus;  // Number of exclusive GPUs. Not set: it shares all.
  /// Replaces `gpus`: this many exclusive GPUs from each of these disjoint sets, and no GPU outside them. Empty: `gpus`
  /// applies.
  std::vector<Some> from = {};
  int cores = 0;          // Number of exclusive cores. 0: it shares all. Cores are only counted, not chosen.
  bool overlaps = false;  // Takes its GPUs even if other steps own them.
};

struct StepGrant {
  StepNumber step = 0;
  std::vector<std::size_t> gpus;  // Indices in the job's list of GPUs, ascending.
};

class StepResources {
 public:
  StepResources(std::size_t gpus, int cores) : owners_(gpus), cores_(cores), cores_free_(cores) {}

  /// Whether the job has enough GPUs and cores for this step when no other step holds any.
  bool CanEver(const StepNeed& need) const;
  /// Puts the step at the end of the queue. Requires: CanEver(need), and `step` is new.
  void Ask(StepNumber step, const StepNeed& need);
  /// Returns the steps that can start now, with their GPUs, in queue order. Each step is returned once.
  std::vector<StepGrant> TakeGrants();
  /// Call this when the step has ended or no longer waits: its GPUs and cores become free. Unknown steps are ignored.
  void Leave(StepNumber step);

  bool IsWaiting(StepNumber step) const;
  std::size_t free_gpus() const;

 private:
  struct Waiting {
    StepNumber step = 0;
    StepNeed need;
  };
  bool Fits(const StepNeed& need) const;
  StepGrant Grant(const Waiting& waiting);

  std::vector<std::optional<StepNumber>> owners_;  // By GPU index.
  int cores_ = 0;                                  // 0: cores are not counted.
  int cores_free_ = 0;
  std::map<StepNumber, int> cores_of_;
  std::deque<Waiting> line_;
};

}  // namespace divvy
