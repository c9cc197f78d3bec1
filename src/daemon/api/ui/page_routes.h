// The parts of the API that only the web page uses: login links, the identity of a logged-in browser, events, and
// estimated starts.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "daemon/views/start_estimate_cache.h"

namespace divvy {

class PageRoutes {
 public:
  PageRoutes(ApiContext& api, RouteTable& table);

 private:
  void UiLink(ApiCall& call);
  void UiMe(ApiCall& call);
  void LatestHistory(ApiCall& call);
  void Starts(ApiCall& call);

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
  StartEstimateCache starts_;
};

}  // namespace divvy
