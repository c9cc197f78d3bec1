// OpenSSL's objects as owners that free them. For the files that call OpenSSL; no other header includes this one.
#pragma once

#include <memory>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace divvy {

template <auto Free>
struct OpenSslDeleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using Owned = std::unique_ptr<T, OpenSslDeleter<Free>>;

using OwnedKey = Owned<EVP_PKEY, EVP_PKEY_free>;
using OwnedCertificate = Owned<X509, X509_free>;
using OwnedBio = Owned<BIO, BIO_free_all>;
using OwnedContext = Owned<SSL_CTX, SSL_CTX_free>;
using OwnedSsl = Owned<SSL, SSL_free>;

/// Returns an OpenSSL input (BIO) that reads from `text`, which must live longer than the input. Null if no memory is
/// left.
inline OwnedBio BioOf(std::string_view text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// The passphrase callback for reading PEM. It supplies none; without a callback OpenSSL would ask for a passphrase at
/// the terminal.
inline int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace divvy
