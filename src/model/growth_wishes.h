// A job's limits for nodes on demand. They are labels of its specification, which the options --no-grow, --provider and
// --max-price set.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "model/provider.h"

namespace divvy {

inline constexpr std::string_view kNoGrowLabel = "divvy.no-grow";
inline constexpr std::string_view kProviderLabel = "divvy.provider";   // "lab-slurm,aws-us"
inline constexpr std::string_view kMaxPriceLabel = "divvy.max-price";  // "3.06"
inline constexpr double kMostPrice = 1e9;

struct GrowthWishes {
  bool may_grow = true;                // False: no node is requested for it.
  std::vector<std::string> providers;  // The only ones that may get a node for it. Empty: all.
  std::optional<Money> max_hourly;     // The highest price of all nodes that are requested for it.

  friend auto operator<=>(const GrowthWishes&, const GrowthWishes&) = default;
};

/// Parses a price: a number from 0.000001 to kMostPrice. Returns std::nullopt for any other text.
inline std::optional<Money> PriceIn(std::string_view text) {
  const auto amount = ParseNumber(text);
  if (!amount || !(*amount >= 1e-6 && *amount <= kMostPrice)) return std::nullopt;
  return Money(std::llround(*amount * 1e6));
}

/// Reads a job's limits from its labels. Labels may also come from the API: if the price cannot be parsed, no node is
/// requested for the job.
inline GrowthWishes GrowthWishesIn(const std::map<std::string, std::string>& labels) {
  GrowthWishes wishes;
  const auto label = [&labels](std::string_view name) {
    const auto found = labels.find(std::string(name));
    return found == labels.end() ? std::string() : found->second;
  };
  wishes.may_grow = label(kNoGrowLabel).empty();
  if (const std::string names = label(kProviderLabel); !names.empty()) {
    for (const std::string_view name : Split(names, ',')) wishes.providers.emplace_back(name);
    std::ranges::sort(wishes.providers);
  }
  if (const std::string price = label(kMaxPriceLabel); !price.empty())
    wishes.max_hourly = PriceIn(price).value_or(Money());
  return wishes;
}

}  // namespace divvy
