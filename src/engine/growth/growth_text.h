// Why a waiting job has no node, as values and as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/growth/growth.h"

namespace divvy::growth {

/// Ordered by how close the job came to a node.
enum class Refusal {
  kNoGrow,        // The job waits for existing nodes only.
  kUnused,        // A node that was requested for it was returned unused; tried again later.
  kNoShape,       // No shape of the provider is large enough.
  kNotAllowed,    // Team, pool or --provider.
  kDisabled,      // The provider gets no new nodes.
  kSpot,          // The job cannot be requeued.
  kLifetime,      // Nodes are removed before the job would surely end.
  kMaxPrice,      // The job's own limit.
  kTeamBudget,    //
  kMonthlyLimit,  // The provider's limits.
  kHourlyLimit,
  kGpuLimit,
  kNodeLimit,
  kDown,  // The provider failed; it is tried again later.
};

/// The closest that one provider comes to running a job.
struct GrowthBlocker {
  Refusal kind = Refusal::kNoShape;
  ProviderIndex provider = 0;  // Not set for kNoGrow and kUnused.
  OfferIndex offer = 0;        // The shape that comes closest.
  std::int64_t nodes = 0;      // Nodes of it that the job needs.
  double needed = 0;           // Nodes, GPUs, or money per hour; by kind.
  double available = 0;
  Time until = kNever;  // kDown, kUnused: when it is tried again.
};

/// Returns why no node was requested for refused jobs of a demand: one blocker for each provider, the one that is
/// closest to being resolved first. Limits include what `decision` requests. Empty if no job was refused. Cost: linear
/// in the offers.
std::vector<GrowthBlocker> WhyNoNode(const GrowthInput& input, const GrowthDecision& decision, std::size_t demand);

std::string BlockerText(const GrowthInput& input, const Demand& demand, const GrowthBlocker& blocker);

/// Returns what the jobs of the demand wait for, one sentence for each part of the decision about them. For refused
/// jobs, use WhyNoNode.
std::vector<std::string> VerdictText(const GrowthInput& input, const GrowthDecision& decision, std::size_t demand);

/// Returns the offer as text: "aws: 8x V100-16GB, 24.48/h".
std::string OfferText(const Catalogue& catalogue, OfferIndex offer);
/// Returns an amount of money as text, without a currency: "24.48".
std::string MoneyText(Money money);

}  // namespace divvy::growth
