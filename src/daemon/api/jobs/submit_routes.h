// Routes that submit jobs, arrays and sweeps, and forecast when they would start.
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"
#include "daemon/api/jobs/terminal_routes.h"
#include "wire/messages/messages.h"

namespace divvy {

class SubmitRoutes {
 public:
  SubmitRoutes(ApiContext& api, RouteTable& table, TerminalRoutes& terminals);

  /// Adds what only the daemon knows to a caller's specification, and checks it. Does not sort the environment.
  Status CompleteSpec(const ApiCall& call, JobSpec& spec) const;

 private:
  void Submit(ApiCall& call);
  /// Submits now, or as soon as the limit on the user's submissions per second allows it (UserLoads).
  void TakeSubmission(ApiCall& call);
  /// Answers a repeated submission, whose key is that of an earlier one, with the earlier job.
  void AnswerAgain(ApiCall& call, JobId job, std::int64_t count);
  void AnswerForecast(ApiCall& call, JobSpec spec, std::uint64_t elements, wire::SubmitAnswer answer);

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
  TerminalRoutes& terminals_;
};

}  // namespace divvy
