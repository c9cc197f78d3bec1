// Claims: what was taken from others is held for the one that it was taken for, until it is free and the taker starts.
#pragma once

#include <utility>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// What `entry` is promised; null: nothing.
const PromiseSlot* SlotOf(const Cluster::State& state, JobId entry);

/// For what is held for whoever it was taken for.
Hold ClaimHold(JobId entry, const Shape& shape, const Piece& piece, Time now);

/// At the place of its key.
void InsertSlot(Cluster::State& state, PromiseSlot slot);

/// `place` is kept for the waiting job from now on, in place of what it was promised before, whose holds are lifted
/// already (LiftedHolds). `start`: when it will be free; kNever: nobody can say.
void Claim(Cluster::State& state, Time now, const Key& key, ClassIndex job_class, JobId entry, std::vector<Piece> place,
           Time start);

/// A promise of its own does not stand in a job's way: it holds nothing for as long as this lives.
class LiftedHolds {
 public:
  LiftedHolds(Cluster::State& state, JobId entry);
  ~LiftedHolds();
  /// They are not put back.
  void Forget() { lifted_.clear(); }
  LiftedHolds(const LiftedHolds&) = delete;
  LiftedHolds& operator=(const LiftedHolds&) = delete;

 private:
  void Settle(NodeIndex node);
  Cluster::State& state_;
  std::vector<std::pair<NodeIndex, Hold>> lifted_;
};

}  // namespace divvy::core
