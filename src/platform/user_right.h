// The right to run jobs as a user: a signature of the launcher's over the user's numbers.
//
// On a served machine the daemon is not root, and the launcher starts nothing as a user whom only the daemon names. The
// launcher signs a user's numbers when the daemon shows it a connection that a process of that user has opened, as the
// kernel says; the daemon keeps the signature with the user and sends it with every launch. So who takes over the
// daemon can run jobs as users who have called divvy, and as nobody else.
//
// Ed25519: other machines' launchers check a right with the public key alone.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
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
  std::string public_key() const;  // 32 bytes.
  /// Wipes the key from this process's memory. Nothing can be issued any more.
  void Forget() { key_.reset(); }

 private:
  explicit RightIssuer(OwnedSigningKey key) : key_(std::move(key)) {}
  OwnedSigningKey key_;
};

/// Checks. Remembers what it has found good, so that a launch costs a lookup.
class RightChecker {
 public:
  RightChecker() = default;
  /// `public_key`: 32 bytes.
  explicit RightChecker(const std::string& public_key);

  bool IsGood(std::int64_t uid, std::int64_t gid, const UserRight& right);

 private:
  OwnedSigningKey key_;
  std::set<std::pair<std::int64_t, std::int64_t>> good_;
};

/// As 128 hexadecimal digits, to be stored; what is no such text is read as none.
std::string RightText(const UserRight& right);
UserRight ReadRight(const std::string& text);

/// Whose process opened the other end of this connection to a listening Unix socket, as the kernel says.
/// kPermissionDenied where `socket` is the end of a connection that the daemon opened itself, at which the kernel names
/// the listener's user, who has asked for nothing. One end of a pair, once it is given a name, cannot be told from it:
/// such a pair, which the user's process made and gave away, counts as well.
Result<std::pair<std::int64_t, std::int64_t>> CallerOf(int socket);

}  // namespace divvy
