// Routes for jobs with GPU fractions: changing the sizes of fractions; parking, waking and moving such jobs (tenants).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/route_table.h"

namespace divvy {

namespace wire {
struct KeptTenant;
}

class FractionRoutes {
 public:
  FractionRoutes(ApiContext& api, RouteTable& table);

  /// Performs `action` on a running tenant, on whichever node it runs: "park", "wake", "move" to the GPUs `to`, or
  /// "resize" to the planned size. `done` gets the result when the node confirms it.
  void ActOnTenant(const JobRecord& record, const std::string& action, const std::vector<int>& to,
                   std::function<void(const Status&)> done);

 private:
  struct PortionAct;

  void ResizePortions(ApiCall& call);
  void Park(ApiCall& call);
  void Wake(ApiCall& call);
  void MovePortions(ApiCall& call);
  void SettlePortions(const std::shared_ptr<ApiCall>& call, const std::shared_ptr<PortionAct>& act);
  void ActOnPortions(ApiCall& call, const std::string& action);
  /// Returns the state of the job on its GPUs; null while its GPU memory is parked on the host, or is being moved.
  const wire::KeptTenant* FindOnGpu(const JobRecord& record) const;
  /// Returns true if the job is on exactly these GPUs, in this order.
  bool IsThere(const JobRecord& record, const std::vector<int>& to) const;

  ControllerDriver& driver_;
  const ApiPorts& ports_;
  LabelCache& labels_;
};

}  // namespace divvy
