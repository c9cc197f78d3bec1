#include "daemon/api/call/caller_identifier.h"

#include "daemon/api/call/ui_auth.h"
#include "daemon/fleet/remote_streams.h"

namespace divvy {
namespace {

constexpr Duration kKeepGroups = std::chrono::seconds(30);
constexpr Duration kNamesLive = std::chrono::seconds(30);

}  // namespace

Result<Caller> CallerIdentifier::Identify(const Peer& peer, const HttpRequest& request, Touches touches) {
  if (!peer.node.empty()) return CallerOnNode(peer);
  if (peer.is_remote() && ports_.ui != nullptr && UiAuth::IsFromPage(request))
    return CallerAtPage(peer, request, touches);
  if (peer.is_remote()) {
    DIVVY_TRY(Caller caller,
              ports_.remote->callers.Identify(request.header("authorization"), touches, driver_.Latest()));
    caller.groups = GroupsOf(caller.user);
    return caller;
  }
  return LocalCaller({peer.uid, peer.gid, ""});
}

Result<Caller> CallerIdentifier::CallerOnNode(const Peer& peer) {
  // Checked for each request, because a connection may outlive its job.
  const User* user =
      RemoteStreams::UserOn(driver_.controller(), peer.node, [&](const User& known) { return known.uid == peer.uid; });
  if (user == nullptr) return PermissionDenied("no job of yours runs on node " + peer.node + " any more");
  Caller caller;
  caller.user = *user;
  caller.groups = GroupsOf(caller.user);
  return caller;
}

// The caller has the rights that the user who requested the link has on the command line; they are looked up for each
// request.
Result<Caller> CallerIdentifier::CallerAtPage(const Peer& peer, const HttpRequest& request, Touches touches) {
  DIVVY_TRY(const UiIdentity identity, ports_.ui->IdentityOf(peer.is_plain, request));
  if (!identity.token.empty()) {
    DIVVY_TRY(Caller caller, ports_.remote->callers.IdentifyById(identity.token, touches, driver_.Latest()));
    caller.groups = GroupsOf(caller.user);
    return caller;
  }
  return LocalCaller({identity.uid, identity.gid, ""});
}

// A uid may be reassigned to another user while the daemon runs, so its name is looked up again after a while.
const std::string& CallerIdentifier::NameOf(std::int64_t uid) {
  KeptName& kept = names_[uid];
  if (const Time now = driver_.Now(); kept.until <= now) kept = {ports_.user_name(uid), now + kNamesLive};
  return kept.name;
}

// The kernel reports the uid; the name is looked up here.
Caller CallerIdentifier::LocalCaller(User user) {
  user.name = NameOf(user.uid);
  Caller caller;
  caller.user = std::move(user);
  caller.is_admin = admins_.Contains(caller.user, driver_.Now());
  caller.groups = GroupsOf(caller.user);
  return caller;
}

std::vector<std::string> CallerIdentifier::GroupsOf(const User& user) {
  const std::vector<std::string> named = driver_.controller().teams().GroupsNamed();
  if (named.empty() || !ports_.is_in_group) return {};
  const Time now = driver_.Now();
  Groups& known = groups_[user.uid];
  if (known.at == kNoTime || now - known.at >= kKeepGroups || known.asked != named) {
    known = {named, {}, now};
    for (const std::string& group : named) {
      if (ports_.is_in_group(user, group)) known.of.push_back(group);
    }
  }
  return known.of;
}

}  // namespace divvy
