#include "platform/users/sealed_text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <memory>

#include "base/base64.h"

namespace divvy {
namespace {

constexpr std::size_t kNonce = 12;
constexpr std::size_t kTag = 16;
constexpr std::size_t kMostText = std::size_t{1} << 20;

using SealKey = std::array<unsigned char, EVP_MAX_MD_SIZE>;
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&::EVP_CIPHER_CTX_free)>;

unsigned char* OctetsAt(std::string& text, std::size_t at) {
  return reinterpret_cast<unsigned char*>(text.data() + at);
}
const unsigned char* BytesOf(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

SealKey SealKeyOf(std::string_view secret, std::string_view purpose) {
  SealKey key{};
  unsigned size = 0;
  const std::string text = "divvy sealed text 1 " + std::string(purpose);
  ::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()), BytesOf(text), text.size(), key.data(), &size);
  return key;
}

Error Damaged() { return {ErrorCode::kCorruptData, "it was sealed with another secret, or was changed"}; }

}  // namespace

Result<std::string> SealText(std::string_view secret, std::string_view purpose, std::string_view text) {
  if (text.size() > kMostText) return LimitExceeded("a text to seal has more than 1 MiB");
  SealKey key = SealKeyOf(secret, purpose);
  const Cipher cipher(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  std::string sealed(kNonce + text.size() + kTag, '\0');
  int size = 0;
  const bool is_sealed =
      cipher != nullptr && ::RAND_bytes(OctetsAt(sealed, 0), kNonce) == 1 &&
      ::EVP_EncryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, key.data(), OctetsAt(sealed, 0)) == 1 &&
      ::EVP_EncryptUpdate(cipher.get(), OctetsAt(sealed, kNonce), &size, BytesOf(text),
                          static_cast<int>(text.size())) == 1 &&
      ::EVP_EncryptFinal_ex(cipher.get(), OctetsAt(sealed, kNonce + text.size()), &size) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTag, OctetsAt(sealed, kNonce + text.size())) == 1;
  ::OPENSSL_cleanse(key.data(), key.size());
  if (!is_sealed) return Internal("the text cannot be sealed");
  return Base64(sealed);
}

Result<std::string> OpenText(std::string_view secret, std::string_view purpose, std::string_view sealed) {
  auto bytes = sealed.size() <= 2 * kMostText ? FromBase64(sealed) : std::nullopt;
  if (!bytes || bytes->size() < kNonce + kTag) return Damaged();
  const std::size_t length = bytes->size() - kNonce - kTag;
  SealKey key = SealKeyOf(secret, purpose);
  const Cipher cipher(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  std::string text(length + 1, '\0');  // Not empty, so that there is a place to write to.
  int size = 0;
  const bool is_open =
      cipher != nullptr &&
      ::EVP_DecryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, key.data(), OctetsAt(*bytes, 0)) == 1 &&
      ::EVP_DecryptUpdate(cipher.get(), OctetsAt(text, 0), &size, OctetsAt(*bytes, kNonce), static_cast<int>(length)) ==
          1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTag, OctetsAt(*bytes, kNonce + length)) == 1 &&
      ::EVP_DecryptFinal_ex(cipher.get(), OctetsAt(text, length), &size) == 1;
  ::OPENSSL_cleanse(key.data(), key.size());
  if (!is_open) return Damaged();
  text.resize(length);
  return text;
}

}  // namespace divvy
