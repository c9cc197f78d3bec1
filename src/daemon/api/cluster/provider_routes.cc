#include "daemon/api/cluster/provider_routes.h"

#include "daemon/providers/provider_host.h"

namespace divvy {

ProviderRoutes::ProviderRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/providers", &ProviderRoutes::List}, {"POST", "/v1/providers", &ProviderRoutes::Act}});
}

// Errors of a provider's program may name accounts and addresses, so only administrators see them. The reason why a
// node is returned (`why`) never has the text of a program.
void ProviderRoutes::List(ApiCall& call) {
  std::vector<wire::ProviderView> views;
  if (ports_.providers) views = ports_.providers->Views(driver_.Now());
  for (wire::ProviderView& view : views) {
    if (call.caller.is_admin) break;
    if (!view.last_error.empty()) view.last_error = "shown to administrators only";
    for (wire::ProviderNodeView& node : view.list) node.instance.clear();
  }
  call.Answer(views);
}

void ProviderRoutes::Act(ApiCall& call) {
  const auto request = wire::Decode<wire::ProviderRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  if (!call.caller.is_admin)
    return call.Refuse(
        PermissionDenied("changing a provider takes an administrator; " + call.caller.user.name + " is not one"));
  if (!ports_.providers) return call.Refuse(NotFound("there are no providers"));
  AnswerMessage(driver_, call, ports_.providers->Act(request->name, request->action));
}

}  // namespace divvy
