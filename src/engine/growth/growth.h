// Decides which nodes to request from providers so that waiting jobs can start at the least cost, and which nodes to
// return. A pure function: everything that it knows is in GrowthInput.
//
// The rules, in this order:
//   1. A job that will fit on an existing node before a new one could start waits for it. Nodes on their way count.
//      Expected ends can be wrong, so a job waits for them half as long as a new node would have taken.
//   2. For the rest, nodes are chosen by their cost relative to what each job would cost on a node of its own. Other
//      waiting jobs, and jobs that will probably arrive, share the node. Without such arrivals a choice never costs
//      more than one node per job would.
//   3. The nodes of a gang are requested together (one set) or not at all.
//   4. A node is returned when it is idle and is not expected to be used soon, but not before its minimal lifetime and,
//      where whole periods are billed, not before the end of a paid period.
//
// Nothing here calls the provider. Callers must pass every request through WithinCeiling (ceiling.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/growth/growth_facts.h"

namespace divvy::growth {

/// Decides which nodes to request from providers, and which to release. Cost: about linear in the demands and nodes,
/// plus requests x offers (measurements: docs/providers.md).
GrowthDecision DecideGrowth(const GrowthInput& input);

struct MergedDemands {
  std::vector<Demand> demands;          // Each different one, where it first appears.
  std::vector<std::uint32_t> group_of;  // By the index before: the index into `demands`.
};
/// Merges demands of jobs that differ only in waiting_since, if at all; the earliest time counts. Cost: linear.
MergedDemands MergeDemands(std::vector<Demand> demands);

/// Nodes for one job alone, whatever exists: the set with the lowest cost for its run time. Not set: no offer fits.
/// Ignores limits and team budgets.
struct AloneChoice {
  std::vector<OfferIndex> nodes;
  Money hourly;
  Duration startup{0};  // The slowest node's.
};
std::optional<AloneChoice> CheapestAlone(const GrowthInput& input, const Demand& demand);

/// Whether nodes of the offer may run the job at all: the reasons that do not depend on limits.
enum class OfferFit { kFits, kNoShape, kNotAllowed, kSpot, kLifetime };
OfferFit FitOf(const Catalogue& catalogue, const Demand& demand, OfferIndex offer);
/// Like FitOf, but checks only whether the demand's jobs may use the offer, not whether they fit on its nodes.
OfferFit PermissionOf(const Catalogue& catalogue, const Demand& demand, OfferIndex offer);

/// `times` nodes were requested for a job and returned unused, the last one at `now`, because something else keeps the
/// job from starting. Returns when a node may be requested for it again. The pauses double, so that nodes are not
/// requested in vain again and again.
Time RetryAfterUnused(int times, Time now);

/// Returns the first rule that the decision breaks; "" if it breaks none.
std::string CheckGrowth(const GrowthInput& input, const GrowthDecision& decision);

}  // namespace divvy::growth
