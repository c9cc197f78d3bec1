#include "daemon/api/jobs/service_routes.h"

#include <algorithm>
#include <utility>

#include "daemon/services/service_checks.h"
#include "daemon/services/service_host.h"

namespace divvy {
namespace {

// Notes and events name files of the service's owner.
void Conceal(const JobPrivacy& privacy, wire::ServiceView& view) {
  view.note = privacy.Reason(view.user, std::move(view.note));
}

}  // namespace

ServiceRoutes::ServiceRoutes(ApiContext& api, RouteTable& table, const SubmitRoutes& submit)
    : api_(api), driver_(api.driver), submit_(submit) {
  table.Add(this, {{"GET", "/v1/services", &ServiceRoutes::List},
                   {"POST", "/v1/services", &ServiceRoutes::Create},
                   {"GET", "/v1/services/*", &ServiceRoutes::Show},
                   {"POST", "/v1/services/*", &ServiceRoutes::Update},
                   {"GET", "/v1/services/*/definition", &ServiceRoutes::Definition},
                   {"POST", "/v1/services/*/scale", &ServiceRoutes::Scale},
                   {"POST", "/v1/services/*/promote", &ServiceRoutes::Promote},
                   {"POST", "/v1/services/*/rollback", &ServiceRoutes::RollBack},
                   {"POST", "/v1/services/*/delete", &ServiceRoutes::Delete}});
}

ServiceHost* ServiceRoutes::Find(ApiCall& call) const {
  if (!services_) {
    call.Refuse(FailedPrecondition("this controller has no services"));
    return nullptr;
  }
  if (!call.argument.empty() && call.privacy.hides_others() &&
      !call.privacy.IsShown(services_->OwnerOf(call.argument))) {
    call.Refuse(services_->NotThere(call.argument));
    return nullptr;
  }
  return services_.get();
}

void ServiceRoutes::List(ApiCall& call) {
  const ServiceHost* host = Find(call);
  if (host == nullptr) return;
  std::vector<wire::ServiceView> views = host->List();
  if (call.privacy.hides_others())
    std::erase_if(views, [&](const wire::ServiceView& view) { return !call.privacy.IsShown(view.user); });
  for (wire::ServiceView& view : views) Conceal(call.privacy, view);
  call.Answer(views);
}

void ServiceRoutes::Show(ApiCall& call) {
  const ServiceHost* host = Find(call);
  if (host == nullptr) return;
  auto view = host->Show(call.argument, call.caller);
  if (!view) return call.Refuse(view.error());
  Conceal(call.privacy, *view);
  for (wire::ServiceReplicaView& replica : view->replicas)
    replica.note = call.privacy.Reason(view->user, std::move(replica.note));
  for (wire::ServiceRevisionView& revision : view->revisions)
    revision.note = call.privacy.Reason(view->user, std::move(revision.note));
  for (wire::ServiceEvent& event : view->events) event.text = call.privacy.Reason(view->user, std::move(event.text));
  call.Answer(*view);
}

void ServiceRoutes::Definition(ApiCall& call) {
  const ServiceHost* host = Find(call);
  if (host == nullptr) return;
  const auto definition = host->DefinitionOf(call.argument, call.caller);
  if (!definition) return call.Refuse(definition.error());
  call.Answer(*definition);
}

Result<wire::ServiceDefinition> ServiceRoutes::Read(ApiCall& call, const Caller& owner) const {
  if (!driver_.trouble().empty()) return LimitExceeded("no new work is taken: " + driver_.trouble());
  DIVVY_TRY(auto definition, wire::Decode<wire::ServiceDefinition>(call.request.body));
  JobSpec& spec = definition.spec;
  DIVVY_CHECK(CheckReplicaSpec(spec));
  Caller asks = std::exchange(call.caller, owner);
  const Status complete = submit_.CompleteSpec(call, spec);
  call.caller = std::move(asks);
  DIVVY_CHECK(complete);
  std::ranges::sort(spec.capture.environment);
  if (spec.grace < Duration(0)) spec.grace = api_.ports.default_grace;
  JobSpec replica = spec;
  replica.name = "replica";
  DIVVY_CHECK(driver_.controller().Foresee(std::move(replica), 0, owner, driver_.Now(), driver_.Outcomes()));
  return definition;
}

void ServiceRoutes::Create(ApiCall& call) {
  ServiceHost* host = Find(call);
  if (host == nullptr) return;
  auto definition = Read(call, call.caller);
  if (!definition) return call.Refuse(definition.error());
  AnswerMessage(driver_, call, host->Create(*std::move(definition), call.caller));
}

void ServiceRoutes::Update(ApiCall& call) {
  ServiceHost* host = Find(call);
  if (host == nullptr) return;
  const auto owner = host->OwnerFor(call.argument, call.caller);
  if (!owner) return call.Refuse(owner.error());
  auto definition = Read(call, *owner);
  if (!definition) return call.Refuse(definition.error());
  AnswerMessage(driver_, call, host->Update(call.argument, *std::move(definition), call.caller));
}

void ServiceRoutes::Scale(ApiCall& call) {
  ServiceHost* host = Find(call);
  if (host == nullptr) return;
  const auto request = wire::Decode<wire::ServiceScale>(call.request.body);
  if (!request) return call.Refuse(request.error());
  AnswerMessage(driver_, call, host->Scale(call.argument, *request, call.caller));
}

void ServiceRoutes::Promote(ApiCall& call) {
  ServiceHost* host = Find(call);
  if (host == nullptr) return;
  AnswerMessage(driver_, call, host->Promote(call.argument, call.caller));
}

void ServiceRoutes::RollBack(ApiCall& call) {
  ServiceHost* host = Find(call);
  if (host == nullptr) return;
  const auto request = wire::Decode<wire::ServiceRollback>(call.request.body.empty() ? "{}" : call.request.body);
  if (!request) return call.Refuse(request.error());
  AnswerMessage(driver_, call, host->RollBack(call.argument, request->revision, call.caller));
}

void ServiceRoutes::Delete(ApiCall& call) {
  ServiceHost* host = Find(call);
  if (host == nullptr) return;
  AnswerMessage(driver_, call, host->Delete(call.argument, call.caller));
}

}  // namespace divvy
