#include "daemon/views/job_privacy.h"

#include <gtest/gtest.h>

#include "wire/messages/page_messages.h"

namespace divvy {
namespace job_privacy_test {

JobPrivacy Of(const std::string& user, bool hides_others, bool is_admin = false) {
  Caller caller;
  caller.user.name = user;
  caller.is_admin = is_admin;
  return {caller, hides_others};
}

wire::JobInFull JobOfBob() {
  wire::JobInFull job;
  job.user = "bob";
  job.name = "takeover";
  job.comment = "secret";
  job.reason = "could not start: cannot enter directory '/home/bob/takeover of acme': No such file";
  job.history = {"2026-03-01 10:00:02.120 " + job.reason};
  return job;
}

TEST(JobPrivacy, ReasonsShowNoPathsToOtherUsers) {
  wire::JobInFull job = JobOfBob();
  Of("alice", false).Conceal(job);
  EXPECT_EQ(job.reason, "could not start: cannot enter directory '...': No such file");
  EXPECT_EQ(job.history[0], "2026-03-01 10:00:02.120 " + job.reason);
  EXPECT_EQ(job.name, "takeover");
}

TEST(JobPrivacy, OwnersAndAdministratorsSeeEverything) {
  for (const JobPrivacy& privacy : {Of("bob", true), Of("root", true, true), JobPrivacy()}) {
    wire::JobInFull job = JobOfBob();
    privacy.Conceal(job);
    EXPECT_EQ(job.reason, JobOfBob().reason);
    EXPECT_EQ(job.name, "takeover");
    EXPECT_EQ(job.history, JobOfBob().history);
  }
}

TEST(JobPrivacy, NamesAndReasonsOfOthersCanBeHidden) {
  wire::JobInFull job = JobOfBob();
  Of("alice", true).Conceal(job);
  EXPECT_EQ(job.name + job.comment + job.reason, "");
  EXPECT_TRUE(job.history.empty());
  EXPECT_EQ(job.user, "bob");
}

TEST(JobPrivacy, QuotedPathsAreHiddenUpToTheClosingQuote) {
  EXPECT_EQ(WithoutPaths("/a/b: no, (/c) and 'x/y' or 1/2 of \"/d e\" now"),
            "... no, (...) and 'x/y' or 1/2 of \"...\" now");
  EXPECT_EQ(WithoutPaths("open '/unfinished"), "open '...");
  EXPECT_EQ(WithoutPaths("cannot open '/home/bob/it's all' of acme/x' for writing"), "cannot open '...' for writing");
  EXPECT_EQ(WithoutPaths(""), "");
}

}  // namespace job_privacy_test
}  // namespace divvy
