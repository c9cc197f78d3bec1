#include "daemon/services/service_metrics.h"

#include "daemon/services/haproxy_config.h"

namespace divvy {

void AddServices(wire::Exposition& out, const std::vector<wire::ServiceView>& services) {
  using wire::Exposition;
  using View = wire::ServiceView;
  using Kind = Exposition::Kind;
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
