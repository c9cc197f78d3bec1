// Routes for the submit form of the web page: they return the form for resubmitting a job, parse a script or a
// valohai.yaml, and return the equivalent command line. The form itself is submitted with POST /v1/jobs.
#pragma once

#include <functional>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

namespace dialect {
struct ParseContext;
}

class SubmitFormRoutes {
 public:
  SubmitFormRoutes(ApiContext& api, RouteTable& table);

  /// Returns a function that makes the caller's context: home and login, as far as the daemon knows them, and the
  /// present time. It may be called once or more on any thread, because it may ask a directory service.
  std::function<dialect::ParseContext()> ContextOf(const ApiCall& call) const;

 private:
  void Again(ApiCall& call);
  void Words(ApiCall& call);
  void Script(ApiCall& call);
  void Valohai(ApiCall& call);

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
