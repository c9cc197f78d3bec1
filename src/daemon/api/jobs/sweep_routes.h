// Sweeps: lists, one with its trials, and parameters that an optimiser chooses. A sweep is submitted and cancelled as
// the array that it is.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class SweepRoutes {
 public:
  SweepRoutes(ApiContext& api, RouteTable& table);

 private:
  void List(ApiCall& call);
  void Show(ApiCall& call);
  void Tell(ApiCall& call);
  bool MaySeeSweep(const Caller& caller, const Sweep& sweep) const;
  /// The sweep that the path names; refuses the call if there is none.
  const Sweep* Find(ApiCall& call) const;

  ApiContext& api_;
  ControllerDriver& driver_;
};

}  // namespace divvy
