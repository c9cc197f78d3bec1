#include "engine/growth/ceiling.h"

#include <cstdio>
#include <optional>

namespace divvy::growth {
namespace {

std::string Amount(Money money) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", money.units());
  return text;
}

/// The nodes that a provider has, and would have.
struct Total {
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  Money hourly;
};

/// The first limit of `provider` that `total` exceeds, as text; empty: none.
std::string Exceeded(const Provider& provider, const ProviderState& state, const Total& total, Duration reserve) {
  const ProviderLimits& limits = provider.limits;
  const auto over = [&](const std::string& what, const std::string& value, const std::string& limit) {
    return "provider " + provider.name + ": " + what + " " + value + " would exceed the limit of " + limit;
  };
  if (limits.nodes && total.nodes > *limits.nodes)
    return over("nodes", std::to_string(total.nodes), std::to_string(*limits.nodes));
  if (limits.gpus && total.gpus > *limits.gpus)
    return over("GPUs", std::to_string(total.gpus), std::to_string(*limits.gpus));
  if (limits.hourly && total.hourly > *limits.hourly)
    return over("cost per hour", Amount(total.hourly), Amount(*limits.hourly));
  const Money month = state.spent_this_month + CostOf(total.hourly, reserve);
  if (limits.monthly && month > *limits.monthly) return over("cost per month", Amount(month), Amount(*limits.monthly));
  return {};
}

}  // namespace

CeilingResult WithinCeiling(const GrowthInput& input, const std::vector<NodeRequest>& requests) {
  const Catalogue& catalogue = *input.catalogue;
  std::vector<Total> totals(catalogue.providers().size());
  const auto add = [&catalogue](std::vector<Total>& to, OfferIndex offer) {
    Total& total = to[catalogue.offers()[offer].provider];
    total.nodes += 1;
    total.gpus += catalogue.shape(offer).gpus;
    total.hourly += catalogue.shape(offer).hourly;
  };
  for (const OwnedNode& node : input.nodes) {
    if (node.offer) add(totals, *node.offer);
  }
  CeilingResult result;
  for (std::size_t first = 0, end = 0; first < requests.size(); first = end) {
    while (end < requests.size() && requests[end].set == requests[first].set) ++end;
    std::vector<Total> with = totals;
    std::string why;
    for (std::size_t i = first; i < end && why.empty(); ++i) {
      if (requests[i].offer >= catalogue.offers().size()) {
        why = "offer " + std::to_string(requests[i].offer) + " is not in the catalogue";
        break;
      }
      add(with, requests[i].offer);
      const ProviderIndex provider = catalogue.offers()[requests[i].offer].provider;
      why = catalogue.providers()[provider].is_enabled
                ? Exceeded(catalogue.providers()[provider], input.providers[provider], with[provider],
                           input.rules.budget_reserve)
                : "provider " + catalogue.providers()[provider].name + " is disabled";
    }
    if (!why.empty()) {
      result.refused.push_back(std::move(why));
      continue;
    }
    totals = std::move(with);
    result.allowed.insert(result.allowed.end(), requests.begin() + static_cast<std::ptrdiff_t>(first),
                          requests.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

}  // namespace divvy::growth
