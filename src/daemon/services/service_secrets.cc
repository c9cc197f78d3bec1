#include "daemon/services/service_secrets.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "platform/net/server_pem.h"
#include "platform/net/tls.h"
#include "platform/users/sealed_text.h"
#include "platform/users/secret_file.h"

namespace divvy {
namespace {

constexpr std::size_t kShortestToken = 20;
constexpr std::size_t kLongestToken = 200;
constexpr std::size_t kBytesOfToken = 32;
constexpr std::size_t kDigitsOfName = 32;
constexpr std::size_t kLongestCertificate = 128u << 10;
constexpr std::string_view kCertificate = "cert-";
constexpr std::string_view kTokens = "tokens-";
constexpr std::string_view kSealPurpose = "certificate of service ";

/// Returns true if the text may be a bearer token by RFC 6750.
bool IsToken(std::string_view token) {
  return token.size() >= kShortestToken && token.size() <= kLongestToken && std::ranges::all_of(token, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  std::string_view("-._~+/=").find(c) != std::string_view::npos;
         });
}

/// Returns the hash of a token in the form in which HAProxy computes it.
std::string HashOf(std::string_view token) {
  std::string hash = Sha256Hex(token);
  std::ranges::transform(hash, hash.begin(),
                         [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c; });
  return hash;
}

std::string LinesOf(const std::vector<std::string>& hashes) {
  std::string text;
  for (const std::string& hash : hashes) text += hash + "\n";
  return text;
}

std::string NameOfFile(std::string_view kind, std::string_view service, std::string_view content) {
  return std::string(kind) + std::string(service) + "-" + Sha256Hex(content).substr(0, kDigitsOfName);
}

}  // namespace

Result<std::string> ApplySecrets(const wire::ServiceSecrets& secrets, const SecretPlace& place,
                                 wire::KeptService& kept) {
  std::vector<std::string> hashes = kept.token_hashes;
  if (secrets.removes_tokens || !secrets.tokens.empty()) hashes.clear();
  for (const std::string& token : secrets.tokens) {
    // The token itself is in no message.
    if (!IsToken(token))
      return InvalidArgument(
          "a token is not allowed: expected 20 to 200 letters, digits and -._~+/=, one in each line; "
          "or let divvy make one with --new-token");
    hashes.push_back(HashOf(token));
  }
  std::string made;
  if (secrets.makes_token) {
    DIVVY_TRY(made, RandomHex(kBytesOfToken));
    hashes.push_back(HashOf(made));
  }
  std::ranges::sort(hashes);
  hashes.erase(std::ranges::unique(hashes).begin(), hashes.end());
  if (hashes.size() > kMostTokens)
    return LimitExceeded("the service would have " + std::to_string(hashes.size()) +
                         " tokens, and the limit is 16; replace all of them with --token-file, or begin again with "
                         "--no-tokens --new-token");
  std::string certificate = secrets.removes_certificate ? "" : kept.certificate;
  std::string sealed = secrets.removes_certificate ? "" : kept.sealed_certificate;
  if (!secrets.certificate.empty()) {
    DIVVY_TRY(const std::string pem, CheckServerPem(secrets.certificate));
    certificate = NameOfFile(kCertificate, kept.settings.name, pem);
    sealed.clear();
    if (!place.cluster_secret.empty()) {
      DIVVY_TRY(sealed, SealText(place.cluster_secret, std::string(kSealPurpose) + kept.settings.name, pem));
    }
    ::mkdir(place.folder.c_str(), 0700);
    const std::string path = place.folder + "/" + certificate;
    if (::access(path.c_str(), R_OK) != 0) DIVVY_CHECK(WriteSecret(path, pem, true));
  }
  kept.token_hashes = std::move(hashes);
  kept.certificate = std::move(certificate);
  kept.sealed_certificate = std::move(sealed);
  return made;
}

bool SealCertificate(const SecretPlace& place, wire::KeptService& kept) {
  if (kept.certificate.empty() || !kept.sealed_certificate.empty() || place.cluster_secret.empty()) return false;
  const std::string& name = kept.settings.name;
  const auto pem = ReadSecret(place.folder + "/" + kept.certificate, kLongestCertificate);
  if (!pem || NameOfFile(kCertificate, name, *pem) != kept.certificate) return false;
  auto sealed = SealText(place.cluster_secret, std::string(kSealPurpose) + name, *pem);
  if (!sealed) return false;
  kept.sealed_certificate = *std::move(sealed);
  return true;
}

Result<std::string> CertificatePath(const wire::KeptService& kept, const SecretPlace& place) {
  if (kept.certificate.empty()) return std::string();
  std::string path = place.folder + "/" + kept.certificate;
  if (::access(path.c_str(), R_OK) == 0) return path;
  const std::string& name = kept.settings.name;
  std::string why;
  if (!kept.sealed_certificate.empty() && !place.cluster_secret.empty()) {
    const auto pem = OpenText(place.cluster_secret, std::string(kSealPurpose) + name, kept.sealed_certificate);
    // The name of the file in the service's row is derived from the content, so it shows whether this is the right one.
    if (pem && NameOfFile(kCertificate, name, *pem) == kept.certificate) {
      ::mkdir(place.folder.c_str(), 0700);
      DIVVY_CHECK(WriteSecret(path, *pem, true));
      return path;
    }
    why = ", and identity.pem here is not that of the controller where it was set";
  }
  return NotFound("its certificate is not on this machine" + why + "; set it again: divvy serve update " + name +
                  " --tls-cert FILE");
}

Result<std::string> TokensPath(const wire::KeptService& kept, const std::string& folder) {
  if (kept.token_hashes.empty()) return std::string();
  const std::string text = LinesOf(kept.token_hashes);
  std::string path = folder + "/" + NameOfFile(kTokens, kept.settings.name, text);
  ::mkdir(folder.c_str(), 0700);
  const auto known = ReadSecret(path, text.size());
  if (!known || *known != text) DIVVY_CHECK(WriteSecret(path, text, false));
  return path;
}

void AddFilesOf(const wire::KeptService& kept, std::set<std::string>& names) {
  if (!kept.certificate.empty()) names.insert(kept.certificate);
  if (!kept.token_hashes.empty()) names.insert(NameOfFile(kTokens, kept.settings.name, LinesOf(kept.token_hashes)));
}

void RemoveOtherFiles(const std::string& folder, const std::set<std::string>& needed) {
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  std::vector<std::string> others;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if ((name.starts_with(kCertificate) || name.starts_with(kTokens)) && !needed.contains(name)) others.push_back(name);
  }
  ::closedir(entries);
  for (const std::string& name : others) ::unlink((folder + "/" + name).c_str());
}

}  // namespace divvy
