// Runs one decision of the core and translates it into the plan of engine/scheduler/plan.h: starts with their reasons,
// reservations, preemptions, and the resizing of elastic jobs.
//
// The core counts a waiting elastic job with its smallest number of GPUs, and a running one with the GPUs that it has.
// Once no more jobs can start, idle GPUs are given out in this order, as far as reservations allow:
//   1. elastic jobs that start in this decision, in start order, grow up to their maximum
//   2. running elastic jobs that accept resizing (RunningJob::is_resizable) grow by one GPU each in turn
// Before step 2 running elastic jobs are asked to give back GPUs with which a waiting job can start
// (engine/core/cycle/elastic_shrink.h). They keep GPUs that no waiting job needs any more. A job that has not answered
// for kAnswersWithin is not asked again; otherwise the waiting job would wait for it indefinitely.
#pragma once

#include <vector>

#include "engine/scheduler/scheduler.h"

namespace divvy {

inline constexpr Duration kAnswersWithin = std::chrono::minutes(30);

/// One decision. It changes `core` and only reads `facts`.
class Decision {
 public:
  Decision(core::Cluster& core, const SchedulerFacts& facts, const core::NodeClassIndex& class_index, Time now);

  Decided Run(const Scheduler::NameMember& name);

 private:
  void Note(const core::Plan& plan);
  void NameSlice(NodeResources& place) const;
  const core::ResourceRequest& RequestOf(core::ClassIndex job_class) const;
  /// Returns which of the job's requested pools the node of this placement is in; empty if the job requested no pool.
  std::string PoolOf(JobId running, const core::TaskPlacement& placed) const;
  std::string WhereText(const std::vector<core::TaskPlacement>& placements) const;
  Reason ReasonFor(const core::Start& start, const WaitingEntry& entry) const;
  /// Shrinks and grows elastic jobs that were running before this decision. Returns true if anything changed.
  bool ResizeRunning();
  void ForgetSilent();
  bool KeepUnclaimed(const std::vector<const RunningJob*>& jobs);
  bool RequestShrinks(const std::vector<const RunningJob*>& jobs);
  bool GrowRunning(const std::vector<const RunningJob*>& jobs);
  void Resize(JobId job, GpuSet gpus, GpuSet asked_back, Reason reason);
  Resizing& ResizingOf(JobId job);
  void ParkForNewcomers();
  bool GrowElastic();
  bool Grow(const WaitingEntry& entry, std::uint64_t draw, JobId id, StartDecision& start);
  bool MayHold(const core::Job& job, int gpus) const;

  core::Cluster& core_;
  const SchedulerFacts& facts_;
  const core::NodeClassIndex& class_index_;
  Time now_;
  Decided decided_;
};

}  // namespace divvy
