#include "dialect/config/config_values.h"

#include "dialect/options/quantities.h"

namespace divvy::dialect {

Error Expected(std::string_view what) { return InvalidArgument("is not " + std::string(what)); }

Result<std::string> ConfigText(const ConfigValue& value, std::string_view example) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return Expected("a text in quotes; write it like \"" + std::string(example) + "\"");
}

Error ExpectedNumber(const ConfigValue& value, const std::string& what) {
  std::string given;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) given = std::to_string(*whole);
  if (const auto* text = std::get_if<std::string>(&value)) given = Quoted(*text);
  return given.empty() ? Expected(what) : InvalidArgument("is " + given + ", not " + what);
}

Result<std::int64_t> ConfigCount(const ConfigValue& value, std::int64_t least, std::int64_t most) {
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number != nullptr && *number >= least && *number <= most) return *number;
  return ExpectedNumber(
      value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", without quotes");
}

Result<bool> ConfigYesOrNo(const ConfigValue& value) {
  if (const auto* is_so = std::get_if<bool>(&value)) return *is_so;
  return Expected("true or false, without quotes");
}

Result<std::vector<std::string>> ConfigNames(const ConfigValue& value) {
  if (const auto* names = std::get_if<std::vector<std::string>>(&value)) return *names;
  return Expected("a list of names; write it like [\"ada\", \"grace\"]");
}

Result<Duration> ConfigSpan(const ConfigValue& value, std::string_view example) {
  DIVVY_TRY(const std::string text, ConfigText(value, example));
  const auto bare = ParseNumber(Trim(text));
  if (bare && *bare == 0) return Duration(0);
  if (bare) return InvalidArgument(Quoted(text) + " has no unit; write it like \"" + std::string(example) + "\"");
  return ParseDuration(text, std::chrono::seconds(1));
}

Result<QueuePolicy> ConfigQueuePolicy(const ConfigValue& value) {
  return ConfigOneOf<QueuePolicy>(value, {{"small-first", QueuePolicy::kSmallFirst},
                                          {"fifo", QueuePolicy::kFifo},
                                          {"fair", QueuePolicy::kFair},
                                          {"shortest", QueuePolicy::kShortest}});
}

Result<PlacementStrategy> ConfigPlacement(const ConfigValue& value) {
  return ConfigOneOf<PlacementStrategy>(value, {{"sequential", PlacementStrategy::kSequential},
                                                {"best", PlacementStrategy::kBest},
                                                {"random", PlacementStrategy::kRandom},
                                                {"pack", PlacementStrategy::kPack},
                                                {"spread", PlacementStrategy::kSpread}});
}

Error AboutConfigKey(const ConfigEntry& entry, const Error& error) {
  const bool has_subject = error.message.starts_with("unknown key") || error.message.starts_with("[");
  return InvalidArgument(has_subject                        ? error.message
                         : error.message.starts_with("is ") ? entry.key + " " + error.message
                                                            : entry.key + ": " + error.message);
}

Error UnknownConfigKey(const ConfigEntry& entry, std::span<const std::string_view> keys) {
  const std::string_view near = entry.key.size() > 40 ? std::string_view() : Nearest(entry.key, keys);
  const std::string text = "unknown key " + Quoted(entry.key) + " in [" + entry.section + "]";
  if (!near.empty()) return InvalidArgument(text + "; did you mean '" + std::string(near) + "'?");
  std::string all;
  for (const std::string_view key : keys) all += (all.empty() ? "" : ", ") + std::string(key);
  return InvalidArgument(text + "; known keys: " + all);
}

}  // namespace divvy::dialect
