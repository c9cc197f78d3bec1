#include "daemon/shares/share_journal.h"

#include <gtest/gtest.h>

namespace divvy {
namespace share_journal_test {

using namespace std::chrono_literals;
using wire::ShareState;

const Time kNow = Time(1h);

wire::KeeperState With(int gpu, ShareState state = ShareState::kRunning, std::vector<std::string> words = {}) {
  wire::KeeperState shown;
  wire::KeptTenant& tenant = shown.tenants.emplace_back();
  tenant.job = JobId(7);
  tenant.attempt = 1;
  tenant.state = state;
  tenant.words = std::move(words);
  wire::KeptShare& share = tenant.shares.emplace_back();
  share.gpu = gpu;
  return shown;
}

std::string Told(ShareJournal& journal, const wire::KeeperState& state, Time now = kNow) {
  const auto events = journal.Follow(state, now);
  EXPECT_LE(events.size(), 1U);
  return events.empty() ? "" : events.front().text;
}

TEST(ShareJournal, ParkingWakingAndMovingAreReportedOnce) {
  ShareJournal journal;
  EXPECT_EQ(Told(journal, With(0)), "") << "as planned";
  EXPECT_EQ(Told(journal, With(0, ShareState::kIdle)), "");
  EXPECT_EQ(Told(journal, With(0, ShareState::kParking)), "");
  const auto parked = With(0, ShareState::kParked, {"parked on the host: its room was needed"});
  EXPECT_EQ(Told(journal, parked), "its GPU memory went to the host: its room was needed");
  EXPECT_EQ(Told(journal, parked), "");
  EXPECT_EQ(Told(journal, With(1, ShareState::kWaking)), "");
  EXPECT_EQ(Told(journal, With(1)), "back on GPU 1");
  EXPECT_EQ(Told(journal, With(0, ShareState::kMoving)), "");
  EXPECT_EQ(Told(journal, With(0)), "moved from GPU 1 to GPU 0");
  EXPECT_EQ(Told(journal, With(0)), "");
}

TEST(ShareJournal, AMoveThroughTheHostIsReportedAsAMove) {
  ShareJournal journal;
  Told(journal, With(0));
  EXPECT_EQ(Told(journal, With(0, ShareState::kParked, {"parked on the host: on its way to another GPU"})), "");
  EXPECT_EQ(Told(journal, With(1)), "moved from GPU 0 to GPU 1");
}

// Between two reported states the tenant was on the host, or on another GPU and back.
TEST(ShareJournal, ChangesBetweenTwoReportsAreReportedFromTheirRecords) {
  ShareJournal journal;
  EXPECT_EQ(Told(journal, With(1)), "on GPU 1 for now (its guaranteed fraction is on GPU 0)");
  wire::KeeperState shown = With(1);
  shown.tenants.front().passages = {{kNow + 1s, false, {0}, {}}, {kNow + 2s, false, {1}, {}}};
  std::vector<std::string> told;
  for (const ShareEvent& event : journal.Follow(shown, kNow)) told.push_back(event.text);
  EXPECT_EQ(told, (std::vector<std::string>{"moved from GPU 1 to GPU 0", "moved from GPU 0 to GPU 1"}));
  EXPECT_EQ(Told(journal, shown), "");
  auto& passages = shown.tenants.front().passages;
  passages.push_back({kNow + 3s, true, {1}, {"parked on the host: on request"}});
  passages.push_back({kNow + 4s, false, {1}, {}});
  told.clear();
  for (const ShareEvent& event : journal.Follow(shown, kNow)) told.push_back(event.text);
  EXPECT_EQ(told, (std::vector<std::string>{"its GPU memory went to the host: on request", "back on GPU 1"}));
  passages.push_back({kNow + 5s, false, {1}, {"damaged while it was moved"}});
  EXPECT_EQ(Told(journal, shown).substr(0, 34), "its GPU memory was damaged while i")
      << "its processes may end at once";
  EXPECT_EQ(Told(journal, shown), "");
}

TEST(ShareJournal, ATenantThatStartsOnAnotherGpuThanPlannedIsReported) {
  ShareJournal journal;
  EXPECT_EQ(Told(journal, With(3)), "on GPU 3 for now (its guaranteed fraction is on GPU 0)");
  wire::KeeperState next = With(2);
  next.tenants.front().attempt = 2;
  EXPECT_EQ(Told(journal, next), "on GPU 2 for now (its guaranteed fraction is on GPU 0)")
      << "another attempt begins anew";
}

TEST(ShareJournal, ABusyNodeIsRateLimitedAndCountsWhatItOmits) {
  ShareJournal journal;
  Told(journal, With(0));
  int told = 0;
  for (int i = 1; i <= 1000; ++i) told += Told(journal, With(i % 2)).empty() ? 0 : 1;
  EXPECT_EQ(told, ShareJournal::kAtOnce);
  const std::string later = Told(journal, With(1), kNow + 61s);
  EXPECT_EQ(later, "moved from GPU 0 to GPU 1 (and 990 times moved or parked before that, not listed individually)");
  EXPECT_EQ(Told(journal, With(0), kNow + 62s), "") << "one a minute";
}

}  // namespace share_journal_test
}  // namespace divvy
