// One decision of the core for one server, told as engine/server/plan.h tells it: starts with their reasons,
// reservations, and the growth of elastic jobs.
//
// An elastic job is known to the core by its fewest GPUs. What is idle once nobody more can start goes to those that
// start in this decision, in their order, up to their most, as far as no reservation minds.
#pragma once

#include <vector>

#include "engine/server/server.h"

namespace divvy {

/// Decides on `core`, which is changed; the book is only read.
class Decision {
 public:
  Decision(core::Cluster& core, const Book& book, const Kinds& kinds, Time now);

  Decided Run(const Server::NameMember& name);

 private:
  void Note(const core::Plan& plan);
  Reason ReasonFor(const core::Start& start, const WaitingEntry& entry) const;
  bool GrowElastic();
  bool Grow(const WaitingEntry& entry, std::uint64_t draw, JobId id, StartDecision& start);

  core::Cluster& core_;
  const Book& book_;
  const Kinds& kinds_;
  Time now_;
  Decided decided_;
};

}  // namespace divvy
