#include "sweep/sweep_rule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace divvy::sweep {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr double kGreatestResource = 1e12;
constexpr int kGreatestEta = 1000;

bool IsMetricName(std::string_view name) {
  return name.size() <= kLongestName &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127 || c == ';'; });
}

Status CheckHalving(const HalvingRule& rule) {
  const std::string type(Name(rule.stop));
  if (rule.eta < 2 || rule.eta > kGreatestEta)
    return InvalidArgument("eta " + std::to_string(rule.eta) + " of early_terminate is not allowed: use 2 to " +
                           std::to_string(kGreatestEta) + ", such as eta: 3");
  if (!(rule.min > 0) || rule.min > kGreatestResource)
    return InvalidArgument("min_iter " + NumberText(rule.min) +
                           " of early_terminate is not allowed: use a number above 0, such as min_iter: 1");
  if (rule.max == 0 && rule.stop == EarlyStop::kAsha) return {};
  if (rule.max == 0)
    return InvalidArgument("early_terminate of type " + type +
                           " needs the length of a whole training; add max_iter, such as max_iter: 81");
  if (!(rule.max >= rule.min) || rule.max > kGreatestResource)
    return InvalidArgument("max_iter " + NumberText(rule.max) + " of early_terminate is less than min_iter " +
                           NumberText(rule.min) + "; swap them, or omit min_iter (then it is 1)");
  if (rule.max / rule.min > kGreatestResource)
    return InvalidArgument("max_iter " + NumberText(rule.max) +
                           " of early_terminate is more than 1e12 times min_iter " + NumberText(rule.min) +
                           "; raise min_iter");
  return {};
}

}  // namespace

std::string_view Name(EarlyStop stop) {
  switch (stop) {
    case EarlyStop::kNone:
      return "none";
    case EarlyStop::kAsha:
      return "asha";
    case EarlyStop::kAshaPromotion:
      return "asha_promotion";
    case EarlyStop::kHyperband:
      return "hyperband";
  }
  return "";
}

std::optional<EarlyStop> EarlyStopFromName(std::string_view name) {
  for (const EarlyStop stop : {EarlyStop::kNone, EarlyStop::kAsha, EarlyStop::kAshaPromotion, EarlyStop::kHyperband}) {
    if (Name(stop) == name) return stop;
  }
  return std::nullopt;
}

Status CheckRule(const SweepRule& rule) {
  const bool compares = rule.halving.stop != EarlyStop::kNone || rule.target;
  if (rule.metric.empty() && compares)
    return InvalidArgument(
        "a sweep that stops trials or has a target needs the metric that trials report; write --metric "
        "loss, or in the file metric: {name: loss, goal: minimize}");
  if (!IsMetricName(rule.metric) || !IsMetricName(rule.resource) || rule.resource.empty())
    return InvalidArgument("the names of metric and resource have 1 to " + std::to_string(kLongestName) +
                           " bytes without control characters and ';'");
  if (rule.metric == rule.resource)
    return InvalidArgument("metric and resource are both '" + rule.metric +
                           "'; resource names the number that counts training, such as resource: epoch");
  if (rule.target && !std::isfinite(*rule.target))
    return InvalidArgument("the target of the metric must be a number, such as target: 0.1");
  if (rule.parallel < 0)
    return InvalidArgument("parallel " + std::to_string(rule.parallel) +
                           " is not allowed: use 1 or more trials at once, or 0 for as many as fit");
  if (rule.parks_losers && rule.halving.stop != EarlyStop::kAshaPromotion && rule.halving.stop != EarlyStop::kHyperband)
    return InvalidArgument("park_losers parks trials until they are promoted, and " +
                           (rule.halving.stop == EarlyStop::kAsha
                                ? std::string("type asha stops losers for good")
                                : std::string("without early_terminate no trial loses")) +
                           "; use --asha-promotion or --hyperband, or in the file type: asha_promotion or hyperband");
  if (rule.halving.stop == EarlyStop::kNone) return {};
  return CheckHalving(rule.halving);
}

std::string NumberText(double value) {
  std::array<char, 40> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string FormatRule(const SweepRule& rule) {
  std::string text;
  if (!rule.metric.empty()) text += "metric " + rule.metric + ";";
  text += std::string("goal ") + (rule.goal == Goal::kMaximize ? "maximize" : "minimize") + ";";
  if (rule.target) text += "target " + NumberText(*rule.target) + ";";
  text += "resource " + rule.resource + ";";
  text += "stop " + std::string(Name(rule.halving.stop)) + " " + NumberText(rule.halving.min) + " " +
          NumberText(rule.halving.max) + " " + std::to_string(rule.halving.eta) + ";";
  text += "parallel " + std::to_string(rule.parallel) + ";";
  if (rule.parks_losers) text += "park_losers 1;";
  if (rule.is_told) text += "told 1;";
  if (rule.seed != 0) text += "seed " + std::to_string(rule.seed) + ";";
  if (!rule.method.empty()) text += "method " + rule.method + ";";
  return text;
}

Result<SweepRule> ParseRule(std::string_view text) {
  SweepRule rule;
  const auto unreadable = [](std::string_view line) {
    return InvalidArgument("the sweep's rule has an invalid line '" + OneLine(std::string(line.substr(0, 80))) +
                           "'; submit sweeps with divvy sweep run");
  };
  for (const std::string_view line : Split(text, ';')) {
    if (line.empty()) continue;
    const auto space = line.find(' ');
    if (space == std::string_view::npos) return unreadable(line);
    const std::string_view key = line.substr(0, space), value = line.substr(space + 1);
    if (key == "metric") rule.metric = value;
    else if (key == "goal" && (value == "minimize" || value == "maximize"))
      rule.goal = value == "maximize" ? Goal::kMaximize : Goal::kMinimize;
    else if (key == "resource") rule.resource = value;
    else if (key == "method") rule.method = OneLine(std::string(value.substr(0, kLongestName)));
    else if (key == "told") rule.is_told = value == "1";
    else if (key == "park_losers") rule.parks_losers = value == "1";
    else if (key == "target") {
      rule.target = ParseNumber(value);
      if (!rule.target) return unreadable(line);
    } else if (key == "parallel" || key == "seed") {
      const auto number = ParseInteger(value);
      if (!number || *number < 0 || (key == "parallel" && *number > 1'000'000)) return unreadable(line);
      if (key == "seed") rule.seed = static_cast<std::uint64_t>(*number);
      else rule.parallel = static_cast<int>(*number);
    } else if (key == "stop") {
      const auto words = Split(value, ' ');
      const auto stop = EarlyStopFromName(words.front());
      const auto min = words.size() == 4 ? ParseNumber(words[1]) : std::nullopt;
      const auto max = words.size() == 4 ? ParseNumber(words[2]) : std::nullopt;
      const auto eta = words.size() == 4 ? ParseInteger(words[3]) : std::nullopt;
      if (!stop || !min || !max || !eta || std::abs(*eta) > kGreatestEta) return unreadable(line);
      rule.halving = {*stop, *min, *max, static_cast<int>(*eta)};
    } else {
      return unreadable(line);
    }
  }
  DIVVY_CHECK(CheckRule(rule));
  return rule;
}

}  // namespace divvy::sweep
