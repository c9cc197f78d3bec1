#include "daemon/services/service_metrics.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/services/haproxy_config.h"

namespace divvy {
namespace {

using wire::Exposition;
using Kind = Exposition::Kind;

void AddTimes(Exposition& out, const ServiceHost& host, const std::vector<wire::ServiceView>& services) {
  std::vector<double> bounds;
  for (int octave = ServiceTimes::kFirstOctave; octave <= ServiceTimes::kLastOctave; ++octave)
    bounds.push_back(static_cast<double>(std::int64_t{1} << octave) / 1000);
  out.Begin("divvy_service_request_seconds", Kind::kHistogram, "seconds",
            "From the first byte of a request to the last of its answer by a replica.");
  for (const wire::ServiceView& view : services) {
    const ServiceTimes* times = host.TimesOf(view.name);
    if (times == nullptr) continue;
    std::vector<std::uint64_t> counts;
    std::uint64_t below = 0;
    for (int octave = ServiceTimes::kFirstOctave; octave <= ServiceTimes::kLastOctave; ++octave) {
      const std::uint64_t all = times->all().CountBelow(octave);
      counts.push_back(all - std::exchange(below, all));
    }
    counts.push_back(times->all().count() - below);
    out.AddHistogram({{"service", view.name}}, bounds, counts, times->all_seconds());
  }
  out.Begin("divvy_service_latency_quantile_seconds", Kind::kGauge, "seconds",
            "Time within which this share of the last five minutes' requests was answered.");
  for (const wire::ServiceView& view : services) {
    const std::pair<const char*, std::optional<double>> quantiles[] = {
        {"0.5", view.latency_p50_s}, {"0.95", view.latency_p95_s}, {"0.99", view.latency_p99_s}};
    for (const auto& [share, seconds] : quantiles) {
      if (seconds) out.Add({{"service", view.name}, {"quantile", share}}, *seconds);
    }
  }
  out.Begin("divvy_service_gpu_seconds", Kind::kCounter, "seconds", "GPU time that its replicas have held.");
  for (const wire::ServiceView& view : services) {
    if (const ServiceTimes* times = host.TimesOf(view.name)) out.Add({{"service", view.name}}, times->gpu_seconds());
  }
  out.Begin("divvy_service_cost", Kind::kCounter, "", "The cost of that time, by the configured prices.");
  for (const wire::ServiceView& view : services) {
    const ServiceTimes* times = host.TimesOf(view.name);
    if (times != nullptr && view.cost_per_hour) out.Add({{"service", view.name}}, times->cost());
  }
  out.Begin("divvy_service_used_gpus", Kind::kGauge, "", "GPUs that its replicas have used, over the last minute.");
  for (const wire::ServiceView& view : services) {
    if (view.gpus_used) out.Add({{"service", view.name}}, *view.gpus_used);
  }
}

}  // namespace

void AddServices(wire::Exposition& out, const ServiceHost& host) {
  const std::vector<wire::ServiceView> services = host.List();
  using View = wire::ServiceView;
  out.Begin("divvy_service_replicas", Kind::kGauge, "", "Replicas of a service by state.");
  for (const View& view : services) {
    const std::pair<const char*, std::int64_t> states[] = {
        {"hot", view.hot}, {"starting", view.starting}, {"parked", view.parked}, {"draining", view.draining}};
    for (const auto& [state, count] : states)
      out.Add({{"service", view.name}, {"state", state}}, static_cast<double>(count));
  }
  const auto add = [&](std::string_view name, Kind kind, std::string_view unit, std::string_view help, auto value) {
    out.Begin(name, kind, unit, help);
    const std::string_view label = name.starts_with("haproxy_") ? "proxy" : "service";
    for (const View& view : services)
      out.Add({{label, label == "proxy" ? BackendOf(view.name) : view.name}}, static_cast<double>(value(view)));
  };
  add("divvy_service_last_wake_seconds", Kind::kGauge, "seconds", "How long its last parked replica took to wake.",
      [](const View& view) { return view.last_wake_s; });
  add("divvy_service_has_problem", Kind::kGauge, "", "1: divvy serve show reports a problem.",
      [](const View& view) { return view.note.empty() ? 0 : 1; });
  AddTimes(out, host, services);
  add("haproxy_backend_current_sessions", Kind::kGauge, "", "Requests in flight, with those that wait.",
      [](const View& view) { return view.in_flight; });
  add("haproxy_backend_current_queue", Kind::kGauge, "", "Requests that wait for a replica.",
      [](const View& view) { return view.queued; });
  add("haproxy_backend_sessions", Kind::kCounter, "", "Requests since the front's last start.",
      [](const View& view) { return view.requests; });
  add("haproxy_backend_queue_time_average_seconds", Kind::kGauge, "seconds",
      "Mean time in the queue of the last 1,024 requests.", [](const View& view) { return view.queue_time_s; });
  add("haproxy_backend_response_time_average_seconds", Kind::kGauge, "seconds",
      "Mean time until the answer of the last 1,024 requests.", [](const View& view) { return view.answer_time_s; });
}

}  // namespace divvy
