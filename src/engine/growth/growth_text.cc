#include "engine/growth/growth_text.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/growth/packing.h"

namespace divvy::growth {
namespace {

std::string Fixed(double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string JobsText(std::uint32_t jobs) { return Plural(jobs, "job"); }

/// The nodes of a provider after the decision.
struct Usage {
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  Money hourly;
};

Usage UsageOf(const GrowthInput& input, const GrowthDecision& decision, ProviderIndex provider) {
  Usage usage;
  const auto add = [&](OfferIndex index) {
    const Offer& offer = input.catalogue->offers()[index];
    if (offer.provider != provider) return;
    usage.nodes += 1;
    usage.gpus += offer.node.gpus;
    usage.hourly += offer.hourly;
  };
  for (const OwnedNode& node : input.nodes) {
    if (node.offer) add(*node.offer);
  }
  for (const NodeRequest& request : decision.requests) add(request.offer);
  return usage;
}

std::optional<double> TeamLeft(const GrowthInput& input, const GrowthDecision& decision, const std::string& team) {
  const auto known = input.team_hourly.find(team);
  if (known == input.team_hourly.end()) return std::nullopt;
  Money left = known->second;
  for (const NodeRequest& request : decision.requests) {
    if (input.demands[request.demand].team == team) left -= input.catalogue->offers()[request.offer].hourly;
  }
  return left.units();
}

/// The first limit that keeps the job from nodes of one offer.
GrowthBlocker BlockerOf(const GrowthInput& input, const GrowthDecision& decision, const Demand& demand,
                        OfferIndex index, const Usage& usage) {
  const Catalogue& catalogue = *input.catalogue;
  const Offer& offer = catalogue.offers()[index];
  const Provider& provider = catalogue.provider_of(index);
  GrowthBlocker blocker{Refusal::kNoShape, offer.provider, index};
  switch (FitOf(catalogue, demand, index)) {
    case OfferFit::kNoShape:
      return blocker;
    case OfferFit::kNotAllowed:
      blocker.kind = Refusal::kNotAllowed;
      return blocker;
    case OfferFit::kSpot:
      blocker.kind = Refusal::kSpot;
      return blocker;
    case OfferFit::kLifetime:
      blocker.kind = Refusal::kLifetime;
      return blocker;
    case OfferFit::kFits:
      break;
  }
  const auto nodes = PackTasks(catalogue, index, demand.tasks, std::numeric_limits<std::int32_t>::max(),
                               [](OfferIndex) { return false; });
  blocker.nodes = static_cast<std::int64_t>(nodes->size());
  const Money hourly = offer.hourly * blocker.nodes;
  const auto check = [&blocker](Refusal kind, double needed, double available) {
    if (needed <= available) return false;
    blocker.kind = kind;
    blocker.needed = needed;
    blocker.available = std::max(available, 0.0);
    return true;
  };
  blocker.kind = Refusal::kDisabled;
  if (!provider.is_enabled) return blocker;
  if (demand.max_hourly && check(Refusal::kMaxPrice, hourly.units(), demand.max_hourly->units())) return blocker;
  const std::optional<double> team_left = TeamLeft(input, decision, demand.team);
  if (team_left && check(Refusal::kTeamBudget, hourly.units(), *team_left)) return blocker;
  const ProviderLimits& limits = provider.limits;
  const Duration reserve = input.rules.budget_reserve;
  if (limits.monthly) {
    const Money left =
        *limits.monthly - input.providers[offer.provider].spent_this_month - CostOf(usage.hourly, reserve);
    if (check(Refusal::kMonthlyLimit, CostOf(hourly, reserve).units(), left.units())) return blocker;
  }
  if (limits.hourly && check(Refusal::kHourlyLimit, hourly.units(), (*limits.hourly - usage.hourly).units()))
    return blocker;
  if (limits.gpus && check(Refusal::kGpuLimit, static_cast<double>(offer.node.gpus * blocker.nodes),
                           static_cast<double>(*limits.gpus - usage.gpus)))
    return blocker;
  if (limits.nodes &&
      check(Refusal::kNodeLimit, static_cast<double>(blocker.nodes), static_cast<double>(*limits.nodes - usage.nodes)))
    return blocker;
  if (input.now < input.providers[offer.provider].down_until) {
    blocker.kind = Refusal::kDown;
    blocker.until = input.providers[offer.provider].down_until;
  }
  return blocker;
}

std::string PermittedText(const Provider& provider, const Demand& demand) {
  if (!demand.providers.empty() && std::ranges::find(demand.providers, provider.name) == demand.providers.end())
    return "the job names other providers (--provider " + Join(demand.providers, ",") + ")";
  if (!provider.teams.empty() && std::ranges::find(provider.teams, demand.team) == provider.teams.end())
    return "only jobs of these teams may use it: " + Join(provider.teams, ", ");
  return "only jobs of these pools may use it: " + Join(provider.pools, ", ");
}

/// The shape with the most GPUs, then CPUs.
std::string LargestText(const Provider& provider) {
  const NodeShape& largest = *std::ranges::max_element(
      provider.shapes, {}, [](const NodeShape& shape) { return std::pair(shape.gpus, shape.cpus); });
  return (largest.gpus > 0 ? std::to_string(largest.gpus) + "x " + largest.gpu_model + ", " : "") +
         Plural(largest.cpus, "CPU");
}

}  // namespace

std::string MoneyText(Money money) { return Fixed(money.units()); }

std::string OfferText(const Catalogue& catalogue, OfferIndex offer) {
  return catalogue.provider_of(offer).name + ": " + catalogue.HardwareText(offer) + ", " +
         MoneyText(catalogue.offers()[offer].hourly) + "/h";
}

std::vector<GrowthBlocker> WhyNoNode(const GrowthInput& input, const GrowthDecision& decision, std::size_t index) {
  const Demand& demand = input.demands[index];
  if (decision.verdicts[index].refused == 0) return {};
  if (!demand.may_grow) return {{.kind = Refusal::kNoGrow}};
  if (input.now < demand.not_before) return {{.kind = Refusal::kUnused, .until = demand.not_before}};
  const Catalogue& catalogue = *input.catalogue;
  std::vector<std::optional<GrowthBlocker>> closest(catalogue.providers().size());
  std::vector<Usage> usage;
  for (ProviderIndex p = 0; p < closest.size(); ++p) usage.push_back(UsageOf(input, decision, p));
  // Compares offers in the order of their price per GPU, so that of equally suitable ones the cheapest is named.
  for (const OfferIndex offer : catalogue.by_value()) {
    const ProviderIndex provider = catalogue.offers()[offer].provider;
    GrowthBlocker blocker = BlockerOf(input, decision, demand, offer, usage[provider]);
    std::optional<GrowthBlocker>& known = closest[provider];
    const bool is_closer =
        !known || blocker.kind > known->kind ||
        (blocker.kind == known->kind && blocker.needed - blocker.available < known->needed - known->available);
    if (is_closer) known = blocker;
  }
  std::vector<GrowthBlocker> blockers;
  for (const auto& one : closest) {
    if (one) blockers.push_back(*one);
  }
  std::ranges::stable_sort(blockers, std::greater(), &GrowthBlocker::kind);
  return blockers;
}

std::string BlockerText(const GrowthInput& input, const Demand& demand, const GrowthBlocker& it) {
  if (it.kind == Refusal::kNoGrow) return "the job waits for existing nodes only (--no-grow)";
  if (it.kind == Refusal::kUnused) {
    return "a node that was requested for the job was returned unused, so something else keeps it; the next is "
           "requested "
           "in " +
           DurationText(it.until - input.now) + " at the earliest";
  }
  const Catalogue& catalogue = *input.catalogue;
  const Provider& provider = catalogue.providers()[it.provider];
  const NodeShape& shape = catalogue.shape(it.offer);
  const std::string start = "provider " + provider.name + ": ";
  const std::string nodes = Plural(it.nodes, "node") + " of shape " + shape.name;
  const auto whole = [](double value) { return std::to_string(static_cast<std::int64_t>(value)); };
  const std::string costs = nodes + (it.nodes == 1 ? " costs " : " cost ") + Fixed(it.needed) + " per hour, but ";
  switch (it.kind) {
    case Refusal::kNoGrow:
    case Refusal::kUnused:
      break;
    case Refusal::kNoShape:
      return start + "no shape is large enough or has the right GPUs; the largest has " + LargestText(provider);
    case Refusal::kNotAllowed:
      return start + PermittedText(provider, demand);
    case Refusal::kDisabled:
      return start + "it is disabled";
    case Refusal::kSpot:
      return start + "it may remove nodes of shape " + shape.name + " at any time, and the job cannot be requeued";
    case Refusal::kLifetime:
      return start + "nodes of shape " + shape.name + " exist for " + DurationText(shape.max_lifetime) +
             ", and the job has " +
             (demand.time_limit > Duration(0) ? "a longer time limit (" + DurationText(demand.time_limit) + ")"
                                              : std::string("no time limit")) +
             " and cannot be requeued";
    case Refusal::kMaxPrice:
      return start + costs + "the job allows " + Fixed(it.available) + " (--max-price)";
    case Refusal::kTeamBudget: {
      const auto limiting = input.limiting_team.find(demand.team);
      return start + costs + "the budget of team " +
             (limiting == input.limiting_team.end() ? demand.team : limiting->second) + " leaves " +
             Fixed(it.available);
    }
    case Refusal::kMonthlyLimit:
      return start + nodes + " would cost " + Fixed(it.needed) + " in the next " +
             DurationText(input.rules.budget_reserve) + ", but this month's limit of " +
             MoneyText(*provider.limits.monthly) + " leaves " + Fixed(it.available);
    case Refusal::kHourlyLimit:
      return start + costs + "its limit of " + MoneyText(*provider.limits.hourly) + " per hour leaves " +
             Fixed(it.available);
    case Refusal::kGpuLimit:
      return start + nodes + " would add " + whole(it.needed) + " GPUs, but its limit of " +
             std::to_string(*provider.limits.gpus) + " leaves " + whole(it.available);
    case Refusal::kNodeLimit:
      return start + "the job needs " + nodes + ", but its limit of " + std::to_string(*provider.limits.nodes) +
             " leaves " + whole(it.available);
    case Refusal::kDown:
      return start + "it failed, and is tried again in " + DurationText(it.until - input.now);
  }
  return {};
}

std::vector<std::string> VerdictText(const GrowthInput& input, const GrowthDecision& decision, std::size_t index) {
  const Verdict& it = decision.verdicts[index];
  const std::string expected =
      it.expected == kNever ? "" : " in " + DurationText(std::max(it.expected - input.now, Duration(0)));
  std::vector<std::string> lines;
  if (it.on_existing > 0)
    lines.push_back(JobsText(it.on_existing) + " will fit on an existing node" + expected +
                    ", before a new one could start");
  if (it.on_coming > 0) lines.push_back(JobsText(it.on_coming) + " will fit on a node that is on its way" + expected);
  if (it.on_new > 0) {
    std::vector<std::string> requested;
    for (const NodeRequest& request : decision.requests) {
      if (request.demand != index) continue;
      const std::string text = OfferText(*input.catalogue, request.offer);
      if (std::ranges::find(requested, text) == requested.end()) requested.push_back(text);
    }
    lines.push_back(JobsText(it.on_new) + " will fit on a node that is requested now" +
                    (requested.empty() ? " for other jobs too" : " (" + Join(requested, "; ") + ")") + expected);
  }
  if (it.deferred > 0)
    lines.push_back(JobsText(it.deferred) + " will be considered next: " + std::to_string(input.rules.most_requests) +
                    " nodes are requested at a time");
  return lines;
}

}  // namespace divvy::growth
