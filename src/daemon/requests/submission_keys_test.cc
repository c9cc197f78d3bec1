#include "daemon/requests/submission_keys.h"

#include <gtest/gtest.h>

#include "driver/submission_rows.h"

namespace divvy {
namespace submission_keys_test {

constexpr Time kNow = Time(std::chrono::hours(100));

TEST(SubmissionKeys, AKeyIsFoundAgainAfterARestart) {
  SubmissionKeys keys;
  const auto rows = keys.Add(1000, "night-7", {JobId(17), 5}, kNow);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(JobOfSubmissionRow(rows[0].first), JobId(17));
  SubmissionKeys again;
  EXPECT_TRUE(again.LoadSetting(rows[0].first, rows[0].second));
  EXPECT_FALSE(again.LoadSetting("token.17", "x"));
  const auto found = again.Find(1000, "night-7", kNow);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->job, JobId(17));
  EXPECT_EQ(found->count, 5);
  EXPECT_FALSE(again.Find(1001, "night-7", kNow)) << "a key of another user";
  EXPECT_FALSE(again.Find(1000, "night-8", kNow));
}

TEST(SubmissionKeys, OldKeysAreForgotten) {
  SubmissionKeys keys;
  keys.Add(1000, "a", {JobId(1), 1}, kNow);
  keys.Add(1000, "b", {JobId(2), 1}, kNow + std::chrono::hours(1));
  const auto rows = keys.Add(1000, "c", {JobId(3), 1}, kNow + SubmissionKeys::kKept + std::chrono::minutes(1));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], (SubmissionKeys::Setting{SubmissionRow(JobId(1)), ""}));
  EXPECT_FALSE(keys.Find(1000, "a", kNow));
  EXPECT_TRUE(keys.Find(1000, "b", kNow));
}

TEST(SubmissionKeys, AKeyIsNotFoundAfterItsTime) {
  SubmissionKeys keys;
  keys.Add(1000, "a", {JobId(1), 1}, kNow);
  EXPECT_TRUE(keys.Find(1000, "a", kNow + SubmissionKeys::kKept));
  EXPECT_FALSE(keys.Find(1000, "a", kNow + SubmissionKeys::kKept + std::chrono::seconds(1)));
}

TEST(SubmissionKeys, ARefusedSubmissionLeavesItsKeyFree) {
  SubmissionKeys keys;
  keys.Add(1000, "a", {JobId(1), 1}, kNow);
  keys.Drop(1000, "a");
  EXPECT_FALSE(keys.Find(1000, "a", kNow));
  keys.Add(1000, "a", {JobId(2), 1}, kNow);
  EXPECT_EQ(keys.Find(1000, "a", kNow)->job, JobId(2));
}

TEST(SubmissionKeys, OnlyPlainKeysAreAccepted) {
  EXPECT_TRUE(SubmissionKeys::Check("Night.7_a-b"));
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\n"), std::string(101, 'x')})
    EXPECT_FALSE(SubmissionKeys::Check(bad)) << bad;
}

}  // namespace submission_keys_test
}  // namespace divvy
