// The line that lets one machine reach a controller on another: where it listens, which token this is, the token's
// secret, and how the controller's certificate looks, so that nobody can stand in for it.
//
//   gpu1.lab:7433#4f1c22aa.<64 hexadecimal digits of the secret>.<64 of the certificate's fingerprint>
//
// A token for a node ends with 64 digits more, after another dot, where its controller is a machine's: the public key
// of the launcher there (platform/users/user_right.h).
#pragma once

#include <string>
#include <string_view>

#include "base/host_port.h"
#include "base/result.h"

namespace divvy {

struct TokenLine {
  HostPort controller;
  std::string id;            // 8 hexadecimal digits.
  std::string secret;        // 64.
  std::string fingerprint;   // 64: SHA-256 of the controller's certificate.
  std::string launcher_key;  // 64, or empty.

  friend bool operator==(const TokenLine&, const TokenLine&) = default;
};

/// Blanks around it do not count. Errors never show the secret.
Result<TokenLine> ParseTokenLine(std::string_view text);
std::string ToString(const TokenLine& line);

/// What stands behind "Bearer " in a request: "ID.SECRET".
std::string BearerOf(const TokenLine& line);
struct Bearer {
  std::string id;
  std::string secret;
};
/// From the value of an Authorization header.
Result<Bearer> ParseBearer(std::string_view header);

}  // namespace divvy
