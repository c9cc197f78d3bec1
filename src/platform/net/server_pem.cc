#include "platform/net/server_pem.h"

#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "platform/net/openssl_objects.h"

namespace divvy {
namespace {

constexpr std::size_t kMostServerPem = 64u << 10;
constexpr std::size_t kMostIssuers = 10;
constexpr int kMostRsaBits = 4096;
constexpr int kSecurityLevel = 2;  // Debian's default: 2048 bits for RSA. HAProxy does not start with a weaker one.

Error WrongPem(const std::string& what) {
  return InvalidArgument("the certificate cannot be used: " + what +
                         "; expected PEM with the certificate, those of its issuers, and the private key without a "
                         "passphrase");
}

std::string ReasonOfOpenSsl() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "OpenSSL refuses it" : reason;
}

}  // namespace

Result<std::string> CheckServerPem(std::string_view pem) {
  if (pem.size() > kMostServerPem) return WrongPem("it has more than 64 KiB");
  ERR_clear_error();
  std::vector<OwnedCertificate> certificates;
  const OwnedBio bio = BioOf(pem);
  while (bio) {
    OwnedCertificate next(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
    if (!next) break;
    if (certificates.size() > kMostIssuers) return WrongPem("it has more than 10 certificates of issuers");
    certificates.push_back(std::move(next));
  }
  ERR_clear_error();
  if (certificates.empty()) return WrongPem("it has no certificate");
  const OwnedBio again = BioOf(pem);
  const OwnedKey key(again ? PEM_read_bio_PrivateKey(again.get(), nullptr, NoPassphrase, nullptr) : nullptr);
  ERR_clear_error();
  if (!key) return WrongPem("it has no private key that can be read without a passphrase");
  // HAProxy serves all services with one thread, and each connection costs an operation with the private key. So longer
  // RSA keys are refused.
  const int kind = EVP_PKEY_base_id(key.get());
  if ((kind == EVP_PKEY_RSA || kind == EVP_PKEY_RSA_PSS) && EVP_PKEY_bits(key.get()) > kMostRsaBits)
    return InvalidArgument(
        "the certificate cannot be used: its RSA key has more than 4096 bits; use at most 4096, or an EC key");
  // Moves the certificate that belongs to the key to the front.
  for (OwnedCertificate& certificate : certificates) {
    if (X509_check_private_key(certificate.get(), key.get()) == 1) {
      std::swap(certificate, certificates.front());
      break;
    }
  }
  ERR_clear_error();
  X509* leaf = certificates.front().get();
  if (X509_check_private_key(leaf, key.get()) != 1) {
    ERR_clear_error();
    return WrongPem("the private key belongs to another certificate");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(leaf)) <= 0) return WrongPem("it is not valid any more");
  const OwnedContext context(SSL_CTX_new(TLS_server_method()));
  if (!context) return Internal("OpenSSL: " + ReasonOfOpenSsl());
  SSL_CTX_set_security_level(context.get(), kSecurityLevel);
  bool is_taken =
      SSL_CTX_use_certificate(context.get(), leaf) == 1 && SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1;
  for (std::size_t i = 1; is_taken && i < certificates.size(); ++i)
    is_taken = SSL_CTX_add1_chain_cert(context.get(), certificates[i].get()) == 1;
  if (!is_taken) return WrongPem(ReasonOfOpenSsl());
  const OwnedBio out(BIO_new(BIO_s_mem()));
  bool is_written = out != nullptr;
  for (const OwnedCertificate& certificate : certificates)
    is_written = is_written && PEM_write_bio_X509(out.get(), certificate.get()) == 1;
  is_written =
      is_written && PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  if (!is_written) return Internal("OpenSSL: " + ReasonOfOpenSsl());
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

}  // namespace divvy
