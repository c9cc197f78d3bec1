#include "dialect/config/config_providers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dialect/config/config_values.h"
#include "dialect/options/quantities.h"
#include "model/gpus/gpu_set.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kProviderKeys[] = {
    "name",          "kind",           "enabled",      "max_nodes", "max_gpus", "max_per_hour",
    "max_per_month", "billing_period", "min_lifetime", "idle",      "teams",    "pools",
    "command",       "credentials",    "options",      "timeout",   "poll"};
constexpr std::string_view kShapeKeys[] = {"name",  "gpu_model", "gpus",         "cpus", "memory", "labels",
                                           "price", "startup",   "max_lifetime", "spot", "options"};
constexpr std::int64_t kMostCount = 1'000'000;
constexpr double kMostMoney = 1e9;
constexpr std::size_t kMostProviders = 1000;
constexpr std::size_t kMostOptions = 100;

Status CheckProviderName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (!name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_plain) &&
      std::string_view("-._").find(name.front()) == std::string_view::npos)
    return {};
  return InvalidArgument(Quoted(name) +
                         " is not a valid name; write at most 64 letters, digits, '.', '_' and '-', with a letter "
                         "or digit first");
}

/// An amount above zero. A price of zero would make a provider's nodes look free, and NaN would defeat every limit.
Result<Money> MoneyAmount(const ConfigValue& value) {
  double amount = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) amount = static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) amount = *number;
  if (!(amount >= 1e-6 && amount <= kMostMoney))
    return ExpectedNumber(value, "a number above 0 and at most 1000000000, without quotes; write it like 3.06");
  return Money(std::llround(amount * 1e6));
}

Result<int> CountUpTo(const ConfigValue& value, std::int64_t least, std::int64_t most) {
  DIVVY_TRY(const std::int64_t count, ConfigCount(value, least, most));
  return static_cast<int>(count);
}

Result<std::vector<std::string>> AllowedNames(const ConfigValue& value) {
  DIVVY_TRY(auto names, ConfigNames(value));
  if (names.empty()) return InvalidArgument("is empty, so no job could use the provider; omit it to allow all");
  return names;
}

Result<Duration> ProviderSpan(const ConfigValue& value, std::string_view example) {
  DIVVY_TRY(const Duration span, ConfigSpan(value, example));
  constexpr Duration kMostSpan = std::chrono::hours(24 * 366);
  if (span > kMostSpan) return InvalidArgument("is longer than a year; write at most \"366d\"");
  return span;
}

Result<std::string> AbsolutePath(const std::string& path, std::string_view example) {
  if (path.starts_with('/') && path.find('\n') == std::string::npos) return path;
  return InvalidArgument(Quoted(path) + " is not an absolute path; write it like \"" + std::string(example) + "\"");
}

Result<std::vector<std::string>> OptionWords(const ConfigValue& value) {
  DIVVY_TRY(auto words, ConfigNames(value));
  if (words.size() > kMostOptions)
    return InvalidArgument("has " + std::to_string(words.size()) + " options; the limit is " +
                           std::to_string(kMostOptions));
  return words;
}

Result<Duration> SpanBetween(const ConfigValue& value, std::string_view example, Duration least, Duration most) {
  DIVVY_TRY(const Duration span, ProviderSpan(value, example));
  if (span >= least && span <= most) return span;
  return InvalidArgument("is not between " + FormatDuration(least) + " and " + FormatDuration(most) +
                         "; write it like \"" + std::string(example) + "\"");
}

Status ReadProvider(const ConfigEntry& entry, Provider& provider) {
  const ConfigValue& value = entry.value;
  const std::string& key = entry.key;
  if (key == "name") {
    DIVVY_TRY(provider.name, ConfigText(value, "aws-us"));
    return CheckProviderName(provider.name);
  }
  if (key == "kind") {
    DIVVY_TRY(provider.kind, ConfigOneOf<ProviderKind>(value, {{"command", ProviderKind::kCommand},
                                                               {"slurm", ProviderKind::kSlurm},
                                                               {"kubernetes", ProviderKind::kKubernetes}}));
  } else if (key == "enabled") {
    DIVVY_TRY(provider.is_enabled, ConfigYesOrNo(value));
  } else if (key == "max_nodes") {
    DIVVY_TRY(provider.limits.nodes, CountUpTo(value, 0, kMostCount));
  } else if (key == "max_gpus") {
    DIVVY_TRY(provider.limits.gpus, CountUpTo(value, 0, kMostCount));
  } else if (key == "max_per_hour") {
    DIVVY_TRY(provider.limits.hourly, MoneyAmount(value));
  } else if (key == "max_per_month") {
    DIVVY_TRY(provider.limits.monthly, MoneyAmount(value));
  } else if (key == "billing_period") {
    DIVVY_TRY(provider.billing_period, ProviderSpan(value, "1h"));
  } else if (key == "min_lifetime") {
    DIVVY_TRY(provider.min_lifetime, ProviderSpan(value, "5min"));
  } else if (key == "idle") {
    DIVVY_TRY(provider.idle, ProviderSpan(value, "10min"));
  } else if (key == "command") {
    DIVVY_TRY(provider.command, OptionWords(value));
    if (provider.command.empty()) return InvalidArgument("is empty; write it like [\"/usr/local/lib/divvy/cloud\"]");
    DIVVY_TRY(provider.command.front(), AbsolutePath(provider.command.front(), "/usr/local/lib/divvy/cloud"));
  } else if (key == "credentials") {
    DIVVY_TRY(const std::string path, ConfigText(value, "/etc/divvy/cloud.json"));
    DIVVY_TRY(provider.credentials, AbsolutePath(path, "/etc/divvy/cloud.json"));
  } else if (key == "options") {
    DIVVY_TRY(provider.options, OptionWords(value));
  } else if (key == "timeout") {
    DIVVY_TRY(provider.timeout, SpanBetween(value, "2min", 1s, 1h));
  } else if (key == "poll") {
    DIVVY_TRY(provider.poll, SpanBetween(value, "30s", 1s, 1h));
  } else if (key == "teams") {
    DIVVY_TRY(provider.teams, AllowedNames(value));
  } else if (key == "pools") {
    DIVVY_TRY(provider.pools, AllowedNames(value));
  } else {
    return UnknownConfigKey(entry, kProviderKeys);
  }
  return {};
}

Status ReadShape(const ConfigEntry& entry, NodeShape& shape) {
  const ConfigValue& value = entry.value;
  const std::string& key = entry.key;
  if (key == "name") {
    DIVVY_TRY(shape.name, ConfigText(value, "p3.2xlarge"));
    return CheckProviderName(shape.name);
  }
  if (key == "gpu_model") {
    DIVVY_TRY(shape.gpu_model, ConfigText(value, "H100-80GB"));
    if (Trim(shape.gpu_model).empty()) return InvalidArgument("is empty; omit it for a node without GPUs");
  } else if (key == "gpus") {
    DIVVY_TRY(shape.gpus, CountUpTo(value, 0, GpuSet::kCapacity));
  } else if (key == "cpus") {
    DIVVY_TRY(shape.cpus, CountUpTo(value, 1, 100'000));
  } else if (key == "memory") {
    DIVVY_TRY(const std::string text, ConfigText(value, "64G"));
    if (ParseNumber(Trim(text))) return InvalidArgument(Quoted(text) + " has no unit; write it like \"64G\"");
    DIVVY_TRY(shape.memory, ParseSize(text, 1));
    if (shape.memory <= Bytes()) return InvalidArgument("is 0; write it like \"64G\"");
  } else if (key == "labels") {
    DIVVY_TRY(shape.labels, ConfigNames(value));
  } else if (key == "price") {
    DIVVY_TRY(shape.hourly, MoneyAmount(value));
  } else if (key == "startup") {
    DIVVY_TRY(shape.startup, ProviderSpan(value, "3min"));
  } else if (key == "max_lifetime") {
    DIVVY_TRY(shape.max_lifetime, ProviderSpan(value, "12h"));
  } else if (key == "spot") {
    DIVVY_TRY(shape.is_spot, ConfigYesOrNo(value));
  } else if (key == "options") {
    DIVVY_TRY(shape.options, OptionWords(value));
  } else {
    return UnknownConfigKey(entry, kShapeKeys);
  }
  return {};
}

Status CheckShape(const NodeShape& shape) {
  const std::string what = "shape " + Quoted(shape.name);
  if (shape.name.empty()) return InvalidArgument("the shape has no name; add name = \"p3.2xlarge\"");
  if (shape.hourly == Money()) return InvalidArgument(what + " has no price; add price = 3.06, its cost per hour");
  if (shape.startup == Duration(0))
    return InvalidArgument(what + " has no startup; add startup = \"3min\", the time until a new node takes jobs");
  if (shape.cpus == 0) return InvalidArgument(what + " has no cpus; add cpus = 8");
  if (shape.memory == Bytes()) return InvalidArgument(what + " has no memory; add memory = \"61G\"");
  if ((shape.gpus > 0) != !shape.gpu_model.empty())
    return InvalidArgument(what + " has " + (shape.gpus > 0 ? "gpus but no gpu_model" : "a gpu_model but no gpus") +
                           "; write both, or neither for a node without GPUs");
  if (shape.max_lifetime > Duration(0) && shape.max_lifetime <= shape.startup)
    return InvalidArgument(what + " has a max_lifetime of " + FormatDuration(shape.max_lifetime) +
                           ", which is not longer than its startup");
  return {};
}

Status CheckProvider(const Provider& provider) {
  if (provider.name.empty()) return InvalidArgument("the provider has no name; add name = \"aws-us\"");
  if (provider.shapes.empty())
    return InvalidArgument("provider " + Quoted(provider.name) + " has no shapes; add a [[providers.shapes]] table");
  return {};
}

}  // namespace

bool IsOfProviders(const ConfigEntry& entry) { return entry.provider > 0; }

Status ReadProvidersEntry(const ConfigEntry& entry, std::vector<Provider>& providers) {
  if (entry.key.empty()) {
    if (entry.shape > 0) {
      providers.back().shapes.emplace_back();
      return {};
    }
    if (providers.size() == kMostProviders)
      return InvalidArgument("more than " + std::to_string(kMostProviders) + " providers");
    providers.emplace_back();
    return {};
  }
  const Status read =
      entry.shape > 0 ? ReadShape(entry, providers.back().shapes.back()) : ReadProvider(entry, providers.back());
  return read ? Status() : AboutConfigKey(entry, read.error());
}

Status CheckProvidersEntry(const ConfigEntry& entry, const std::vector<Provider>& providers) {
  if (!entry.key.empty() || !IsOfProviders(entry)) return {};
  const Provider& provider = providers[static_cast<std::size_t>(entry.provider - 1)];
  if (entry.shape == 0) {
    DIVVY_CHECK(CheckProvider(provider));
    const auto first = std::ranges::find(providers, provider.name, &Provider::name);
    if (&*first == &provider) return {};
    return InvalidArgument("there are two providers named " + Quoted(provider.name) + "; rename one");
  }
  const NodeShape& shape = provider.shapes[static_cast<std::size_t>(entry.shape - 1)];
  DIVVY_CHECK(CheckShape(shape));
  const auto first = std::ranges::find(provider.shapes, shape.name, &NodeShape::name);
  if (&*first == &shape) return {};
  return InvalidArgument("provider " + Quoted(provider.name) + " has two shapes named " + Quoted(shape.name) +
                         "; rename one");
}

}  // namespace divvy::dialect
