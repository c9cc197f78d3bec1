// Who speaks over TLS: the user of the token that a request brings, with no more rights than the token has.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "control/books/token_book.h"
#include "control/controller/controller.h"
#include "daemon/auth/admins.h"

namespace divvy {

/// What a request changes, for the rights of who may only look.
enum class Touches { kNothing, kSomething };

class RemoteCallers {
 public:
  /// A user of this machine by name; answers are kept for half a minute; nothing where there is none, or where jobs
  /// cannot run as them.
  using FindUser = std::function<std::optional<User>(std::string_view name)>;

  RemoteCallers(TokenBook& book, FindUser find_user) : book_(book), find_user_(std::move(find_user)) {}

  /// `authorization` is the header of that name. Fails with kPermissionDenied and what to do about it; what is said of
  /// a token before its secret has been seen is the same whether or not there is one.
  Result<Caller> Identify(std::string_view authorization, Touches touches, Time now);

  /// The same for who has shown it before, with its secret: a session at the page.
  Result<Caller> IdentifyById(std::string_view id, Touches touches, Time now);

  /// The id of a token that lets a node join, from the header of that name; not spent yet. Fails as Identify does.
  Result<std::string> AdmitNode(std::string_view authorization, Time now);

  /// A new token for `row`'s user, with its secret. The row's id and hash are made here.
  struct Made {
    std::string id;
    std::string secret;
    TokenBook::Setting setting;
  };
  Result<Made> Make(TokenRow row, const Caller& caller);
  /// Its maker, its user and administrators may.
  Result<TokenBook::Setting> Remove(std::string_view id, const Caller& caller);

  TokenBook& book() { return book_; }

 private:
  struct Known {
    std::optional<User> user;
    Time asked = kNoTime;
  };
  Result<const TokenRow*> RowOf(std::string_view authorization, std::string_view remedy, Time now);
  static Status CheckLife(const TokenRow& row, std::string_view remedy, Time now);
  Result<Caller> CallerBy(const TokenRow& row, Touches touches, Time now);
  const std::optional<User>& UserOf(const std::string& name, Time now);

  TokenBook& book_;
  FindUser find_user_;
  std::map<std::string, Known> known_;  // Asking may take as long as a network answers.
};

}  // namespace divvy
