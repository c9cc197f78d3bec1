#include "daemon/services/service_secrets.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/net/tls.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

class ServiceSecretsTest : public testing::Test {
 protected:
  ServiceSecretsTest() {
    char path[] = "/tmp/divvy-secrets-XXXXXX";
    folder_ = ::mkdtemp(path);
    kept_.settings.name = "chat";
  }
  ~ServiceSecretsTest() override { std::filesystem::remove_all(folder_); }
  std::string Refusal(const wire::ServiceSecrets& secrets) {
    const auto applied = ApplySecrets(secrets, {folder_, ""}, kept_);
    return applied ? "" : applied.error().message;
  }
  static std::string TextIn(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 0777 : 0;
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  std::string folder_;
  wire::KeptService kept_;
};

TEST_F(ServiceSecretsTest, KeepsHashesOfTokensOnly) {
  wire::ServiceSecrets secrets;
  secrets.tokens = {"this-is-a-long-enough-token", "this-is-a-long-enough-token"};
  EXPECT_EQ(Refusal(secrets), "");
  ASSERT_EQ(kept_.token_hashes.size(), 1U) << "the same token twice";
  const std::string path = *TokensPath(kept_, folder_);
  EXPECT_EQ(ModeOf(path), 0600U);
  EXPECT_EQ(TextIn(path), kept_.token_hashes[0] + "\n");
  EXPECT_EQ(wire::Encode(kept_).find("long-enough"), std::string::npos) << "neither file nor row has the token";
  EXPECT_EQ(*TokensPath(kept_, folder_), path) << "the same content is the same file";
}

TEST_F(ServiceSecretsTest, MakesTokensUpToTheLimit) {
  wire::ServiceSecrets secrets;
  secrets.makes_token = true;
  std::set<std::string> made;
  for (std::size_t i = 0; i < kMostTokens; ++i) made.insert(*ApplySecrets(secrets, {folder_, ""}, kept_));
  EXPECT_EQ(made.size(), kMostTokens);
  EXPECT_EQ(made.begin()->size(), 64U);
  EXPECT_NE(Refusal(secrets).find("would have 17 tokens, and the limit is 16"), std::string::npos);
  EXPECT_EQ(kept_.token_hashes.size(), kMostTokens) << "unchanged";
  secrets.removes_tokens = true;
  EXPECT_EQ(Refusal(secrets), "");
  EXPECT_EQ(kept_.token_hashes.size(), 1U);
}

TEST_F(ServiceSecretsTest, RefusesWeakTokensWithoutRepeatingThem) {
  for (const std::string token : {"short-secret", "twenty characters and blanks", "twenty-characters\"-quote-it"}) {
    wire::ServiceSecrets secrets;
    secrets.tokens = {token};
    const std::string why = Refusal(secrets);
    EXPECT_NE(why.find("20 to 200 letters"), std::string::npos);
    EXPECT_EQ(why.find(token), std::string::npos);
  }
}

TEST_F(ServiceSecretsTest, KeepsACertificateInAPrivateFile) {
  wire::ServiceSecrets secrets;
  secrets.certificate = MakeTlsIdentity("chat", TimeFromSeconds(static_cast<double>(std::time(nullptr))))->pem;
  EXPECT_EQ(Refusal(secrets), "");
  const std::string path = *CertificatePath(kept_, {folder_, ""});
  EXPECT_EQ(ModeOf(path), 0600U);
  EXPECT_NE(TextIn(path).find("PRIVATE KEY"), std::string::npos);
  EXPECT_EQ(wire::Encode(kept_).find("PRIVATE KEY"), std::string::npos) << "the store does not have the key";
  const std::string before = kept_.certificate;
  secrets.certificate = "nothing";
  EXPECT_NE(Refusal(secrets).find("it has no certificate"), std::string::npos);
  EXPECT_EQ(kept_.certificate, before);
}

TEST_F(ServiceSecretsTest, AnotherControllerWithTheSameIdentityGetsTheCertificate) {
  wire::ServiceSecrets secrets;
  secrets.certificate = MakeTlsIdentity("chat", TimeFromSeconds(static_cast<double>(std::time(nullptr))))->pem;
  ASSERT_TRUE(ApplySecrets(secrets, {folder_, "the identity of the cluster"}, kept_));
  const std::string row = wire::Encode(kept_);
  EXPECT_EQ(row.find("PRIVATE KEY"), std::string::npos);
  ASSERT_NE(kept_.sealed_certificate, "");
  EXPECT_NE(row.find(kept_.sealed_certificate), std::string::npos);
  const std::string here = TextIn(*CertificatePath(kept_, {folder_, "the identity of the cluster"}));

  const std::string far = folder_ + "/far";
  EXPECT_EQ(TextIn(*CertificatePath(kept_, {far, "the identity of the cluster"})), here);
  EXPECT_EQ(ModeOf(far + "/" + kept_.certificate), 0600U);

  const auto refusal = [this](const wire::KeptService& kept, const std::string& secret) {
    const auto path = CertificatePath(kept, {folder_ + "/elsewhere", secret});
    return path ? "" : path.error().message;
  };
  EXPECT_NE(refusal(kept_, "another identity").find("identity.pem here is not that of the controller"),
            std::string::npos);
  EXPECT_NE(refusal(kept_, "").find("its certificate is not on this machine; set it again"), std::string::npos);
  wire::KeptService changed = kept_;
  changed.settings.name = "other";  // A row of another service with this text.
  EXPECT_NE(refusal(changed, "the identity of the cluster"), "");
  changed = kept_;
  changed.sealed_certificate[30] = changed.sealed_certificate[30] == 'A' ? 'B' : 'A';
  EXPECT_NE(refusal(changed, "the identity of the cluster"), "");
  for (const char* text : {"A", "AAAA", "====", "....", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}) {
    changed.sealed_certificate = text;
    EXPECT_NE(refusal(changed, "the identity of the cluster"), "") << text;
  }

  wire::ServiceSecrets removal;
  removal.removes_certificate = true;
  ASSERT_TRUE(ApplySecrets(removal, {folder_, "the identity of the cluster"}, kept_));
  EXPECT_EQ(kept_.sealed_certificate, "");
}

TEST_F(ServiceSecretsTest, ACertificateFromBeforeIsSealedWhereItsFileIs) {
  wire::ServiceSecrets secrets;
  secrets.certificate = MakeTlsIdentity("chat", TimeFromSeconds(static_cast<double>(std::time(nullptr))))->pem;
  ASSERT_EQ(Refusal(secrets), "");
  ASSERT_EQ(kept_.sealed_certificate, "");
  EXPECT_FALSE(SealCertificate({folder_, ""}, kept_)) << "one controller";
  EXPECT_FALSE(SealCertificate({folder_ + "/far", "the identity of the cluster"}, kept_)) << "no file here";
  EXPECT_TRUE(SealCertificate({folder_, "the identity of the cluster"}, kept_));
  EXPECT_FALSE(SealCertificate({folder_, "the identity of the cluster"}, kept_)) << "done";
  EXPECT_EQ(TextIn(*CertificatePath(kept_, {folder_ + "/far", "the identity of the cluster"})),
            TextIn(folder_ + "/" + kept_.certificate));
  kept_.sealed_certificate.clear();
  std::ofstream(folder_ + "/" + kept_.certificate) << "something else";
  EXPECT_FALSE(SealCertificate({folder_, "the identity of the cluster"}, kept_));
}

TEST_F(ServiceSecretsTest, RemovesFilesThatNoServiceNeeds) {
  wire::ServiceSecrets secrets;
  secrets.makes_token = true;
  ASSERT_TRUE(ApplySecrets(secrets, {folder_, ""}, kept_));
  const std::string old = *TokensPath(kept_, folder_);
  ASSERT_TRUE(ApplySecrets(secrets, {folder_, ""}, kept_));
  const std::string now = *TokensPath(kept_, folder_);
  std::ofstream(folder_ + "/front-1.cfg") << "other";
  std::set<std::string> needed;
  AddFilesOf(kept_, needed);
  RemoveOtherFiles(folder_, needed);
  EXPECT_EQ(ModeOf(old), 0U);
  EXPECT_EQ(ModeOf(now), 0600U);
  EXPECT_EQ(Files(), 2U) << "files of others stay";
}

}  // namespace
}  // namespace divvy
