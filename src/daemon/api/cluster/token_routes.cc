#include "daemon/api/cluster/token_routes.h"

#include <algorithm>
#include <memory>

#include "base/host_port.h"
#include "base/text.h"
#include "wire/http/token_line.h"
#include "wire/messages/messages_remote.h"

namespace divvy {
namespace {

/// In seconds. A token with a longer lifetime never expires.
constexpr double kLongestLife = 100.0 * 365 * 24 * 3600;
constexpr std::int64_t kMostUses = 10'000;
/// How long an expired token is still distinguished from an unknown one.
constexpr Duration kKeptExpired = std::chrono::hours(24 * 30);

wire::TokenView ViewOf(const TokenRow& row, Time now) {
  wire::TokenView view;
  view.id = row.id;
  view.user = row.user;
  view.role = Name(row.role);
  view.label = row.label;
  view.made_by = row.made_by;
  view.made_at = ToSeconds(row.made_at);
  view.expires = row.expires == kNever ? 0 : ToSeconds(row.expires);
  view.has_expired = row.has_expired(now);
  view.uses_left = row.uses_left;
  return view;
}

}  // namespace

TokenRoutes::TokenRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), remote_(*api.ports.remote) {
  table.Add(this, {{"GET", "/v1/tokens", &TokenRoutes::Tokens},
                   {"POST", "/v1/tokens", &TokenRoutes::CreateToken},
                   {"POST", "/v1/tokens/remove", &TokenRoutes::RemoveToken}});
}

// Tokens of other users are shown only to administrators, because they reveal where users connect from.
void TokenRoutes::Tokens(ApiCall& call) {
  std::vector<wire::TokenView> views;
  for (const auto& [id, row] : remote_.callers.registry().tokens()) {
    if (call.caller.is_admin || row.user == call.caller.user.name || row.made_by == call.caller.user.name)
      views.push_back(ViewOf(row, driver_.Latest()));
  }
  call.Answer(views);
}

void TokenRoutes::CreateToken(ApiCall& call) {
  const auto request = wire::Decode<wire::TokenRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  // Otherwise the owner of a token for one hour could get one without expiry.
  if (!call.address.empty()) {
    return call.Refuse(PermissionDenied("tokens are created on the controller's own machine, not with another token"));
  }
  if (remote_.address.port == 0) {
    return call.Refuse(
        FailedPrecondition("this daemon does not listen for other machines; start it with divvy up --listen "
                           "0.0.0.0:7433, or set listen in "
                           "[controller] of divvy.toml"));
  }
  const auto role = ParseTokenRole(request->role);
  if (!role) return call.Refuse(role.error());
  HostPort at = remote_.address;
  if (!request->at.empty()) {
    const auto asked = ParseHostPort(request->at, remote_.address.port);
    if (!asked) return call.Refuse(asked.error());
    at = *asked;
  }
  if (*role == TokenRole::kNode && (request->uses < 1 || request->uses > kMostUses)) {
    return call.Refuse(InvalidArgument("a node's token has from 1 to " + std::to_string(kMostUses) + " uses"));
  }
  if (!(request->lifetime_s >= 0)) return call.Refuse(InvalidArgument("a token's lifetime must not be negative"));
  TokenRow row;
  row.user = request->user;
  row.role = *role;
  row.label = request->label;
  row.made_at = driver_.Latest();
  if (*role == TokenRole::kNode) row.uses_left = static_cast<int>(request->uses);
  if (request->lifetime_s > 0 && request->lifetime_s < kLongestLife)
    row.expires = driver_.Latest() + TimeFromSeconds(request->lifetime_s).time_since_epoch();
  for (auto& setting : remote_.callers.registry().DropExpired(driver_.Latest() - kKeptExpired))
    driver_.controller().KeepSetting(setting.first, std::move(setting.second));
  auto made = remote_.callers.Make(row, call.caller);
  if (!made) return call.Refuse(made.error());
  driver_.controller().KeepSetting(made->setting.first, std::move(made->setting.second));
  wire::TokenAnswer answer;
  answer.id = made->id;
  TokenLine line{at, made->id, made->secret, remote_.fingerprint};
  if (request->at.empty() && remote_.others) line.others = remote_.others();
  answer.line = ToString(line);
  const std::string user = row.user.empty() ? call.caller.user.name : row.user;
  answer.message = "token " + made->id + " for " + user + ", role " + std::string(Name(row.role));
  if (*role == TokenRole::kNode)
    answer.message = "token " + made->id + ", with which " + Plural(request->uses, "node") + " may join";
  AnswerAfterCommit(driver_, call, std::move(answer));
}

void TokenRoutes::RemoveToken(ApiCall& call) {
  const auto name = wire::Decode<wire::TokenName>(call.request.body);
  if (!name) return call.Refuse(name.error());
  auto setting = remote_.callers.Remove(name->id, call.caller);
  if (!setting) return call.Refuse(setting.error());
  driver_.controller().KeepSetting(setting->first, std::move(setting->second));
  AnswerMessage(driver_, call, "removed token " + name->id + "; requests with it are now refused");
}

}  // namespace divvy
