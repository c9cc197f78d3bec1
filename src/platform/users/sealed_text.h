// Texts that only owners of a secret can read, such as keys in a database: AES-256-GCM, with a key that is derived from
// the secret and the purpose by HMAC-SHA256. Each sealed text has a random number of its own.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// Returns the sealed text in base64. `purpose`: what the text is for; only the same purpose opens it.
Result<std::string> SealText(std::string_view secret, std::string_view purpose, std::string_view text);
/// kCorruptData if it was not sealed with this secret and purpose, or was changed.
Result<std::string> OpenText(std::string_view secret, std::string_view purpose, std::string_view sealed);

}  // namespace divvy
