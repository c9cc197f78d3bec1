// The right to run jobs as a user: a signature of the launcher's over the user's numbers.
//
// On a served machine the daemon is not root, and the launcher starts nothing as a user whom only the daemon names. The
// launcher signs a user's numbers when the daemon shows it a connection that a process of that user has opened, as the
// kernel says; the daemon keeps the signature with the user and sends it with every launch. So who takes over the
// daemon can run jobs as users who have called divvy, and as nobody else.
//
// On other machines a user is known by name alone, and may have other numbers there. So the launcher also signs the
// name of a user whose right it has given: a right by name. The launcher of another machine checks it with the public
// key alone (Ed25519), and looks up itself which of its accounts has that name.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct evp_pkey_st;

namespace divvy {

using UserRight = std::array<unsigned char, 64>;  // All zero: none.

struct KeyDeleter {
  void operator()(evp_pkey_st* key) const;
};
using OwnedSigningKey = std::unique_ptr<evp_pkey_st, KeyDeleter>;

/// Signs. Holds a private key, so no process that will run a user's code may inherit one: Forget() first.
class RightIssuer {
 public:
  /// The key in this file of ours (0600), which is made where there is none.
  static Result<RightIssuer> Open(const std::string& path);

  /// About 30 us.
  UserRight Issue(std::int64_t uid, std::int64_t gid) const;
  UserRight IssueByName(std::string_view name) const;
  std::string public_key() const;  // 32 bytes.
  /// Wipes the key from this process's memory. Nothing can be issued any more.
  void Forget() { key_.reset(); }

 private:
  explicit RightIssuer(OwnedSigningKey key) : key_(std::move(key)) {}
  UserRight Sign(std::string_view text) const;
  OwnedSigningKey key_;
};

/// Checks. Remembers what it has found good, so that a launch costs a lookup.
class RightChecker {
 public:
  RightChecker() = default;
  /// Public keys of 32 bytes: of the launcher of this machine and, where this machine is a node of another controller,
  /// of the launcher there (else empty).
  explicit RightChecker(const std::string& public_key, const std::string& controllers_key = "");

  bool IsGood(std::int64_t uid, std::int64_t gid, const UserRight& right);
  /// A right by name that the controller's launcher has given, for the account here that has these numbers. Asks the
  /// name service, and again after a minute: a number may be given to another user.
  bool IsGoodByName(std::int64_t uid, std::int64_t gid, const UserRight& right);
  /// Without it IsGoodByName is always false.
  bool has_controllers_key() const { return controllers_key_ != nullptr; }

 private:
  struct GoodByName {
    UserRight right = {};
    std::chrono::steady_clock::time_point until;
  };
  OwnedSigningKey key_;
  OwnedSigningKey controllers_key_;
  std::set<std::pair<std::int64_t, std::int64_t>> good_;
  std::map<std::pair<std::int64_t, std::int64_t>, GoodByName> good_by_name_;
};

/// A public key as 64 hexadecimal digits, in lower case, and back. Anything else is read as empty.
std::string KeyText(const std::string& public_key);
std::string ReadKey(std::string_view text);

/// As 128 hexadecimal digits, to be stored; what is no such text is read as none.
std::string RightText(const UserRight& right);
UserRight ReadRight(const std::string& text);

/// Whose process opened the other end of this connection to a listening Unix socket, as the kernel says.
/// kPermissionDenied where `socket` is the end of a connection that the daemon opened itself, at which the kernel names
/// the listener's user, who has asked for nothing. One end of a pair, once it is given a name, cannot be told from it:
/// such a pair, which the user's process made and gave away, counts as well.
Result<std::pair<std::int64_t, std::int64_t>> CallerOf(int socket);

}  // namespace divvy
