// Routes for hyperparameter sweeps: they list sweeps, show one with its trials, and take parameters that an external
// optimiser chooses. A sweep is a job array, and is submitted and cancelled as such.
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
  /// Returns the sweep that the request's path names. If there is none, refuses the call and returns null.
  const Sweep* Find(ApiCall& call) const;

  ApiContext& api_;
  ControllerDriver& driver_;
};

}  // namespace divvy
