// Routes for providers of nodes (such as clouds), for administrators.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ProviderRoutes {
 public:
  ProviderRoutes(ApiContext& api, RouteTable& table);

 private:
  void List(ApiCall& call);
  void Act(ApiCall& call);

  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
