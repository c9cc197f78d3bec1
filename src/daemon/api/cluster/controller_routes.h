// Routes that list the controllers of a cluster, of which one leads, and let the leader step down.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ControllerRoutes {
 public:
  ControllerRoutes(ApiContext& api, RouteTable& table);

 private:
  void Controllers(ApiCall& call);
  void StepDown(ApiCall& call);

  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
