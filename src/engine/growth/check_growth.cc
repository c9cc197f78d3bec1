// CheckGrowth: re-derives the rules of a decision from its input.
#include <algorithm>
#include <map>

#include "engine/growth/ceiling.h"
#include "engine/growth/growth.h"

namespace divvy::growth {
namespace {

std::string CheckVerdicts(const GrowthInput& input, const GrowthDecision& decision) {
  if (decision.verdicts.size() != input.demands.size()) return "a demand has no verdict";
  for (std::size_t i = 0; i < input.demands.size(); ++i) {
    const Verdict& it = decision.verdicts[i];
    const std::uint64_t sum = std::uint64_t{it.on_existing} + it.on_coming + it.on_new + it.refused + it.deferred;
    if (sum != input.demands[i].jobs)
      return "the verdict of demand " + std::to_string(i) + " has " + std::to_string(sum) + " jobs of " +
             std::to_string(input.demands[i].jobs);
  }
  return {};
}

std::string CheckRequests(const GrowthInput& input, const GrowthDecision& decision) {
  std::map<std::string, Money> by_team;
  std::map<std::uint32_t, Money> by_set;
  for (const NodeRequest& request : decision.requests) {
    if (request.demand >= input.demands.size()) return "a request names a demand that does not exist";
    const Demand& demand = input.demands[request.demand];
    const Offer& offer = input.catalogue->offers()[request.offer];
    const Provider& provider = input.catalogue->providers()[offer.provider];
    if (!demand.may_grow) return "a node is requested for a job that does not allow it";
    if (input.now < input.providers[offer.provider].down_until) return "provider " + provider.name + " is down";
    if (PermissionOf(*input.catalogue, demand, request.offer) != OfferFit::kFits)
      return "a job may not use provider " + provider.name;
    if (input.now < demand.not_before) return "a node is requested too soon after one was returned unused";
    by_team[demand.team] += offer.hourly;
    by_set[request.set] += offer.hourly;
    if (demand.max_hourly && by_set[request.set] > *demand.max_hourly) return "a job's price limit is exceeded";
  }
  for (const auto& [team, hourly] : by_team) {
    const auto left = input.team_hourly.find(team);
    if (left != input.team_hourly.end() && hourly > left->second) return "the budget of team " + team + " is exceeded";
  }
  const CeilingResult ceiling = WithinCeiling(input, decision.requests);
  return ceiling.refused.empty() ? std::string() : ceiling.refused.front();
}

std::string CheckReturns(const GrowthInput& input, const GrowthDecision& decision) {
  for (std::size_t i = 0; i < decision.returns.size(); ++i) {
    const NodeReturn& it = decision.returns[i];
    const std::string name = "node " + std::to_string(it.node);
    if (i > 0 && decision.returns[i - 1].node >= it.node) return "returns are not in order";
    const auto node = std::ranges::find(input.nodes, it.node, &OwnedNode::id);
    if (node == input.nodes.end()) return name + " does not exist";
    if (!node->offer) return name + " was not requested by divvy, so it cannot be returned";
    if (node->phase == NodePhase::kReturning) return name + " is returned twice";
    if (it.is_forced) continue;
    if (node->phase != NodePhase::kReady || node->idle_since == kNever) return name + " is not idle";
    const Provider& provider = input.catalogue->provider_of(*node->offer);
    if (provider.is_enabled && input.now < node->created + provider.min_lifetime)
      return name + " is returned before its minimal lifetime";
  }
  return {};
}

}  // namespace

std::string CheckGrowth(const GrowthInput& input, const GrowthDecision& decision) {
  if (decision.next_wakeup <= input.now) return "the time of the next decision is not in the future";
  if (std::string broken = CheckVerdicts(input, decision); !broken.empty()) return broken;
  if (std::string broken = CheckRequests(input, decision); !broken.empty()) return broken;
  return CheckReturns(input, decision);
}

}  // namespace divvy::growth
