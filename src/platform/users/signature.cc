#include "platform/users/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

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
  auto key = FromBase64(secret.substr(kPrefix.size()));
  if (!key || key->empty()) return InvalidArgument("invalid secret: expected \"whsec_\" and a key in base64");
  return *std::move(key);
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
