#include "daemon/api/routes.h"

#include "daemon/api/call/ui_auth.h"
#include "daemon/api/cluster/cluster_routes.h"
#include "daemon/api/cluster/controller_routes.h"
#include "daemon/api/cluster/node_routes.h"
#include "daemon/api/cluster/provider_routes.h"
#include "daemon/api/cluster/reservation_routes.h"
#include "daemon/api/cluster/team_routes.h"
#include "daemon/api/cluster/token_routes.h"
#include "daemon/api/jobs/fraction_routes.h"
#include "daemon/api/jobs/job_action_routes.h"
#include "daemon/api/jobs/job_detail_routes.h"
#include "daemon/api/jobs/job_list_routes.h"
#include "daemon/api/jobs/service_routes.h"
#include "daemon/api/jobs/submit_routes.h"
#include "daemon/api/jobs/sweep_routes.h"
#include "daemon/api/jobs/terminal_routes.h"
#include "daemon/api/openapi_document.h"
#include "daemon/api/reports/report_routes.h"
#include "daemon/api/reports/sample_routes.h"
#include "daemon/api/reports/waste_routes.h"
#include "daemon/api/ui/mcp_routes.h"
#include "daemon/api/ui/notify_routes.h"
#include "daemon/api/ui/page_routes.h"
#include "daemon/api/ui/submit_form_routes.h"
#include "daemon/services/service_host.h"
#include "daemon/services/service_metrics.h"

namespace divvy {

struct Routes::Owners {
  ApiContext& api;
  RouteTable& table;
  McpRoutes::Ports as_caller;
  const Peer* peer = nullptr;  // The client of the request that is being handled.
  TerminalRoutes terminals{api, table};
  SubmitRoutes submit{api, table, terminals};
  JobActionRoutes actions{api, table};
  SweepRoutes sweeps{api, table};
  ServiceRoutes services{api, table, submit};
  JobListRoutes list{api, table};
  JobDetailRoutes detail{api, table};
  FractionRoutes fractions{api, table};
  ClusterRoutes cluster{api, table};
  NodeRoutes nodes{api, table};
  TeamRoutes teams{api, table};
  ProviderRoutes providers{api, table};
  ReservationRoutes reservations{api, table};
  TokenRoutes tokens{api, table};
  ControllerRoutes controllers{api, table};
  ReportRoutes reports{api, table};
  WasteRoutes waste{api, table};
  SampleRoutes samples{api, table};
  PageRoutes page{api, table};
  SubmitFormRoutes form{api, table};
  McpRoutes mcp{api, table, form, as_caller};
  NotifyRoutes notify{api, table};
};

Routes::Routes(ControllerDriver& driver, Node& node, About about, Admins admins, ApiPorts ports)
    : api_{driver, node, std::move(about), std::move(ports), std::move(admins)},
      owners_(new Owners{api_,
                         table_,
                         {[this] { return *owners_->peer; },
                          [this](const Peer& peer, HttpRequest&& request, Reply reply) {
                            Handle(peer, std::move(request), std::move(reply));
                          }}}) {
  table_.Add(this, {{"GET", "/v1/openapi.json", &Routes::OpenApi}});
}

Routes::~Routes() = default;

void Routes::Handle(const Peer& peer, HttpRequest&& request, Reply reply) {
  RouteTable::Match found = table_.Find(request.method, request.path);
  const Touches touches = found.route == nullptr ? Touches::kNothing : found.route->touches();
  auto caller = api_.callers.Identify(peer, request, touches);
  ApiCall call{caller ? *caller : Caller(), std::move(request), std::move(reply), std::move(found.argument),
               peer.address};
  call.is_on_node = !peer.node.empty();
  call.is_plain = peer.is_plain;
  call.is_at_page = peer.is_remote() && UiAuth::IsFromPage(call.request);
  if (call.is_on_node) call.address = "node " + peer.node;
  const bool is_change = touches == Touches::kSomething;
  // A read-only user of the page stays logged in when a change is refused.
  if (!caller && call.is_at_page && is_change) {
    if (auto viewer = api_.callers.Identify(peer, call.request, Touches::kNothing)) {
      call.caller = *std::move(viewer);
      call.refusals = api_.ports.audit.get();
      call.clock = &api_.driver.clock();
      return call.Refuse(caller.error());
    }
  }
  if (!caller) return TurnAway(call, caller.error());
  if (age_) call.age = age_();
  call.refusals = api_.ports.audit.get();
  call.clock = &api_.driver.clock();
  if (is_change && found.route->kind != RouteKind::kOwnJob) call.audit = api_.ports.audit.get();
  call.privacy = JobPrivacy(*caller, api_.ports.hides_others_jobs);
  const auto by = call.request.query.find("by");
  if (call.privacy.hides_others() && by != call.request.query.end() && (by->second == "name" || by->second == "job"))
    return call.Refuse(PermissionDenied("reports by " + by->second + " are for administrators here: jobs are private"));
  if (!caller->is_admin) {
    const std::shared_ptr<void> ticket = api_.loads.Begin(caller->user.uid);
    if (!ticket) {
      return call.Refuse(LimitExceeded("you have " + std::to_string(UserLoads::kMostInFlight) +
                                       " requests that are not answered yet, which is the limit of a user"));
    }
    call.reply.Keep(ticket);
  }
  if (found.route != nullptr && found.route->kind == RouteKind::kChange && is_change) {
    if (api_.driver.IsStoreAway()) return HoldChange(*found.route, std::move(call));
  }
  if (found.route != nullptr) {
    owners_->peer = &peer;
    return found.route->handler(call);
  }
  if (found.knows_path)
    return call.Send(405, wire::Encode(wire::ErrorView{"invalid_argument",
                                                       call.request.path + " does not take " + call.request.method}));
  call.Refuse(NotFound("there is no " + call.request.method + " " + call.request.path +
                       "; GET /v1/openapi.json lists what there is"));
}

// A change must not be applied before it can be stored: then it can still be refused.
void Routes::HoldChange(const RouteTable::Route& route, ApiCall call) {
  api_.driver.WhenStoreAnswers(
      [&route, call = std::make_shared<ApiCall>(std::move(call))](const Status& answers) mutable {
        if (!call->reply.is_open()) return;
        if (!answers) return call->Refuse(answers.error());
        call->age.clear();
        route.handler(*call);
      });
}

// Closes the connection of a caller without a valid token.
void Routes::TurnAway(ApiCall& call, const Error& error) {
  if (api_.ports.audit)
    api_.ports.audit->Write(
        {api_.driver.Now(), "", -1, call.address, call.request.method, call.request.path, "", 401, error.message});
  HttpResponse response;
  response.status = 401;
  response.body = wire::Encode(ErrorViewOf(error));
  response.ends_connection = true;
  Reply(call.reply).Answer(response);
}

void Routes::OpenApi(ApiCall& call) { call.Send(200, OpenApiDocument()); }

void Routes::OnSecond() { owners_->samples.OnSecond(); }

bool Routes::is_watched() const { return owners_->samples.is_watched(); }

void Routes::ParkTenant(const JobRecord& record, std::function<void(const Status&)> done) {
  ActOnTenant(record, "park", std::move(done));
}

void Routes::ActOnTenant(const JobRecord& record, const std::string& action, std::function<void(const Status&)> done) {
  owners_->fractions.ActOnTenant(record, action, {}, std::move(done));
}

void Routes::SetServices(std::shared_ptr<ServiceHost> services) {
  owners_->samples.SetOtherMetrics([services](wire::Exposition& out) { AddServices(out, *services); });
  owners_->detail.SetServices(services);
  owners_->services.Set(std::move(services));
}

Caller Routes::CallerOf(const User& user) {
  return {user, api_.admins.Contains(user, api_.driver.Now()), api_.callers.GroupsOf(user)};
}

}  // namespace divvy
