#include "platform/net/server_pem.h"

#include <gtest/gtest.h>

#include <ctime>

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
  EXPECT_NE(says(std::string(70'000, 'x')).find("more than 64 KiB"), std::string::npos);
  EXPECT_NE(says(IdentityOf("old", Today() - std::chrono::hours(24 * 365 * 12))).find("not valid any more"),
            std::string::npos);
}

}  // namespace
}  // namespace divvy
