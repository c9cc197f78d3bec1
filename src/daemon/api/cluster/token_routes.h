// Routes for tokens, with which users on other machines authenticate.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class TokenRoutes {
 public:
  TokenRoutes(ApiContext& api, RouteTable& table);

 private:
  void Tokens(ApiCall& call);
  void CreateToken(ApiCall& call);
  void RemoveToken(ApiCall& call);

  ControllerDriver& driver_;
  RemoteAccess& remote_;
};

}  // namespace divvy
