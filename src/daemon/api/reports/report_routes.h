// Routes for reports: usage, fairness and shares, computed from the store's history on another thread; and what the
// scheduler has learned from that history (run times, speeds).
#pragma once

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

class ReportRoutes {
 public:
  ReportRoutes(ApiContext& api, RouteTable& table);

 private:
  void Predictions(ApiCall& call);
  void Speeds(ApiCall& call);
  void Usage(ApiCall& call);
  void Fairness(ApiCall& call);
  void Shares(ApiCall& call);

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
