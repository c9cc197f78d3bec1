// Routes for usage samples: the present ones, past ones, a stream of them, and metrics for scrapers; and the stream of
// events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

namespace wire {
class Exposition;
struct LatestAnswer;
}  // namespace wire

class SampleRoutes {
 public:
  SampleRoutes(ApiContext& api, RouteTable& table);

  /// Sets a function that adds metrics of other components to GET /metrics (MetricsAbout::add_others).
  void SetOtherMetrics(std::function<void(wire::Exposition&)> add) { add_others_ = std::move(add); }
  /// Call when the samples of another second have arrived: sends them to clients that watch.
  void OnSecond();
  /// Returns true while a client watches samples.
  bool is_watched() const;

 private:
  void Latest(ApiCall& call);
  void Series(ApiCall& call);
  void Events(ApiCall& call);
  void Metrics(ApiCall& call);
  void AddOwnMetrics(ApiCall& call);
  wire::LatestAnswer LatestFor(const Caller& caller) const;

  struct Watcher {
    Caller caller;
    Reply reply;
  };

  ControllerDriver& driver_;
  const ApiPorts& ports_;
  std::function<void(wire::Exposition&)> add_others_;
  std::map<std::uint64_t, Watcher> watchers_;  // Clients that watch samples, by subscription.
  Time latest_asked_ = kNoTime;                // The time of the last request for the latest samples.
};

}  // namespace divvy
