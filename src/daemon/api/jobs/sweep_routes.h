// Routes for hyperparameter sweeps: they list sweeps, show one with its trials, and take parameters that an external
// optimiser chooses. A sweep is a job array, and is submitted and cancelled as such.
#pragma once

#include <string>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

/// Returns what is wrong with a sweep or one of its trials, or why the trial was stopped or paused. Empty if there is
/// nothing to tell, for other jobs, and if the caller may not see the sweep's numbers. Cost: O(trials) for a sweep.
std::string SweepNoteOf(const Controller& controller, const Caller& caller, JobId job);

class SweepRoutes {
 public:
  SweepRoutes(ApiContext& api, RouteTable& table);

 private:
  void List(ApiCall& call);
  void Show(ApiCall& call);
  void Tell(ApiCall& call);
  /// Returns the sweep that the request's path names. If there is none, refuses the call and returns null.
  const Sweep* Find(ApiCall& call) const;

  ApiContext& api_;
  ControllerDriver& driver_;
};

}  // namespace divvy
