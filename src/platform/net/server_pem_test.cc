#include "platform/net/server_pem.h"

#include <gtest/gtest.h>

#include <ctime>
#include <memory>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "platform/net/tls.h"

namespace divvy {
namespace {

std::string IdentityOf(const std::string& name, Time now) { return MakeTlsIdentity(name, now)->pem; }
Time Today() { return TimeFromSeconds(static_cast<double>(std::time(nullptr))); }
std::string KeyIn(const std::string& pem) {
  const std::size_t begin = pem.find("-----BEGIN PRIVATE KEY");
  const std::string_view last = "-----END PRIVATE KEY-----\n";
  return pem.substr(begin, pem.find(last) + last.size() - begin);
}
std::string CertificateIn(const std::string& pem) {
  const std::size_t begin = pem.find("-----BEGIN CERT");
  const std::string_view last = "-----END CERTIFICATE-----\n";
  return pem.substr(begin, pem.find(last) + last.size() - begin);
}

/// A private key. With four primes, it is made within moments.
std::string RsaKeyOf(int bits) {
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nullptr),
                                                                            &EVP_PKEY_CTX_free);
  EVP_PKEY* made = nullptr;
  EXPECT_EQ(EVP_PKEY_keygen_init(context.get()), 1);
  EXPECT_EQ(EVP_PKEY_CTX_set_rsa_keygen_bits(context.get(), bits), 1);
  EXPECT_EQ(EVP_PKEY_CTX_set_rsa_keygen_primes(context.get(), 4), 1);
  EXPECT_EQ(EVP_PKEY_keygen(context.get(), &made), 1);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(made, &EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> out(BIO_new(BIO_s_mem()), &BIO_free_all);
  EXPECT_EQ(PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<std::size_t>(size));
}

TEST(ServerPem, TakesACertificateWithItsKeyInAnyOrder) {
  const std::string own = IdentityOf("own", Today());
  const std::string issuer = CertificateIn(IdentityOf("issuer", Today()));
  const auto checked = CheckServerPem("comment\n" + issuer + KeyIn(own) + CertificateIn(own));
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(*checked, CertificateIn(own) + issuer + KeyIn(own)) << "the certificate of the key is first";
  EXPECT_EQ(*CheckServerPem(*checked), *checked);
}

TEST(ServerPem, SaysWhatIsWrong) {
  const std::string own = IdentityOf("own", Today());
  const auto says = [](const std::string& pem) { return CheckServerPem(pem).error().message; };
  EXPECT_NE(says("").find("it has no certificate"), std::string::npos);
  EXPECT_NE(says(CertificateIn(own)).find("it has no private key"), std::string::npos);
  EXPECT_NE(says(CertificateIn(IdentityOf("other", Today())) + KeyIn(own)).find("belongs to another certificate"),
            std::string::npos);
  EXPECT_NE(says(CertificateIn(own) + RsaKeyOf(4104)).find("its RSA key has more than 4096 bits; use at most 4096"),
            std::string::npos);
  EXPECT_NE(says(CertificateIn(own) + RsaKeyOf(4096)).find("belongs to another certificate"), std::string::npos);
  EXPECT_NE(says(std::string(70'000, 'x')).find("more than 64 KiB"), std::string::npos);
  EXPECT_NE(says(IdentityOf("old", Today() - std::chrono::hours(24 * 365 * 12))).find("not valid any more"),
            std::string::npos);
}

}  // namespace
}  // namespace divvy
