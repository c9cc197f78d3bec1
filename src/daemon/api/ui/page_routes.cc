// The routes of the page: login links, and the identity of a logged-in browser.
#include <memory>

#include "daemon/api/call/ui_auth.h"
#include "daemon/node/machine.h"
#include "wire/http/token_line.h"
#include "wire/messages/ui_messages.h"

namespace divvy {

// The caller has the rights that the user who requested the link has on the command line; they are looked up for each
// request.
Result<Caller> PageRoutes::CallerAtPage(const Peer& peer, const HttpRequest& request, const Route* route) {
  DIVVY_TRY(const UiIdentity identity, ports_.ui->IdentityOf(peer.is_plain, request));
  if (!identity.token.empty()) {
    const Touches touches = route == nullptr ? Touches::kNothing : route->touches();
    DIVVY_TRY(Caller caller, ports_.remote->callers.IdentifyById(identity.token, touches, core_.Latest()));
    caller.groups = GroupsOf(caller.user);
    return caller;
  }
  return LocalCaller({identity.uid, identity.gid, ""});
}

void PageRoutes::UiLink(ApiCall& call) {
  const auto request = wire::Decode<wire::UiLinkRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  if (call.is_on_node || call.is_at_page || ports_.ui == nullptr) {
    return call.Refuse(
        PermissionDenied("links to the web page are created by divvy ui on a command line, not in a job on another "
                         "node or from the page"));
  }
  UiIdentity identity{call.caller.user.uid, call.caller.user.gid, call.caller.user.name, "", true};
  if (!call.address.empty()) {
    const auto bearer = ParseBearer(call.request.header("authorization"));
    if (!bearer) return call.Refuse(bearer.error());
    identity.token = bearer->id;
  }
  identity.is_plain = call.address.empty() && !request->is_remote;
  auto answer = ports_.ui->MakeLink(std::move(identity));
  if (!answer) return call.Refuse(answer.error());
  core_.AfterCommit([call = std::make_shared<ApiCall>(std::move(call)),
                     answer = *std::move(answer)](const Status&) { call->Answer(answer); });
}

void PageRoutes::UiMe(ApiCall& call) {
  wire::UiMe me;
  me.user = call.caller.user.name;
  me.uid = call.caller.user.uid;
  me.is_admin = call.caller.is_admin;
  me.time = ToSeconds(core_.Now());
  me.program = OwnPath();
  if (ports_.ui != nullptr) {
    me.host = ports_.ui->host();
    const auto identity = ports_.ui->IdentityOf(call.is_plain, call.request);
    const TokenRow* row = identity ? ports_.remote->callers.book().Find(identity->token) : nullptr;
    me.may_change = row == nullptr || row->role != TokenRole::kViewer;
  }
  call.Answer(me);
}

}  // namespace divvy
