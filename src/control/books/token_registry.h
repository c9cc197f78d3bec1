// Access tokens of remote command lines and joining nodes. The registry stores a token's id and the hash of its secret,
// so that reading the store reveals no token. The caller compares secrets (platform/net/tls.h).
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

/// The rights of a token's owner.
enum class TokenRole {
  kViewer,  // View what its user may view.
  kUser,    // Everything that its user may do, but never as an administrator.
  kAdmin,   // Everything.
  kNode,    // Only let a node join, as many times as it has uses.
};
std::string_view Name(TokenRole role);
/// Parses the role of a token: "viewer", "user", "admin" or "node".
Result<TokenRole> ParseTokenRole(std::string_view text);

struct TokenRow {
  std::string id;    // 8 hexadecimal digits.
  std::string hash;  // The hash of the secret.
  std::string user;  // The local user, by name and uid, because a name may be reassigned later.
  std::int64_t uid = -1;
  TokenRole role = TokenRole::kUser;
  std::string label;  // Chosen by its creator: "laptop"; may be empty.
  std::string made_by;
  Time made_at = kNoTime;
  Time expires = kNever;
  int uses_left = 0;  // For node tokens: how many nodes may still join with it.

  bool has_expired(Time now) const { return expires <= now; }
  /// Returns true for a node token that cannot be used any more, because nodes have joined with it as often as it
  /// allows.
  bool is_spent() const { return role == TokenRole::kNode && uses_left <= 0; }
  friend bool operator==(const TokenRow&, const TokenRow&) = default;
};

class TokenRegistry {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostTokens = 10'000;
  static constexpr std::size_t kMostOfAUser = 100;

  /// Adds a token and returns the row to store. Fails if there are too many tokens in total or of this user, if the id
  /// exists already, or if the label is not a short line.
  Result<Setting> Add(TokenRow row);
  /// Removes the token with this id and returns the row to store; kNotFound if there is none.
  Result<Setting> Remove(std::string_view id);
  /// Spends one use, when a node joins. After the last use the token stays for a while as an expired one, so that a
  /// client that presents it again gets an explanation. Fails with kPermissionDenied if no use is left.
  Result<Setting> Spend(std::string_view id, Time now);
  /// Removes tokens that expired before `before`.
  std::vector<Setting> DropExpired(Time before);

  /// Returns the token with this id, even if it has expired; null if there is none.
  const TokenRow* Find(std::string_view id) const;
  const std::map<std::string, TokenRow, std::less<>>& tokens() const { return tokens_; }

  /// Loads a row of the store. Returns false if its key is not one of this registry. A row that cannot be read is
  /// skipped, and its token becomes invalid.
  bool LoadSetting(std::string_view key, std::string_view text);

 private:
  std::map<std::string, TokenRow, std::less<>> tokens_;
};

}  // namespace divvy
