// The text with which one machine reaches a controller on another. It has the controller's address, the token's id and
// secret, and the fingerprint of the controller's certificate, which prevents impersonation.
//
//   gpu1.lab:7433#4f1c22aa.<64 hexadecimal digits of the secret>.<64 of the certificate's fingerprint>
//
// A cluster with several controllers has several addresses, separated by commas, and one certificate.
//
// A token for a node ends with another dot and 64 more digits if its controller is machine-wide: the public key of the
// launcher there (platform/users/user_right.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/host_port.h"
#include "base/result.h"

namespace divvy {

struct TokenLine {
  HostPort controller;
  std::string id;                // 8 hexadecimal digits.
  std::string secret;            // 64 hexadecimal digits.
  std::string fingerprint;       // SHA-256 of the controller's certificate: 64 hexadecimal digits.
  std::string launcher_key;      // 64 hexadecimal digits, or empty.
  std::vector<HostPort> others;  // The addresses of the cluster's other controllers.

  friend bool operator==(const TokenLine&, const TokenLine&) = default;
};

/// Parses the text of a token. Ignores surrounding blanks. Error messages never show the secret.
Result<TokenLine> ParseTokenLine(std::string_view text);
std::string ToString(const TokenLine& line);

/// The text after "Bearer " in a request: "ID.SECRET".
std::string BearerOf(const TokenLine& line);
struct Bearer {
  std::string id;
  std::string secret;
};
/// Parses the value of an Authorization header.
Result<Bearer> ParseBearer(std::string_view header);

}  // namespace divvy
