#include "daemon/api/ui/notify_routes.h"

#include <memory>

#include "daemon/notify/notifier.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

NotifyRoutes::NotifyRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/notify", &NotifyRoutes::Notify},
                   {"POST", "/v1/notify", &NotifyRoutes::AddReceiver},
                   {"POST", "/v1/notify/remove", &NotifyRoutes::RemoveReceiver},
                   {"POST", "/v1/notify/test", &NotifyRoutes::TestReceiver}});
}

void NotifyRoutes::Notify(ApiCall& call) {
  if (!ports_.notifier) return call.Answer(wire::NotifyAnswer{false, {}});
  call.Answer(ports_.notifier->View(call.caller.user, call.caller.is_admin));
}

void NotifyRoutes::AddReceiver(ApiCall& call) {
  auto request = wire::Decode<wire::ReceiverRequest>(call.request.body);
  // The logged request contains neither the secret nor values that may be equivalent to one.
  wire::ReceiverRequest shown = request ? *request : wire::ReceiverRequest();
  shown.webhook = shown.webhook.empty() ? "" : ShownTarget(NotifyChannel::kWebhook, shown.webhook);
  shown.command = shown.command.empty() ? "" : ShownTarget(NotifyChannel::kCommand, shown.command);
  if (!shown.secret.empty()) shown.secret = "...";
  call.asked = wire::EncodeChanged(shown);
  if (!request) return call.Refuse(request.error());
  if (!ports_.notifier) return call.Refuse(FailedPrecondition("this daemon sends no notifications"));
  const auto answer = ports_.notifier->Add(call.caller.user, *request);
  if (!answer) return call.Refuse(answer.error());
  AnswerAfterCommit(driver_, call, *answer);
}

void NotifyRoutes::RemoveReceiver(ApiCall& call) {
  const auto name = wire::Decode<wire::ReceiverName>(call.request.body);
  if (!name) return call.Refuse(name.error());
  if (!ports_.notifier) return call.Refuse(FailedPrecondition("this daemon sends no notifications"));
  const Status removed = ports_.notifier->Remove(call.caller.user, name->name);
  if (!removed) return call.Refuse(removed.error());
  AnswerMessage(driver_, call, "removed receiver " + name->name + " and its undelivered messages");
}

void NotifyRoutes::TestReceiver(ApiCall& call) {
  const auto name = wire::Decode<wire::ReceiverName>(call.request.body);
  if (!name) return call.Refuse(name.error());
  if (!ports_.notifier) return call.Refuse(FailedPrecondition("this daemon sends no notifications"));
  const bool is_own = ports_.notifier->Has(call.caller.user, name->name) || !call.caller.is_admin;
  const std::optional<User> owner = is_own ? std::optional(call.caller.user) : std::nullopt;
  auto shared = std::make_shared<ApiCall>(std::move(call));
  ports_.notifier->Test(owner, name->name, [shared](const Result<wire::NotifyTestAnswer>& answer) {
    if (!answer) return shared->Refuse(answer.error());
    shared->Answer(*answer);
  });
}

}  // namespace divvy
