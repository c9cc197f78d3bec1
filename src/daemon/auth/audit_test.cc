#include "daemon/auth/audit.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "platform/net/audit_chain.h"

namespace divvy {
namespace audit_test {

class AuditFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-audit-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = name + "/audit.log";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static Audit::Entry Cancelled() {
    return {Time(std::chrono::seconds(5)), "ada", 1000, "", "POST", "/v1/jobs/cancel", "{\"ids\":[3]}", 200, "{}"};
  }
  std::string folder_, path_;
};

TEST_F(AuditFile, LogsTheCallerAndTheAction) {
  {
    Audit audit = *Audit::Open(path_);
    audit.Write(Cancelled());
  }
  // A restarted daemon appends to the existing file.
  Audit audit = *Audit::Open(path_);
  Audit::Entry remote = Cancelled();
  remote.address = "10.0.0.9";
  remote.status = 403;
  remote.answered = "{\"message\":\"no\"}";
  audit.Write(remote);
  const std::string text = Read(path_);
  EXPECT_TRUE(text.starts_with(
      "{\"time\":5,\"user\":\"ada\",\"uid\":1000,\"asked\":\"POST /v1/jobs/cancel\",\"with\":\"{\\\"ids\\\":[3]}\","
      "\"status\":200,\"answer\":\"{}\",\"chain\":\""))
      << text;
  EXPECT_NE(
      text.find(
          "\"}\n{\"time\":5,\"user\":\"ada\",\"uid\":1000,\"from\":\"10.0.0.9\",\"asked\":\"POST /v1/jobs/cancel\","
          "\"with\":\"{\\\"ids\\\":[3]}\",\"status\":403,\"answer\":\"{\\\"message\\\":\\\"no\\\"}\",\"chain\":\""),
      std::string::npos)
      << text;
  const auto chain = VerifyAuditLog(path_, "");
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->lines, 2u);
  struct stat about {};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(AuditFile, ContainsNoEnvironmentAndNoToken) {
  Audit audit = *Audit::Open(path_);
  Audit::Entry submitted = Cancelled();
  submitted.path = "/v1/jobs";
  submitted.asked = "{\"spec\":{\"environment\":[\"KEY=hunter2\"]}}";
  submitted.answered = "{\"id\":7}";
  audit.Write(submitted);
  Audit::Entry service = Cancelled();
  for (const char* path : {"/v1/services", "/v1/services/chat"}) {
    service.path = path;
    service.asked = R"({"settings":{"name":"chat"},"spec":{"command":["serve","--key","hunter2"]}})";
    service.answered = R"({"message":"its new token: hunter2"})";
    audit.Write(service);
  }
  service.answered = "";
  service.path = "/v1/services/chat/scale";
  service.asked = R"({"max_replicas":37})";
  audit.Write(service);
  Audit::Entry token = Cancelled();
  token.path = "/v1/tokens";
  token.answered = "{\"line\":\"hunter2\"}";
  audit.Write(token);
  Audit::Entry stranger = Cancelled();
  const std::string long_path(60'000, 'x');
  stranger.path = long_path;
  audit.Write(stranger);
  const std::string text = Read(path_);
  EXPECT_LT(text.size(), 2000u);
  EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  EXPECT_NE(text.find("max_replicas"), std::string::npos) << text;
  EXPECT_NE(text.find("{\\\"id\\\":7}"), std::string::npos) << text;
}

TEST_F(AuditFile, LogsAJobsChangesWithoutSecrets) {
  Audit audit = *Audit::Open(path_);
  Audit::Entry changed = Cancelled();
  changed.path = "/v1/jobs/update";
  changed.asked =
      R"({"select":{"ids":["3"]},"priority":7,"script":"hunter2","command":["hunter2"],"environment":["KEY=hunter2"]})";
  audit.Write(changed);
  const std::string text = Read(path_);
  EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
  for (const char* part : {R"(\"ids\":[\"3\"])", R"(\"priority\":7)", R"(\"script\":\"...\")", R"([\"KEY=...\"])"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST_F(AuditFile, HasABoundedSize) {
  Audit audit = *Audit::Open(path_, 1000);
  for (int i = 0; i < 100; ++i) audit.Write(Cancelled());
  const std::size_t now = Read(path_).size(), before = Read(path_ + ".1").size();
  EXPECT_GT(now, 0u);
  EXPECT_LE(now, 1000u);
  EXPECT_LE(before, 1000u);
  EXPECT_EQ(Read(path_).front(), '{') << "lines are whole";
  // The chain continues from one file to the next.
  const auto chain = VerifyAuditLog(path_, "");
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_GT(chain->lines, 8u) << "those of the old files, too";
  EXPECT_TRUE(chain->has_older);
  EXPECT_TRUE(chain->is_full);
  EXPECT_FALSE(std::filesystem::exists(path_ + "." + std::to_string(kOldAuditLogs + 1)));
}

TEST_F(AuditFile, RefusedRequestsOfAUserCannotPushOutOtherLines) {
  Audit audit = *Audit::Open(path_);
  Audit::Entry refused = Cancelled();
  refused.status = 400;
  const auto lines = [&] {
    const std::string text = Read(path_);
    return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  };
  for (std::uint64_t i = 0; i < Audit::kMostRefusals + 50; ++i) audit.Write(refused);
  EXPECT_EQ(lines(), Audit::kMostRefusals);
  audit.Write(Cancelled());
  EXPECT_EQ(lines(), Audit::kMostRefusals + 2) << "what changed something is always written";
  EXPECT_NE(Read(path_).find(R"("user":"ada","uid":1000,"refusals_left_out":50,"chain")"), std::string::npos);
  refused.uid = 1001;
  audit.Write(refused);
  EXPECT_EQ(lines(), Audit::kMostRefusals + 3) << "others have a number of their own";
  refused.uid = 1000;
  refused.at += std::chrono::hours(1);
  audit.Write(refused);
  EXPECT_EQ(lines(), Audit::kMostRefusals + 4) << "an hour later the count begins at 0";
}

TEST_F(AuditFile, TellsLaterHowManyRefusalsWereLeftOut) {
  Audit audit = *Audit::Open(path_);
  Audit::Entry stranger = Cancelled();
  stranger.user = "";
  stranger.uid = -1;
  stranger.status = 401;
  for (std::uint64_t i = 0; i < Audit::kMostRefusals + 7; ++i) audit.Write(stranger);
  stranger.path = "/ui/login";
  stranger.asked = "the first login";
  audit.Write(stranger);
  EXPECT_NE(Read(path_).find("the first login"), std::string::npos) << "logins do not share the number of bad tokens";
  EXPECT_EQ(Read(path_).find("left_out"), std::string::npos);
  Audit::Entry other = Cancelled();
  other.at += std::chrono::hours(2);
  audit.Write(other);
  EXPECT_NE(Read(path_).find(R"("user":"","uid":-1,"refusals_left_out":7,"chain")"), std::string::npos);
  const auto chain = VerifyAuditLog(path_, "");
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->lines, Audit::kMostRefusals + 3);
}

TEST_F(AuditFile, AChangeThatMayStillBeMadeIsNoRefusal) {
  Audit audit = *Audit::Open(path_);
  Audit::Entry entry = Cancelled();
  entry.status = 403;
  for (std::uint64_t i = 0; i < Audit::kMostRefusals; ++i) audit.Write(entry);
  entry.status = 504;
  entry.asked = "not confirmed";
  audit.Write(entry);
  EXPECT_NE(Read(path_).find("not confirmed"), std::string::npos);
}

TEST_F(AuditFile, OldLogsStayWhenANewOneCannotBegin) {
  Audit audit = *Audit::Open(path_, 1000);
  for (int i = 0; i < 100; ++i) audit.Write(Cancelled());
  const auto old = [this] {
    std::string all;
    for (int age = 1; age <= kOldAuditLogs; ++age) all += Read(path_ + "." + std::to_string(age));
    return all;
  };
  const std::string before = old();
  std::filesystem::create_directory(path_ + ".new");
  for (int i = 0; i < 50; ++i) audit.Write(Cancelled());
  EXPECT_TRUE(old() == before);
  EXPECT_GT(Read(path_).size(), 1000u) << "the log grows instead";
  std::filesystem::remove(path_ + ".new");
  // The oldest log cannot be moved away.
  const std::string oldest = path_ + "." + std::to_string(kOldAuditLogs);
  std::filesystem::rename(oldest, path_ + ".aside");
  std::filesystem::create_directory(oldest);
  for (int i = 0; i < 5; ++i) audit.Write(Cancelled());
  std::filesystem::remove(oldest);
  std::filesystem::rename(path_ + ".aside", oldest);
  EXPECT_TRUE(old() == before);
  audit.Write(Cancelled());
  EXPECT_LE(Read(path_).size(), 1000u);
  EXPECT_GT(Read(path_ + ".1").size(), 1000u);
  const auto chain = VerifyAuditLog(path_, "");
  ASSERT_TRUE(chain) << chain.error().message;
}

TEST_F(AuditFile, ALineCutOffByAPowerFailureIsRemovedAndTheChainContinues) {
  Audit::Open(path_)->Write(Cancelled());
  std::ofstream(path_, std::ios::app) << "{\"time\":5,\"us";
  Audit::Open(path_)->Write(Cancelled());
  const auto chain = VerifyAuditLog(path_, "");
  ASSERT_TRUE(chain) << chain.error().message;
  EXPECT_EQ(chain->lines, 2u);
}

TEST(Audit, WritesNothingWithoutAFile) { Audit().Write({}); }

}  // namespace audit_test
}  // namespace divvy
