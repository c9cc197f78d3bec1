// Taking back: a blocked job that is entitled to it may take from running ones.
//
//   move      a job that can be stopped and continued goes on elsewhere, so that a preemptible job fits
//   reclaim   between teams: from one above its share, for one that stays within its own (take_back_rights.h)
//   preempt   inside one team: from strictly lower priority
//
// From mild to hard: what is about to be free anyway, moves, an elastic job's surplus, whole jobs. A set of victims is
// chosen that costs least (take_back_search.h); nothing is taken unless the taker then starts, whole. What was taken is
// held for the taker as a claim (PromiseSlot) until its victims have left, so no other job slips in and no second round
// takes again. Victims keep their pieces until the caller reports Finish or GiveBack, and are queued again by the
// caller.
#pragma once

#include "engine/core/state/state.h"

namespace divvy::core {

/// Jobs for which victims are looked for in one decision; the next ones have their turn in the next.
inline constexpr int kMostTakers = 32;

/// Adds to `plan` what follows from the rules and applies it. Nothing to do costs nothing.
void TakeBack(Cluster::State& state, Time now, Plan& plan);

/// Elastic jobs whose moved pieces are free go on at the new ones; what was kept for a job that is gone is let go.
void SettleMoves(Cluster::State& state, Time now, Plan& plan);

/// What is claimed is free or about to be.
bool ClaimStands(const Cluster::State& state, const PromiseSlot& slot);
/// It is free: the job can start there, whoever else is promised something.
bool ClaimIsFree(const Cluster::State& state, const PromiseSlot& slot);

}  // namespace divvy::core
