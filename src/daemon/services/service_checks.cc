#include "daemon/services/service_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "dialect/options/quoted.h"
#include "wire/http/own_numbers.h"

namespace divvy {
namespace {

constexpr std::size_t kLongestName = 40;
constexpr std::size_t kLongestPath = 200;
constexpr double kLongestDelay = 7 * 24 * 3600;
constexpr double kLongestWait = 3600;
constexpr std::int64_t kMostConcurrency = 100'000;
constexpr double kUsualShareOfConcurrency = 0.7;  // Knative's target utilisation.

std::string ShortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// Fails unless the delay is from `least` to `most` seconds; also for NaN.
Status CheckDelay(std::string_view option, double seconds, double least, double most = kLongestDelay) {
  if (seconds >= least && seconds <= most) return {};
  return InvalidArgument(std::string(option) + " of " + ShortNumber(seconds) + " s is not allowed: expected " +
                         ShortNumber(least) + " s to " + (most == kLongestDelay ? "7 d" : "1 h") + ", such as " +
                         std::string(option) + " 5m");
}

Status CheckCount(std::string_view option, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return InvalidArgument(std::string(option) + " " + std::to_string(value) + " is not allowed: expected " +
                         std::to_string(least) + " to " + std::to_string(most));
}

Status CheckHealthPath(const std::string& path) {
  if (path.empty()) return {};
  const bool is_safe = std::ranges::all_of(path, [](char c) {
    return IsLetterOrDigit(c) || (c >= 'A' && c <= 'Z') ||
           std::string_view("/-._~?=&%+,:@").find(c) != std::string_view::npos;
  });
  if (path.front() == '/' && path.size() <= kLongestPath && is_safe) return {};
  return InvalidArgument("--health " + dialect::Quoted(OneLine(path.substr(0, kLongestPath))) +
                         " is not a path: expected '/' and at most 200 letters, digits and -._~?=&%+,:@/, such as "
                         "--health /healthz");
}

Status CheckTarget(std::string_view option, double value) {
  if (value >= 0 && value <= 1e6) return {};
  return InvalidArgument(std::string(option) + " " + ShortNumber(value) +
                         " is not allowed: expected a number above 0, such as " + std::string(option) + " 4");
}

}  // namespace

Status CheckServiceName(std::string_view name) {
  const bool is_good = !name.empty() && name.size() <= kLongestName && name.front() != '-' && name.back() != '-' &&
                       std::ranges::all_of(name, [](char c) { return IsLetterOrDigit(c) || c == '-'; });
  if (is_good) return {};
  return InvalidArgument("service name " + dialect::Quoted(OneLine(std::string(name.substr(0, kLongestName)))) +
                         " is not allowed: expected 1 to 40 lower-case letters, digits and dashes, without a dash at "
                         "either end, such as chat-7b");
}

Status CheckService(const wire::ServiceSettings& settings) {
  DIVVY_CHECK(CheckServiceName(settings.name));
  if (settings.port != 0) DIVVY_CHECK(CheckCount("--port", settings.port, kLowestServicePort, 65'535));
  const std::int64_t least = settings.min_replicas;
  const std::int64_t most = settings.max_replicas;
  if (least < 0 || most < 1 || least > most || most > kMostReplicas)
    return InvalidArgument("--replicas " + std::to_string(least) + ".." + std::to_string(most) +
                           " is not allowed: expected MIN..MAX with 0 <= MIN <= MAX, and MAX from 1 to " +
                           std::to_string(kMostReplicas) + (least > most ? "; swap them" : ", such as 0..8"));
  DIVVY_CHECK(CheckCount("--concurrency", settings.concurrency, 1, kMostConcurrency));
  DIVVY_CHECK(CheckTarget("--target", settings.target));
  DIVVY_CHECK(CheckTarget("--rps", settings.requests_per_second));
  if (settings.target > 0 && settings.requests_per_second > 0)
    return InvalidArgument(
        "--target and --rps exclude each other: replicas follow the requests in flight, or the "
        "requests per second");
  if (!settings.metric.empty()) {
    if (!wire::IsOwnName(settings.metric))
      return InvalidArgument("--target-metric " +
                             dialect::Quoted(OneLine(settings.metric.substr(0, wire::kMostOwnName))) +
                             " is not allowed: expected 1 to " + std::to_string(wire::kMostOwnName) +
                             " bytes without control characters, such as queue_depth");
    if (settings.requests_per_second > 0)
      return InvalidArgument("--target-metric and --rps exclude each other: replicas follow one of them");
    if (settings.target == 0)
      return InvalidArgument("--target-metric " + dialect::Quoted(settings.metric) +
                             " needs the value for which a replica is enough; add --target VALUE");
  }
  if (settings.metric.empty() && settings.target > static_cast<double>(settings.concurrency))
    return InvalidArgument("--target " + ShortNumber(settings.target) + " is above --concurrency " +
                           std::to_string(settings.concurrency) +
                           ", so no replica would ever have that many requests; lower --target");
  DIVVY_CHECK(CheckHealthPath(settings.health));
  DIVVY_CHECK(CheckDelay("--idle", settings.idle_s, 1));
  DIVVY_CHECK(CheckDelay("--up-delay", settings.up_delay_s, 0));
  DIVVY_CHECK(CheckDelay("--down-delay", settings.down_delay_s, 0));
  DIVVY_CHECK(CheckDelay("--ready-within", settings.ready_within_s, 1));
  DIVVY_CHECK(CheckDelay("--wait", settings.wait_s, 1, kLongestWait));
  DIVVY_CHECK(CheckDelay("--answer-within", settings.answer_within_s, 1));
  DIVVY_CHECK(CheckDelay("--wake-within", settings.wake_within_s, 0));
  return CheckCount("--max-body", settings.max_body_bytes, 0, std::int64_t{1} << 40);
}

Status CheckCanary(double share) {
  if (share == 0 || (share >= 0.01 && share <= 0.99)) return {};
  return InvalidArgument("--canary " + ShortNumber(share * 100) +
                         "% is not allowed: expected 1% to 99%, such as --canary 10%");
}

Status CheckReplicaSpec(const JobSpec& spec) {
  if (spec.array || !spec.parameters.empty())
    return InvalidArgument("a replica is a single job: omit --array and --param, and use --replicas MIN..MAX");
  if (spec.is_foreground || spec.wants_pty || spec.request.is_gang() || spec.request.is_elastic())
    return InvalidArgument(
        "a replica is a job on one node with a fixed number of GPUs: omit --nodes, --pty and ranges "
        "of GPUs");
  if (spec.is_held || spec.begin != kNoTime || spec.end_by != kNoTime || !spec.dependencies.empty())
    return InvalidArgument("replicas start when they are needed: omit --hold, --begin, --deadline and --dependency");
  if (spec.command.empty() && spec.script.empty())
    return InvalidArgument("nothing to run: write the command of a replica behind --, such as -- python serve.py");
  return {};
}

autoscale::Settings ScalingOf(const wire::ServiceSettings& settings) {
  const auto span = [](double seconds) { return Duration(std::llround(seconds * 1e9)); };
  autoscale::Settings scaling;
  scaling.target = settings.requests_per_second > 0 ? settings.requests_per_second
                   : settings.target > 0
                       ? settings.target
                       : std::max(1.0, kUsualShareOfConcurrency * static_cast<double>(settings.concurrency));
  scaling.min = static_cast<int>(settings.min_replicas);
  scaling.max = static_cast<int>(settings.max_replicas);
  scaling.up_delay = span(settings.up_delay_s);
  scaling.down_delay = span(settings.down_delay_s);
  scaling.zero_after = span(settings.idle_s);
  return scaling;
}

}  // namespace divvy
