// Routes for teams: their members and usage, and changes by administrators.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class TeamRoutes {
 public:
  TeamRoutes(ApiContext& api, RouteTable& table);

 private:
  void Teams(ApiCall& call);
  void SetTeam(ApiCall& call);
  void RemoveTeam(ApiCall& call);
  void SetTeamUser(ApiCall& call);
  void SetQuotas(ApiCall& call);

  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
