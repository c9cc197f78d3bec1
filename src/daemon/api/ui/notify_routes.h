// Routes for receivers of notifications: those of the user, and for administrators also those of divvy.toml.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class NotifyRoutes {
 public:
  NotifyRoutes(ApiContext& api, RouteTable& table);

 private:
  void Notify(ApiCall& call);
  void AddReceiver(ApiCall& call);
  void RemoveReceiver(ApiCall& call);
  void TestReceiver(ApiCall& call);

  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
