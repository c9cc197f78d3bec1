#include "dialect/options/growth_options.h"

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "dialect/options/quoted.h"
#include "model/growth_wishes.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kLongestNames = 1024;

/// `has_any`: another --provider of the same command line or script was read.
Status AddProvider(std::string_view value, JobSpec& spec, bool has_any) {
  std::string& names = spec.labels[std::string(kProviderLabel)];
  if (!has_any) names.clear();
  for (const std::string_view name : Split(value, ',')) {
    if (name.empty() || name.find_first_of(" \t") != std::string_view::npos)
      return InvalidArgument(Quoted(value) +
                             " is not a list of providers; write it like lab-slurm or lab-slurm,aws-us");
    const auto known = Split(names, ',');
    if (std::ranges::find(known, name) == known.end()) names += (names.empty() ? "" : ",") + std::string(name);
  }
  if (names.size() > kLongestNames)
    return InvalidArgument("the names of providers have more than " + std::to_string(kLongestNames) + " bytes");
  return {};
}

}  // namespace

void AddGrowthOptions(std::vector<Option>& table, JobSpec& spec) {
  table.push_back({"no-grow", 0, Takes::kNothing, "", "wait for existing nodes; request none from a provider",
                   [&spec](std::string_view) -> Status {
                     spec.labels[std::string(kNoGrowLabel)] = "yes";
                     return {};
                   }});
  table.push_back({"provider", 0, Takes::kValue, "NAMES",
                   "request nodes for this job from these providers only, see divvy providers; repeatable",
                   [&spec, has_any = std::make_shared<bool>(false)](std::string_view value) -> Status {
                     const bool is_later = *has_any;
                     *has_any = true;
                     return AddProvider(value, spec, is_later);
                   }});
  table.push_back({"max-price", 0, Takes::kValue, "AMOUNT",
                   "highest price per hour of all nodes that are requested for this job, such as 3.50",
                   [&spec](std::string_view value) -> Status {
                     if (!PriceIn(value))
                       return InvalidArgument(Quoted(value) +
                                              " is not a number above 0 and at most 1000000000; write it like 3.50");
                     spec.labels[std::string(kMaxPriceLabel)] = value;
                     return {};
                   }});
}

}  // namespace divvy::dialect
