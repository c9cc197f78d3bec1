#include "daemon/notify/notice_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "driver/notify_rows.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace notice_queue_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class NoticeQueueTest : public testing::Test {
 protected:
  NoticeQueueTest() {
    limits_.most_per_minute = 60;
    limits_.most_of_one = 3;
    limits_.most_at_once = 2;
  }
  wire::QueuedNotice Notice(const std::string& id, const std::string& to = "user/1/phone", std::uint64_t job = 7) {
    wire::QueuedNotice notice;
    notice.to = to;
    notice.notice.id = id;
    notice.notice.event = "end";
    notice.notice.time = ToSeconds(now_);
    notice.notice.job.emplace();
    notice.notice.job->id = JobId(job);
    return notice;
  }
  /// Applies the rows as the store would.
  void Keep(const std::vector<NoticeQueue::Setting>& rows) {
    for (const auto& [key, text] : rows) {
      if (text.empty()) rows_.erase(key);
      else rows_[key] = text;
    }
  }
  void Add(NoticeQueue& queue, const wire::QueuedNotice& notice) {
    const auto row = NoticeQueue::RowOf(notice);
    Keep({row});
    EXPECT_TRUE(queue.LoadSetting(row.first, row.second));
  }
  /// Returns the ids of the due notices.
  std::string Take(NoticeQueue& queue) {
    std::string ids;
    for (const auto& notice : queue.Take(now_)) ids += (ids.empty() ? "" : " ") + notice.notice.id;
    return ids;
  }
  void Say(NoticeQueue& queue, const std::string& id, bool is_done, bool may_try_again = true, double after = 0) {
    Keep(queue.OnResult("user/1/phone", id, {is_done, may_try_again, after, is_done ? "fine" : "refused"}, now_));
  }

  NoticeQueue::Limits limits_;
  Time now_ = TimeFromSeconds(1'790'000'000);
  std::map<std::string, std::string> rows_;
};

TEST_F(NoticeQueueTest, AReceiverGetsOneNoticeAfterTheOther) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("a"));
  now_ += seconds(1);
  Add(queue, Notice("b"));
  EXPECT_EQ(Take(queue), "a");
  EXPECT_EQ(Take(queue), "") << "b waits until a was delivered";
  Say(queue, "a", true);
  EXPECT_EQ(Take(queue), "b");
  Say(queue, "b", true);
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.Of("user/1/phone").kept.sent, 2);
  EXPECT_EQ(rows_.size(), 1U) << "only how it went is kept";
}

TEST_F(NoticeQueueTest, FailuresAreRetriedWithGrowingDelays) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("a"));
  double before = 0;
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Take(queue), "a") << i;
    Say(queue, "a", false);
    const double wait = ToSeconds(queue.NextDue(now_) - now_);
    const double doubled = 5.0 * (1 << i);
    EXPECT_GE(wait, doubled * 0.79) << i;
    EXPECT_LE(wait, doubled * 1.21) << i;
    EXPECT_GT(wait, before) << i;
    before = wait;
    now_ += seconds(1);
    EXPECT_EQ(Take(queue), "") << i;
    now_ = queue.NextDue(now_);
  }
  EXPECT_EQ(queue.Of("user/1/phone").kept.failure, "refused");
  EXPECT_EQ(Take(queue), "a");
  Say(queue, "a", true);
  EXPECT_EQ(queue.Of("user/1/phone").kept.failure, "") << "it works again";
  Add(queue, Notice("b"));
  EXPECT_EQ(Take(queue), "b") << "and hears of all at once again";
}

TEST_F(NoticeQueueTest, TheReceiverMaySetTheRetryDelay) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("a"));
  Take(queue);
  Say(queue, "a", false, true, 90);
  EXPECT_EQ(queue.NextDue(now_), now_ + seconds(90));
}

TEST_F(NoticeQueueTest, RefusedAndExpiredNoticesAreDropped) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("a"));
  Take(queue);
  Say(queue, "a", false, false);
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.Of("user/1/phone").kept.lost, 1);
  Add(queue, Notice("b"));
  Take(queue);
  now_ += hours(24);
  Say(queue, "b", false, true);
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.Of("user/1/phone").kept.lost, 2);
}

TEST_F(NoticeQueueTest, AKillLosesNothing) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("later"));
  wire::QueuedNotice early = Notice("early");
  early.notice.time -= 10;
  Add(queue, early);
  EXPECT_EQ(Take(queue), "early");
  // The daemon is killed during a delivery: the next one only has the rows.
  NoticeQueue next(limits_);
  for (const auto& [key, text] : rows_) EXPECT_TRUE(next.LoadSetting(key, text)) << key;
  EXPECT_EQ(next.size(), 2U);
  EXPECT_EQ(Take(next), "early") << "again, under the same id";
  Keep(next.OnResult("user/1/phone", "early", {true, false, 0, "fine"}, now_));
  EXPECT_EQ(Take(next), "later");
}

TEST_F(NoticeQueueTest, ASilentReceiverDoesNotDelayOthers) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("a"));
  Take(queue);
  Add(queue, Notice("b", "admin/ops"));
  EXPECT_EQ(Take(queue), "b");
  Add(queue, Notice("c", "admin/other"));
  EXPECT_EQ(Take(queue), "") << "two are under way";
  EXPECT_EQ(queue.NextDue(now_), kNever);
  Say(queue, "a", true);
  EXPECT_EQ(Take(queue), "c");
}

TEST_F(NoticeQueueTest, AReceiverIsRateLimited) {
  limits_.most_per_minute = 2;
  limits_.most_of_one = 10;
  NoticeQueue queue(limits_);
  for (const char* id : {"a", "b", "c"}) Add(queue, Notice(id));
  for (const char* id : {"a", "b"}) {
    EXPECT_EQ(Take(queue), id);
    Say(queue, id, true);
  }
  EXPECT_EQ(Take(queue), "");
  EXPECT_NEAR(ToSeconds(queue.NextDue(now_) - now_), 30, 0.01);
  now_ = queue.NextDue(now_);
  EXPECT_EQ(Take(queue), "c");
}

TEST_F(NoticeQueueTest, NoticesBeyondTheLimitAreCountedAsLost) {
  NoticeQueue queue(limits_);
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_TRUE(queue.TakesFor("user/1/phone"));
    Add(queue, Notice(id));
  }
  EXPECT_FALSE(queue.TakesFor("user/1/phone"));
  EXPECT_TRUE(queue.TakesFor("user/2/phone"));
  EXPECT_EQ(queue.Of("user/1/phone").kept.lost, 1);
}

TEST_F(NoticeQueueTest, OneUserFillsNeitherTheQueueNorTheMailLimit) {
  limits_.most_of_an_owner = 20;
  limits_.most_per_minute = 2;
  NoticeQueue queue(limits_);
  int taken = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string to = "mail/1000/a" + std::to_string(i) + "@example.org";
    if (!queue.TakesFor(to)) continue;
    ++taken;
    Add(queue, Notice("n" + std::to_string(i), to));
  }
  EXPECT_EQ(taken, 20);
  EXPECT_TRUE(queue.TakesFor("user/1001/phone")) << "others have their own room";
  const auto first = queue.Take(now_);
  ASSERT_EQ(first.size(), 2U);
  for (const auto& notice : first) Keep(queue.OnResult(notice.to, notice.notice.id, {true, false, 0, ""}, now_));
  EXPECT_EQ(Take(queue), "") << "all addresses of a user together";
  while (queue.size() > 0) {
    now_ = queue.NextDue(now_);
    for (const auto& notice : queue.Take(now_))
      Keep(queue.OnResult(notice.to, notice.notice.id, {true, false, 0, ""}, now_));
  }
  EXPECT_EQ(queue.Receivers().size(), NoticeQueue::kMostMails);
  EXPECT_EQ(rows_.size(), NoticeQueue::kMostMails) << "addresses are forgotten";
}

TEST_F(NoticeQueueTest, ARemovedReceiverLeavesNoRows) {
  NoticeQueue queue(limits_);
  Add(queue, Notice("a"));
  Add(queue, Notice("b"));
  EXPECT_EQ(Take(queue), "a");
  Keep(queue.Drop("user/1/phone"));
  EXPECT_TRUE(rows_.empty());
  EXPECT_TRUE(queue.OnResult("user/1/phone", "a", {true, false, 0, ""}, now_).empty());
  EXPECT_EQ(queue.size(), 0U);
}

TEST_F(NoticeQueueTest, RowsNameTheirJob) {
  EXPECT_EQ(JobOfNoticeRow(NoticeQueue::RowOf(Notice("a")).first), JobId(7));
  EXPECT_EQ(JobOfNoticeRow(std::string(kWishRow) + "12"), JobId(12));
  EXPECT_EQ(JobOfNoticeRow("notify.notice.0.ntc"), std::nullopt) << "of no job";
  EXPECT_EQ(JobOfNoticeRow("token.4f1c22aa"), std::nullopt);
}

}  // namespace notice_queue_test
}  // namespace divvy
