#include "platform/users/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <vector>

#include "base/base64.h"

namespace divvy {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::size_t kKeyBytes = 32;

const unsigned char* AsUnsigned(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), AsUnsigned(text), text.size(), digest.data(), &size);
  return Base64({reinterpret_cast<const char*>(digest.data()), size});
}

Result<std::string> KeyOfSecret(std::string_view secret) {
  if (!secret.starts_with(kPrefix)) return std::string(secret);
  const std::string_view text = secret.substr(kPrefix.size());
  if (text.empty() || text.size() % 4 != 0)
    return InvalidArgument("invalid secret: expected \"whsec_\" and a key in base64");
  std::vector<unsigned char> key(text.size() / 4 * 3);
  const int size = ::EVP_DecodeBlock(key.data(), AsUnsigned(text), static_cast<int>(text.size()));
  if (size < 0) return InvalidArgument("invalid secret: expected \"whsec_\" and a key in base64");
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  return std::string(reinterpret_cast<const char*>(key.data()), static_cast<std::size_t>(size) - padding);
}

Result<std::string> MakeSecret() {
  std::array<unsigned char, kKeyBytes> key{};
  if (::RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    return Internal("the system returns no random bytes");
  return std::string(kPrefix) + Base64({reinterpret_cast<const char*>(key.data()), key.size()});
}

Result<std::string> SignRequest(std::string_view secret, std::string_view id, std::string_view timestamp,
                                std::string_view body) {
  DIVVY_TRY(const std::string key, KeyOfSecret(secret));
  return "v1," + HmacSha256(key, std::string(id) + "." + std::string(timestamp) + "." + std::string(body));
}

}  // namespace divvy
