// Which step of a job has which of the job's GPUs and cores, and who is next. Pure bookkeeping: one book for each job,
// kept by its step process.
//
// Steps that want GPUs (or cores) for themselves stand in one line, first come first served: none passes another, so a
// large one is never starved by small ones. Steps that share what the job has do not stand in it.
//
// Invariants: a place has one owner at most; a step is in the line, or holds what it was granted, or is not known.
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
  /// So many of these places.
  struct Some {
    std::size_t gpus = 0;
    std::vector<std::size_t> of;
  };
  std::optional<std::size_t> gpus;  // For itself; nothing: it shares all.
  /// In place of `gpus`: for itself so many of each of these sets, which have no place in common; all places that it
  /// was granted are of them. Empty: as `gpus` says.
  std::vector<Some> from = {};
  int cores = 0;          // For itself; 0: it shares all. Only counted: which ones is not said.
  bool overlaps = false;  // Takes what it names also where others have it.
};

struct StepGrant {
  StepNumber step = 0;
  std::vector<std::size_t> gpus;  // Places in the job's list, ascending.
};

class StepBook {
 public:
  StepBook(std::size_t gpus, int cores) : owners_(gpus), cores_(cores), cores_free_(cores) {}

  /// True when the job could ever give that much.
  bool CanEver(const StepNeed& need) const;
  /// Joins the line. Requires: CanEver(need), and `step` is new.
  void Ask(StepNumber step, const StepNeed& need);
  /// Those whose turn has come, in their order; each is told once.
  std::vector<StepGrant> TakeGrants();
  /// It has ended, or waits no longer. Not known is fine.
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

  std::vector<std::optional<StepNumber>> owners_;  // By place.
  int cores_ = 0;                                  // 0: not counted.
  int cores_free_ = 0;
  std::map<StepNumber, int> cores_of_;
  std::deque<Waiting> line_;
};

}  // namespace divvy
