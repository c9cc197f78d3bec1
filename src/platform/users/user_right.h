// The right to run jobs as a user: a signature of the launcher over the user's uid and gid.
//
// On a machine with a launcher service the daemon is not root, and the launcher starts nothing as a user that only the
// daemon names. The launcher signs a user's uid and gid when the daemon shows it a connection that a process of that
// user opened, according to the kernel. The daemon stores the signature with the user and sends it with every launch.
// So an attacker who controls the daemon can run jobs only as users who have called divvy.
//
// On other machines a user is known only by name and may have a different uid. So the launcher also signs the name of a
// user to whom it gave a right: a right by name. The launcher of the other machine checks it with the public key alone
// (Ed25519), and looks up for itself which of its accounts has that name.
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

using UserRight = std::array<unsigned char, 64>;  // All zero means no right.

struct KeyDeleter {
  void operator()(evp_pkey_st* key) const;
};
using OwnedSigningKey = std::unique_ptr<evp_pkey_st, KeyDeleter>;

/// Signs rights. Holds a private key, so no process that will run a user's code may inherit one: call Forget() first.
class RightIssuer {
 public:
  /// Loads the key from this file (ours, mode 0600), or creates it if there is none.
  static Result<RightIssuer> Open(const std::string& path);

  /// Signs the right to run jobs as the user with this uid and gid. Cost: about 30 us.
  UserRight Issue(std::int64_t uid, std::int64_t gid) const;
  UserRight IssueByName(std::string_view name) const;
  std::string public_key() const;  // 32 bytes.
  /// Wipes the key from this process's memory. It can sign nothing after that.
  void Forget() { key_.reset(); }

 private:
  explicit RightIssuer(OwnedSigningKey key) : key_(std::move(key)) {}
  UserRight Sign(std::string_view text) const;
  OwnedSigningKey key_;
};

/// Checks rights. Caches valid ones, so that a further launch costs one lookup.
class RightChecker {
 public:
  RightChecker() = default;
  /// Public keys of 32 bytes: the key of this machine's launcher and, if this machine is a node of another controller,
  /// the key of the launcher there (else empty).
  explicit RightChecker(const std::string& public_key, const std::string& controllers_key = "");

  bool IsGood(std::int64_t uid, std::int64_t gid, const UserRight& right);
  /// Checks a right that names its user and was signed by the launcher on the controller's machine: whether it is for
  /// the local account with this uid and gid. Queries the name service, and again after a minute, because a uid may be
  /// given to another user.
  bool IsGoodByName(std::int64_t uid, std::int64_t gid, const UserRight& right);
  /// If false, IsGoodByName always returns false.
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

/// Converts a public key to 64 lower-case hexadecimal digits and back. ReadKey returns "" for any other text.
std::string KeyText(const std::string& public_key);
std::string ReadKey(std::string_view text);

/// Converts a right to 128 hexadecimal digits for storage and back. ReadRight returns all zeros for any other text.
std::string RightText(const UserRight& right);
UserRight ReadRight(const std::string& text);

/// Returns the uid and gid of the process that opened the other end of this connection to a listening Unix socket, as
/// the kernel reports them. kPermissionDenied if `socket` is the end that the daemon itself connected: there the kernel
/// reports the listener's user, who requested nothing. An end of a socket pair that was bound to a name cannot be
/// distinguished from an accepted connection. It is accepted: the user's own process made the pair and gave it away.
Result<std::pair<std::int64_t, std::int64_t>> CallerOf(int socket);

}  // namespace divvy
