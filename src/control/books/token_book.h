// Tokens: what lets a command line on another machine speak for a user here. The book knows each by its id and the hash
// of its secret, so that reading the store gives nobody a token; whoever asks compares secrets (platform/net/tls.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

inline constexpr std::string_view kTokenPrefix = "token.";

/// What the holder of a token may do.
enum class TokenRole {
  kViewer,  // Look at what its user may look at.
  kUser,    // What its user may do here, but never as an administrator.
  kAdmin,   // Everything.
  kNode,    // Nothing but to let a machine join as a node, so often as it has uses.
};
std::string_view Name(TokenRole role);
/// "viewer", "user", "admin", "node".
Result<TokenRole> ParseTokenRole(std::string_view text);

struct TokenRow {
  std::string id;    // 8 hexadecimal digits.
  std::string hash;  // Of the secret.
  std::string user;  // Of this machine, by name and number: a name may be given to somebody else one day.
  std::int64_t uid = -1;
  TokenRole role = TokenRole::kUser;
  std::string label;  // Of its maker's choice: "laptop"; may be empty.
  std::string made_by;
  Time made_at = kNoTime;
  Time expires = kNever;
  int uses_left = 0;  // Of a node's token: how many may still join by it.

  bool has_expired(Time now) const { return expires <= now; }
  /// Of a node's token: all that might join by it have.
  bool is_spent() const { return role == TokenRole::kNode && uses_left <= 0; }
  friend bool operator==(const TokenRow&, const TokenRow&) = default;
};

class TokenBook {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostTokens = 10'000;
  static constexpr std::size_t kMostOfAUser = 100;

  /// Fails where the book is full, or the user's part of it, the id is taken, or the label is no short line.
  Result<Setting> Add(TokenRow row);
  /// By id; kNotFound.
  Result<Setting> Remove(std::string_view id);
  /// A node joins by it: one use less; at the last it is spent, and stays for a while as one that has expired, so that
  /// whoever comes with it again is told. kPermissionDenied where it has none left.
  Result<Setting> Spend(std::string_view id, Time now);
  /// Those that expired before `before`: nobody asks about them any more.
  std::vector<Setting> DropExpired(Time before);

  /// Expired ones as well.
  const TokenRow* Find(std::string_view id) const;
  const std::map<std::string, TokenRow, std::less<>>& tokens() const { return tokens_; }

  /// True if the key is one of this book's. A row that cannot be read is left out: its token is worth nothing then.
  bool LoadSetting(std::string_view key, std::string_view text);

 private:
  std::map<std::string, TokenRow, std::less<>> tokens_;
};

}  // namespace divvy
