// One decision of the core for one server, told as engine/server/plan.h tells it: starts with their reasons,
// reservations, and the growth of elastic jobs.
//
// An elastic job is known to the core by its fewest GPUs while it waits, and by what it has while it runs. What is idle
// once nobody more can start goes to those that start in this decision, in their order, up to their most, as far as no
// reservation minds; then to those that run and take part (RunningJob::is_resizable), one GPU each in turn. Before that
// those give back what lets somebody start (engine/core/cycle/give_back.h); what nobody waits for any more they keep.
// Who does not answer for kAnswersWithin is left alone: else the taker would wait for it without end.
#pragma once

#include <vector>

#include "engine/server/server.h"

namespace divvy {

inline constexpr Duration kAnswersWithin = std::chrono::minutes(30);

/// Decides on `core`, which is changed; the book is only read.
class Decision {
 public:
  Decision(core::Cluster& core, const Book& book, const core::KindBook& kinds, Time now);

  Decided Run(const Server::NameMember& name);

 private:
  void Note(const core::Plan& plan);
  void NameSlice(NodePlace& place) const;
  const core::Ask& AskOf(core::ClassIndex job_class) const;
  /// In which of its pools this piece of it lies; empty: it asked for none.
  std::string PoolOf(JobId running, const core::Piece& piece) const;
  std::string WhereText(const std::vector<core::Piece>& pieces) const;
  Reason ReasonFor(const core::Start& start, const WaitingEntry& entry) const;
  /// Of jobs that run since before this decision. Whether anything has changed.
  bool ResizeRunning();
  void ForgetSilent();
  bool KeepUnclaimed(const std::vector<const RunningJob*>& jobs);
  bool AskBack(const std::vector<const RunningJob*>& jobs);
  bool GrowRunning(const std::vector<const RunningJob*>& jobs);
  void Resize(JobId job, GpuSet gpus, GpuSet asked_back, Reason reason);
  Resizing& ResizingOf(JobId job);
  bool GrowElastic();
  bool Grow(const WaitingEntry& entry, std::uint64_t draw, JobId id, StartDecision& start);
  bool MayHold(const core::Job& job, int gpus) const;

  core::Cluster& core_;
  const Book& book_;
  const core::KindBook& kinds_;
  Time now_;
  Decided decided_;
};

}  // namespace divvy
