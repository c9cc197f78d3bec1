// Signs requests to webhooks: HMAC-SHA256, with secrets in the format of Standard Webhooks (standardwebhooks.com:
// "whsec_" and the key in base64).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// Returns the HMAC in base64.
std::string HmacSha256(std::string_view key, std::string_view text);
/// Returns the key that a secret encodes: the decoded bytes after "whsec_", or any other text itself. kInvalidArgument
/// if the part after "whsec_" is not base64.
Result<std::string> KeyOfSecret(std::string_view secret);
/// Generates a secret from 32 random bytes.
Result<std::string> MakeSecret();
/// Returns the signature "v1,..." of a request with this id, sent at this time (seconds since 1970).
Result<std::string> SignRequest(std::string_view secret, std::string_view id, std::string_view timestamp,
                                std::string_view body);

}  // namespace divvy
