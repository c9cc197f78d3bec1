// How requests to webhooks are signed: HMAC-SHA256, with secrets as Standard Webhooks writes them
// (standardwebhooks.com: "whsec_" and the key in base64).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

std::string Base64(std::string_view bytes);
/// In base64.
std::string HmacSha256(std::string_view key, std::string_view text);
/// The key that a secret stands for: what follows "whsec_" as bytes, any other text itself. kInvalidArgument where that
/// is no base64.
Result<std::string> KeyOfSecret(std::string_view secret);
/// A fresh one of 32 bytes.
Result<std::string> MakeSecret();
/// "v1,..." of a request with this id, sent at this moment (seconds since 1970).
Result<std::string> SignRequest(std::string_view secret, std::string_view id, std::string_view timestamp,
                                std::string_view body);

}  // namespace divvy
