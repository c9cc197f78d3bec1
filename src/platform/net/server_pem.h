// Checks the certificate that a user brings for a TLS server.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// Checks the certificate of a TLS server. `pem` has the certificate, the certificates of its issuers, and the private
/// key without a passphrase, in any order. Returns these as PEM, and nothing else that was in the text. Fails with
/// kInvalidArgument if something is missing, does not belong together, has ended, is too weak for OpenSSL's security
/// level 2, or has an RSA key above 4096 bits.
Result<std::string> CheckServerPem(std::string_view pem);

}  // namespace divvy
