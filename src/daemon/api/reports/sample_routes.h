// Usage samples: present, past, and as a stream; and the stream of changes.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

namespace wire {
struct LatestAnswer;
}

class SampleRoutes {
 public:
  SampleRoutes(ApiContext& api, RouteTable& table);

  /// The samples of another second have arrived.
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
  std::map<std::uint64_t, Watcher> watchers_;  // Clients that watch samples, by subscription.
  Time latest_asked_ = kNoTime;                // The time of the last request for the latest samples.
};

}  // namespace divvy
