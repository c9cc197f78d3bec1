// The tokens and certificates of services. Only the hash of a token is stored. HAProxy reads hashes of tokens, and
// certificates with their keys, from files in the front's folder, which only the daemon's user can read. The name of
// such a file is derived from its content, so that new content changes HAProxy's configuration.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/services/service_messages.h"

namespace divvy {

constexpr std::size_t kMostTokens = 16;

/// Where the secrets of services are.
struct SecretPlace {
  std::string folder;
  /// A secret that all controllers of the cluster share. Certificates are encrypted with it in the store. Empty if
  /// there is only one controller.
  std::string cluster_secret;
};

/// Checks the secrets of a request and applies them to the row. Writes a certificate to its file, durably. Returns the
/// token that was made for the caller, or an empty text. The row is unchanged on an error.
Result<std::string> ApplySecrets(const wire::ServiceSecrets& secrets, const SecretPlace& place,
                                 wire::KeptService& kept);
/// Stores a sealed copy of the certificate in a row that has none (of an earlier release, or of a time with only one
/// controller), if the file is on this machine. Returns true if the row has changed.
bool SealCertificate(const SecretPlace& place, wire::KeptService& kept);
/// Returns the path of a service's certificate. Writes the file if another controller has set the certificate. Fails if
/// it is not on this machine.
Result<std::string> CertificatePath(const wire::KeptService& kept, const SecretPlace& place);
/// Returns the path of the file with the hashes of a service's tokens. Writes the file if it does not exist.
Result<std::string> TokensPath(const wire::KeptService& kept, const std::string& folder);
/// Adds the names of the files that a service needs to `names`.
void AddFilesOf(const wire::KeptService& kept, std::set<std::string>& names);
/// Removes files of services that are not in `needed`.
void RemoveOtherFiles(const std::string& folder, const std::set<std::string>& needed);

}  // namespace divvy
