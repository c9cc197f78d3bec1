#include "daemon/auth/remote_callers.h"

#include <utility>

#include "base/text.h"
#include "daemon/auth/accounts.h"
#include "platform/net/tls.h"
#include "wire/http/token_line.h"

namespace divvy {
namespace {

constexpr std::size_t kCallerIdBytes = 4;
constexpr std::size_t kSecretBytes = 32;
constexpr std::string_view kLoginRemedy = "divvy token create, and divvy login with it";
constexpr std::string_view kJoinRemedy = "divvy token create --node, and divvy agent --join with it";
constexpr Duration kKeptUser = std::chrono::seconds(30);

}  // namespace

// Returns the token of this header, if its secret is right.
Result<const TokenRow*> RemoteCallers::RowOf(std::string_view authorization, std::string_view remedy, Time now) {
  DIVVY_TRY(const Bearer bearer, ParseBearer(authorization));
  const TokenRow* row = registry_.Find(bearer.id);
  const std::string hash = Sha256Hex(bearer.secret);
  // A comparison takes place even if the token does not exist, so that the time of the answer does not disclose that.
  const bool is_right = IsSameSecret(row != nullptr ? row->hash : std::string(hash.size(), '0'), hash);
  if (row == nullptr || !is_right) {
    return PermissionDenied("token " + bearer.id +
                            " is unknown to this controller or was removed; ask for a new one, " + "made there by " +
                            std::string(remedy));
  }
  DIVVY_CHECK(CheckLife(*row, remedy, now));
  return row;
}

Status RemoteCallers::CheckLife(const TokenRow& row, std::string_view remedy, Time now) {
  if (row.is_spent()) {
    return PermissionDenied("token " + row.id + " has admitted as many nodes as it may; ask for a new one, made on " +
                            "the controller by " + std::string(remedy));
  }
  if (row.has_expired(now)) {
    return PermissionDenied("token " + row.id + " has expired; ask for a new one, made on the controller by " +
                            std::string(remedy));
  }
  return {};
}

Result<std::string> RemoteCallers::AdmitNode(std::string_view authorization, Time now) {
  DIVVY_TRY(const TokenRow* row, RowOf(authorization, kJoinRemedy, now));
  if (row->role == TokenRole::kNode) return row->id;
  return PermissionDenied("token " + row->id +
                          " is for a command line; divvy token create --node creates one with which " +
                          "a machine joins as a node");
}

Result<Caller> RemoteCallers::Identify(std::string_view authorization, Touches touches, Time now) {
  if (authorization.empty()) {
    return PermissionDenied("requests from other machines need a token; divvy login asks for its line and stores it");
  }
  DIVVY_TRY(const TokenRow* row, RowOf(authorization, kLoginRemedy, now));
  return CallerBy(*row, touches, now);
}

Result<Caller> RemoteCallers::IdentifyById(std::string_view id, Touches touches, Time now) {
  const TokenRow* row = registry_.Find(id);
  if (row == nullptr) {
    return PermissionDenied("token " + std::string(id) +
                            ", which you logged in with, has been removed; ask for a new " + "one, made by " +
                            std::string(kLoginRemedy));
  }
  DIVVY_CHECK(CheckLife(*row, kLoginRemedy, now));
  return CallerBy(*row, touches, now);
}

Result<Caller> RemoteCallers::CallerBy(const TokenRow& row, Touches touches, Time now) {
  if (row.role == TokenRole::kNode) {
    return PermissionDenied(
        "token " + row.id +
        " only lets a machine join as a node, with divvy agent --join; divvy token create creates one " +
        "for a command line");
  }
  if (row.role == TokenRole::kViewer && touches == Touches::kSomething) {
    return PermissionDenied("token " + row.id + " is read-only; one with --role user may act for " + row.user);
  }
  const std::optional<User>& user = UserOf(row.user, now);
  if (!user || user->uid != row.uid) {
    return PermissionDenied("token " + row.id + " is for " + row.user +
                            ", who no longer has an account on the controller's node");
  }
  Caller caller;
  caller.user = *user;
  caller.is_admin = row.role == TokenRole::kAdmin;
  return caller;
}

const std::optional<User>& RemoteCallers::UserOf(const std::string& name, Time now) {
  Known& known = known_[name];
  if (known.asked == kNoTime || now - known.asked >= kKeptUser) known = {find_user_(name), now};
  return known.user;
}

Result<RemoteCallers::Made> RemoteCallers::Make(TokenRow row, const Caller& caller) {
  if (row.user.empty()) row.user = caller.user.name;
  if (!caller.is_admin &&
      (row.user != caller.user.name || row.role == TokenRole::kAdmin || row.role == TokenRole::kNode)) {
    return PermissionDenied("a token for another user, an administrator or a node takes an administrator; " +
                            caller.user.name + " is not one");
  }
  const std::optional<User> user = find_user_(row.user);
  if (!user) return CannotRunAs(row.user, "a token");
  if (user->uid == 0 && row.role == TokenRole::kUser && !caller.is_admin) {
    return PermissionDenied("a token that runs jobs as root takes an administrator");
  }
  Made made;
  DIVVY_TRY(made.id, RandomHex(kCallerIdBytes));
  DIVVY_TRY(made.secret, RandomHex(kSecretBytes));
  row.id = made.id;
  row.hash = Sha256Hex(made.secret);
  row.uid = user->uid;
  row.made_by = caller.user.name;
  DIVVY_TRY(made.setting, registry_.Add(std::move(row)));
  return made;
}

Result<TokenRegistry::Setting> RemoteCallers::Remove(std::string_view id, const Caller& caller) {
  const TokenRow* row = registry_.Find(id);
  if (row != nullptr && !caller.is_admin && row->user != caller.user.name && row->made_by != caller.user.name) {
    return PermissionDenied("token " + row->id + " is of " + row->user + "; removing it takes an administrator");
  }
  return registry_.Remove(id);
}

}  // namespace divvy
