#include "engine/autoscale/autoscaler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace divvy::autoscale {
namespace {

constexpr int kMostReplicas = 10'000;

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string Seconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

}  // namespace

Status CheckSettings(const Settings& settings) {
  if (!(settings.target > 0) || !std::isfinite(settings.target))
    return InvalidArgument("the target " + Short(settings.target) +
                           " per replica is not allowed: use a number above 0, such as --concurrency 4");
  if (settings.min < 0 || settings.max < 1 || settings.max > kMostReplicas || settings.min > settings.max)
    return InvalidArgument("replicas " + std::to_string(settings.min) + ".." + std::to_string(settings.max) +
                           " are not allowed: use MIN..MAX with 0 <= MIN <= MAX <= " + std::to_string(kMostReplicas) +
                           ", such as --replicas 0..8");
  if (settings.panic_window <= Duration(0) || settings.stable_window < settings.panic_window)
    return InvalidArgument("the panic window of " + Seconds(settings.panic_window) +
                           " must be above 0 and at most the stable window of " + Seconds(settings.stable_window));
  if (!(settings.panic_threshold > 1) || !(settings.max_up > 1) || !(settings.max_down > 1))
    return InvalidArgument("panic threshold, max up and max down must be above 1");
  if (settings.up_delay < Duration(0) || settings.down_delay < Duration(0) || settings.zero_after < Duration(0))
    return InvalidArgument("delays must not be negative");
  if (!(settings.tolerance >= 0 && settings.tolerance < 1))
    return InvalidArgument("the tolerance must be from 0 to below 1");
  return {};
}

double Autoscaler::MeanOver(Duration window, Time now) const {
  double sum = 0;
  int count = 0;
  for (auto at = loads_.rbegin(); at != loads_.rend() && at->at > now - window; ++at) {
    sum += at->load;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

int Autoscaler::ReplicasFor(double load) const {
  if (!(load > 0)) return 0;
  const double need = std::ceil(load / settings_.target - settings_.tolerance);
  return static_cast<int>(std::clamp<double>(need, 1, kMostReplicas));
}

Decision Autoscaler::Observe(const Observation& seen) {
  const Time now = seen.at;
  const int present = seen.ready + seen.starting;
  Decision decision{present, now < panics_until_, ""};
  if (!seen.load || !(*seen.load >= 0) || !std::isfinite(*seen.load)) return decision;
  if (*seen.load > 0 || loaded_at_ == kNoTime) loaded_at_ = now;
  loads_.push_back({now, *seen.load});
  while (loads_.front().at <= now - settings_.stable_window) loads_.pop_front();

  const double stable_load = MeanOver(settings_.stable_window, now);
  const double panic_load = MeanOver(settings_.panic_window, now);
  const int ready = std::max(seen.ready, 1);
  const int most = static_cast<int>(std::min<double>(std::ceil(settings_.max_up * ready), kMostReplicas));
  const int least = static_cast<int>(std::floor(seen.ready / settings_.max_down));
  const int stable = std::clamp(ReplicasFor(stable_load), std::min(least, most), most);
  const int burst = std::min(ReplicasFor(panic_load), most);

  if (burst >= settings_.panic_threshold * ready) {
    if (now >= panics_until_) panic_replicas_ = 0;
    panics_until_ = now + settings_.stable_window;
  }
  decision.is_panicking = now < panics_until_;
  int wanted = stable;
  if (decision.is_panicking) {
    // The largest number of replicas that was needed since the burst of load began (panic).
    panic_replicas_ = std::max({panic_replicas_, burst, stable, std::min(present, settings_.max)});
    wanted = panic_replicas_;
  }

  // Zero replicas are chosen only after the service was idle for some time, since the next request then waits until one
  // has started.
  const bool is_idle = settings_.min == 0 && now - loaded_at_ >= settings_.zero_after;
  if (present > 0 && !is_idle) wanted = std::max(wanted, 1);
  if (present == 0 && *seen.load > 0) wanted = std::max(wanted, 1);
  if (is_idle && present > 1) wanted = std::max(wanted, 1);  // From one replica only.
  const bool is_least = wanted < settings_.min;
  wanted = std::clamp(wanted, settings_.min, settings_.max);

  // The replicas that are present at first were wanted until then: the autoscaler of a new controller must not shrink
  // at once.
  if (wanted_.empty()) wanted_.push_back({now, std::min(present, settings_.max)});
  wanted_.push_back({now, wanted});
  while (wanted_.size() > 1 && wanted_.front().at <= now - settings_.down_delay) wanted_.pop_front();
  if (wanted > present) {
    more_since_ = std::min(more_since_, now);
    const bool is_due =
        decision.is_panicking || present == 0 || present < settings_.min || now - more_since_ >= settings_.up_delay;
    if (is_due) decision.replicas = wanted;
  } else {
    more_since_ = kNever;
    const int recent = std::ranges::max(wanted_, {}, &Wanted::replicas).replicas;
    const bool stops_last = wanted == 0 && is_idle;  // It has waited for zero_after already.
    decision.replicas = present > settings_.max ? settings_.max : stops_last ? 0 : std::min(present, recent);
  }
  if (decision.replicas != present) {
    const Duration window = decision.is_panicking ? settings_.panic_window : settings_.stable_window;
    decision.reason = std::to_string(present) + " -> " + std::to_string(decision.replicas) + ": ";
    if (is_least && decision.replicas > present) decision.reason += "at least " + std::to_string(settings_.min);
    else
      decision.reason += "load " + Short(decision.is_panicking ? panic_load : stable_load) + " over " +
                         Seconds(window) + ", target " + Short(settings_.target);
  }
  return decision;
}

}  // namespace divvy::autoscale
