// Routes for waste: the jobs that waste GPUs now, and the GPU time that was lost over a period.
#pragma once

#include <vector>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

namespace samples {
struct JobUse;
}
namespace wire {
struct WasteAnswer;
struct WasteFinding;
}  // namespace wire

class WasteRoutes {
 public:
  WasteRoutes(ApiContext& api, RouteTable& table);

 private:
  void Waste(ApiCall& call);
  void JobWaste(ApiCall& call);
  void WasteReport(ApiCall& call);
  void Efficiency(ApiCall& call);
  void AnswerWaste(ApiCall& call, const JobRecord& record, const samples::JobUse& use,
                   std::vector<wire::WasteFinding> findings);
  wire::WasteAnswer WasteNow() const;

  ApiContext& api_;
  ControllerDriver& driver_;
  const ApiPorts& ports_;
};

}  // namespace divvy
