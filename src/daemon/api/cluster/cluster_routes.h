// Routes for the daemon's status and shutdown, for GPUs, and for runs that were found on nodes and are not in the
// store.
#pragma once

#include <string>
#include <vector>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ClusterRoutes {
 public:
  ClusterRoutes(ApiContext& api, RouteTable& table);

 private:
  void DaemonStatus(ApiCall& call);
  void Shutdown(ApiCall& call);
  void Gpus(ApiCall& call);
  void Restrict(ApiCall& call);
  void Ignore(ApiCall& call);
  void IgnoreRules(ApiCall& call);
  void FoundRuns(ApiCall& call);
  void ChangeFound(ApiCall& call);
  std::vector<std::string> FoundWarnings() const;

  ControllerDriver& driver_;
  Node& node_;
  const About& about_;
  const ApiPorts& ports_;
};

}  // namespace divvy
