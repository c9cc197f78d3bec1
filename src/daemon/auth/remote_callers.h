// Authenticates requests that arrive over TLS. The caller is the user of the request's token, with no more rights than
// the token grants.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "control/books/token_registry.h"
#include "control/controller/controller.h"
#include "daemon/auth/admins.h"

namespace divvy {

/// Whether a request only reads (kNothing) or changes something (kSomething). Viewer tokens may only read.
enum class Touches { kNothing, kSomething };

class RemoteCallers {
 public:
  /// Looks up a user of this machine by name; results are cached for half a minute. Returns nullopt if there is no such
  /// user, or if jobs cannot run as that user.
  using FindUser = std::function<std::optional<User>(std::string_view name)>;

  RemoteCallers(TokenRegistry& tokens, FindUser find_user) : registry_(tokens), find_user_(std::move(find_user)) {}

  /// Returns the user of the token in `authorization`, the value of the HTTP header of that name. Fails with
  /// kPermissionDenied and a remedy. The message for a wrong secret does not disclose whether the token exists.
  Result<Caller> Identify(std::string_view authorization, Touches touches, Time now);

  /// Identifies a caller who has already proven the token's secret: a session of the web page.
  Result<Caller> IdentifyById(std::string_view id, Touches touches, Time now);

  /// Returns the id of a token that lets a node join, from the Authorization header. Does not use up the token. Fails
  /// as Identify does.
  Result<std::string> AdmitNode(std::string_view authorization, Time now);

  /// Creates a token for the user of `row`, and its secret. Fills in the row's id and hash.
  struct Made {
    std::string id;
    std::string secret;
    TokenRegistry::Setting setting;
  };
  Result<Made> Make(TokenRow row, const Caller& caller);
  /// Removes a token and returns the row to store. Allowed for the token's creator, its user and administrators.
  Result<TokenRegistry::Setting> Remove(std::string_view id, const Caller& caller);

  TokenRegistry& registry() { return registry_; }

 private:
  struct Known {
    std::optional<User> user;
    Time asked = kNoTime;
  };
  Result<const TokenRow*> RowOf(std::string_view authorization, std::string_view remedy, Time now);
  static Status CheckLife(const TokenRow& row, std::string_view remedy, Time now);
  Result<Caller> CallerBy(const TokenRow& row, Touches touches, Time now);
  const std::optional<User>& UserOf(const std::string& name, Time now);

  TokenRegistry& registry_;
  FindUser find_user_;
  std::map<std::string, Known> known_;  // Results of FindUser, which may block for as long as a network request.
};

}  // namespace divvy
