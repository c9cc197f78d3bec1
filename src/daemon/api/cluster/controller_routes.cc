#include "daemon/api/cluster/controller_routes.h"

#include <algorithm>
#include <memory>

#include "daemon/leadership/leader_answers.h"
#include "version.h"
#include "wire/messages/messages_remote.h"
#include "wire/messages/messages_teams.h"

namespace divvy {

ControllerRoutes::ControllerRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/controllers", &ControllerRoutes::Controllers},
                   {"POST", "/v1/controllers/step-down", &ControllerRoutes::StepDown}});
}

void ControllerRoutes::Controllers(ApiCall& call) {
  if (ports_.leadership) return call.Answer(ControllerViewsOf(*ports_.leadership));
  wire::ControllerView alone;
  alone.name = OwnNodeName(ports_);
  if (ports_.remote->address.port != 0) alone.address = ToString(ports_.remote->address);
  alone.version = kVersion;
  alone.role = "leader";
  call.Answer(std::vector{alone});
}

// The answer is sent before the lease is given back: that takes up to a second.
void ControllerRoutes::StepDown(ApiCall& call) {
  if (!call.caller.is_admin) {
    return call.Refuse(PermissionDenied("making the controller step down takes an administrator; " +
                                        call.caller.user.name + " is not one"));
  }
  const auto controllers =
      ports_.leadership ? ControllerViewsOf(*ports_.leadership) : std::vector<wire::ControllerView>();
  const auto successor = std::ranges::find(controllers, "standby", &wire::ControllerView::role);
  if (successor == controllers.end()) {
    return call.Refuse(FailedPrecondition(
        "this controller cannot step down: no standby reports to the database; divvy controllers lists all"));
  }
  driver_.AfterCommit(
      [call = std::make_shared<ApiCall>(std::move(call)), leadership = ports_.leadership](const Status& committed) {
        if (!committed) return call->Refuse(committed.error());
        call->Answer(
            wire::MessageAnswer{"controller " + leadership->self().name + " steps down; a standby takes over"});
        leadership->StepDown();
      },
      ControllerDriver::IfNotStored::kRefuse);
}

}  // namespace divvy
