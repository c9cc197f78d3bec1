// The tokens and certificates of services. A token is kept as its hash only. The files that HAProxy reads, hashes of
// tokens and certificates with their keys, are in the front's folder and readable by the daemon's user only; their
// names come from their content, so a change of one is a change of HAProxy's configuration.
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
  /// A text that only the controllers know. The row has the certificate sealed with it. Empty: there is one controller.
  std::string cluster_secret;
};

/// Checks the secrets of a request and applies them to the row. Writes a certificate to its file, durably. Returns the
/// token that was made for the caller, or an empty text. The row is unchanged on an error.
Result<std::string> ApplySecrets(const wire::ServiceSecrets& secrets, const SecretPlace& place,
                                 wire::KeptService& kept);
/// Seals a certificate that was set before rows had it sealed, or while there was one controller, if its file is on
/// this machine. Returns true if the row has changed.
bool SealCertificate(const SecretPlace& place, wire::KeptService& kept);
/// The path of a service's certificate. Writes the file if another controller has set the certificate. Fails if it is
/// not on this machine.
Result<std::string> CertificatePath(const wire::KeptService& kept, const SecretPlace& place);
/// The path of the file with the hashes of its tokens, which is written if it does not exist.
Result<std::string> TokensPath(const wire::KeptService& kept, const std::string& folder);
/// The names of the files that a service needs.
void AddFilesOf(const wire::KeptService& kept, std::set<std::string>& names);
/// Removes files of services that are not in `needed`.
void RemoveOtherFiles(const std::string& folder, const std::set<std::string>& needed);

}  // namespace divvy
