// One pass over the queue. Schedule returns its plan; Explain asks the same object what stood in the way, so that the
// answer is the refusal itself and not a second opinion.
//
// A pass takes the jobs in order. Each one starts if it fits and makes no promise later that was made to a job before
// it; else it is blocked. The first blocked job is promised the earliest time that known ends give it, if they give
// one; every escalated job is promised a start in any case, if need be by draining. A pass that started somebody behind
// a promise is repeated until nobody more can start, so a plan is final: the next pass would not change its mind. What
// is idle then goes to the elastic jobs among those that start, where it makes no promise later.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/order.h"
#include "engine/timeline.h"

namespace divvy {

/// Reservations in one plan. Each costs a look at the whole timeline; those further back are made when their turn comes
/// nearer. Slurm bounds its backfill in the same way (bf_max_job_test).
inline constexpr std::size_t kMostReservations = 16;

struct Ask {
  JobId entry;
  Need need;
  bool is_escalated = false;
};

class Planner {
 public:
  Planner(const Cluster& cluster, const Policy& policy, Time now, const WhatIf& what_if = {});

  void Run();

  const Plan& plan() const { return plan_; }
  /// As it is once the plan's starts have happened.
  const Timeline& timeline() const { return timeline_; }
  const std::vector<Ask>& asks() const { return asks_; }
  const std::vector<Promise>& promises() const { return promises_; }
  /// The holds of every promise but those made to `entry`.
  std::vector<Hold> HoldsOfOthers(JobId entry) const;

 private:
  enum class Verdict { kStarted, kBlocked, kUnavailable };
  struct Passed {
    JobId job;  // The first blocked job of its kind; not set: nobody.
    std::size_t ask = kNone;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void Round();
  Verdict Try(const QueueMerge& merge);
  void Start(const QueueMerge& merge, const Need& need, GpuSet gpus);
  bool GrowElastic();
  bool Grow(const Need& need, StartDecision& start);
  bool DelaysNobody(const Need& need, GpuSet gpus);
  void Reserve(const QueueMerge& merge, const Need& need);
  Reason ReasonFor(const QueueMerge& merge, const Need& need) const;
  void FindNextWakeup();
  Passed& passed(const Need& need) { return passed_[need.gpus > 0 ? 1 : 0]; }
  const Passed& passed(const Need& need) const { return passed_[need.gpus > 0 ? 1 : 0]; }

  const Cluster& cluster_;
  const Policy& policy_;
  Time now_;
  WhatIf what_if_;
  Timeline timeline_;
  Plan plan_;
  std::vector<std::pair<std::size_t, Need>> elastic_;  // Starts of the plan that may have more GPUs.
  std::unordered_map<JobId, std::uint32_t> taken_;     // Members started by earlier rounds; for look-up only.
  Passed passed_[2];                                   // Without GPUs; with.
  std::vector<Ask> asks_;
  std::vector<Promise> promises_;  // promises_[i] belongs to asks_[i].
  std::vector<Hold> holds_;        // Of all promises, in their order.
  bool started_behind_promise_ = false;
};

/// What the next member of an entry asks. `members_left` makes the draws of an array's members differ.
Need NeedOf(const Cluster& cluster, const JobClass& job_class, JobId entry, std::uint32_t members_left);

/// False: not on what is usable now, whoever ends. Such jobs wait without standing in anybody's way.
bool CouldRunNow(const Cluster& cluster, const Need& need);

}  // namespace divvy
