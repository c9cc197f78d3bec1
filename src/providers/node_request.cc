#include "providers/node_request.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace divvy::providers {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"requested", "booting", "joined", "draining", "destroying"};

std::string TimeText(Time time) { return std::to_string(time.time_since_epoch().count()); }

std::optional<Time> TimeOf(std::string_view text) {
  const auto count = ParseInteger(text);
  return count ? std::optional(Time(Duration(*count))) : std::nullopt;
}

template <typename Node>
Money Cost(const Node& node, Time from, Time until) {
  const auto billed = [&node](Time time) {
    const Duration stay = std::max(time - node.requested, Duration(0));
    const Duration period = node.billing_period;
    if (period <= Duration(0)) return stay;
    return std::max<std::int64_t>(1, (stay + period - Duration(1)) / period) * period;
  };
  const Duration before = from <= node.requested ? Duration(0) : billed(from);
  return CostOf(node.hourly, std::max(billed(std::min(until, node.gone)) - before, Duration(0)));
}

}  // namespace

std::string_view Name(NodeState state) { return kNames[static_cast<std::size_t>(state)]; }

std::string FormatRequest(const NodeRequest& request) {
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& value) {
    if (!value.empty()) text += std::string(key) + " " + OneLine(value) + "\n";
  };
  add("state", std::string(Name(request.state)));
  add("node", request.node);
  add("provider", request.provider);
  add("shape", request.shape);
  add("gpus", std::to_string(request.gpus));
  add("cpus", std::to_string(request.cpus));
  add("hourly", std::to_string(request.hourly.micros()));
  add("period", std::to_string(request.billing_period.count()));
  add("team", request.team);
  add("set", request.set);
  add("instance", request.instance);
  for (const std::string& id : request.join_tokens) add("join", id);
  add("requested", TimeText(request.requested));
  add("booting", TimeText(request.booting));
  add("joined", TimeText(request.joined));
  add("gone", request.gone == kNever ? "" : TimeText(request.gone));
  add("unsure", TimeText(request.unsure_until));
  add("used", request.was_used ? "1" : "");
  add("forced", request.is_forced ? "1" : "");
  add("why", request.why);
  return text;
}

std::optional<NodeRequest> ParseRequest(std::string_view token, std::string_view text) {
  NodeRequest request;
  request.token = token;
  bool has_state = false;
  bool is_good = !token.empty();
  const auto number = [&is_good](std::string_view value) {
    const auto parsed = ParseInteger(value);
    is_good = is_good && parsed;
    return parsed.value_or(0);
  };
  const auto time = [&is_good](std::string_view value) {
    const auto parsed = TimeOf(value);
    is_good = is_good && parsed;
    return parsed.value_or(kNoTime);
  };
  for (const std::string_view line : Split(text, '\n')) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "state") {
      const auto known = std::ranges::find(kNames, value);
      has_state = known != kNames.end();
      if (has_state) request.state = static_cast<NodeState>(known - kNames.begin());
    } else if (key == "node") {
      request.node = value;
    } else if (key == "provider") {
      request.provider = value;
    } else if (key == "shape") {
      request.shape = value;
    } else if (key == "gpus") {
      request.gpus = static_cast<int>(number(value));
    } else if (key == "cpus") {
      request.cpus = static_cast<int>(number(value));
    } else if (key == "hourly") {
      request.hourly = Money(number(value));
    } else if (key == "period") {
      request.billing_period = Duration(number(value));
    } else if (key == "team") {
      request.team = value;
    } else if (key == "set") {
      request.set = value;
    } else if (key == "instance") {
      request.instance = value;
    } else if (key == "join") {
      request.join_tokens.emplace_back(value);
    } else if (key == "requested") {
      request.requested = time(value);
    } else if (key == "booting") {
      request.booting = time(value);
    } else if (key == "joined") {
      request.joined = time(value);
    } else if (key == "gone") {
      request.gone = time(value);
    } else if (key == "unsure") {
      request.unsure_until = time(value);
    } else if (key == "used") {
      request.was_used = value == "1";
    } else if (key == "forced") {
      request.is_forced = value == "1";
    } else if (key == "why") {
      request.why = value;
    }
  }
  if (!is_good || !has_state || request.node.empty() || request.provider.empty()) return std::nullopt;
  return request;
}

Money CostBetween(const NodeRequest& request, Time from, Time until) { return Cost(request, from, until); }

Money CostBetween(const PricedNode& node, Time from, Time until) { return Cost(node, from, until); }

}  // namespace divvy::providers
