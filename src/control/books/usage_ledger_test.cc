#include "control/books/usage_ledger.h"

#include <gtest/gtest.h>

namespace divvy {
namespace usage_ledger_test {

using std::chrono::hours;

Time On(int year, unsigned month, unsigned day, int hour = 0) {
  const std::chrono::sys_days days(std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day));
  return Time(std::chrono::duration_cast<Duration>(days.time_since_epoch()) + hours(hour));
}

TEST(UsageLedger, PeriodsBeginAtMidnightOnMondayAndOnTheFirst) {
  const Time saturday = On(2026, 2, 28, 15);
  EXPECT_EQ(PeriodStart(BudgetPeriod::kDay, saturday), On(2026, 2, 28));
  EXPECT_EQ(PeriodEnd(BudgetPeriod::kDay, saturday), On(2026, 3, 1));
  EXPECT_EQ(PeriodStart(BudgetPeriod::kWeek, saturday), On(2026, 2, 23));
  EXPECT_EQ(PeriodEnd(BudgetPeriod::kWeek, saturday), On(2026, 3, 2));
  EXPECT_EQ(PeriodStart(BudgetPeriod::kMonth, saturday), On(2026, 2, 1));
  EXPECT_EQ(PeriodEnd(BudgetPeriod::kMonth, saturday), On(2026, 3, 1));
  EXPECT_EQ(PeriodEnd(BudgetPeriod::kMonth, On(2026, 12, 31, 23)), On(2027, 1, 1));
  EXPECT_EQ(PeriodStart(BudgetPeriod::kWeek, On(2026, 2, 23)), On(2026, 2, 23));
}

TEST(UsageLedger, ARunOverMidnightCountsInBothPeriods) {
  UsageLedger ledger;
  ledger.Add({"team:vision", "user:ada"}, {On(2026, 1, 31, 22), On(2026, 2, 1, 3), 2000, 5000});
  EXPECT_EQ(ledger.Of("team:vision", BudgetPeriod::kMonth, On(2026, 2, 2)).gpu_hours_milli(), 6000);
  EXPECT_EQ(ledger.Of("team:vision", BudgetPeriod::kDay, On(2026, 2, 1, 4)).cost_milli(), 15'000);
  EXPECT_EQ(ledger.Of("user:ada", BudgetPeriod::kWeek, On(2026, 2, 1, 4)).gpu_hours_milli(), 10'000);
  EXPECT_EQ(ledger.Of("team:nlp", BudgetPeriod::kMonth, On(2026, 2, 2)), Used());
}

TEST(UsageLedger, IsRestoredFromSettingsAndDropsOldDays) {
  UsageLedger ledger;
  ledger.Add({"team:vision"}, {On(2026, 1, 1, 0), On(2026, 1, 1, 1), 1000, 0});
  auto rows = ledger.TakeChanges(On(2026, 1, 1, 2));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(ledger.TakeChanges(On(2026, 1, 1, 2)).empty());
  UsageLedger again;
  EXPECT_TRUE(again.LoadSetting(rows[0].first, rows[0].second));
  EXPECT_FALSE(again.LoadSetting("team.vision", "x"));
  EXPECT_EQ(again.Of("team:vision", BudgetPeriod::kMonth, On(2026, 1, 9)).gpu_hours_milli(), 1000);
  again.Add({"team:vision"}, {On(2026, 3, 1, 0), On(2026, 3, 1, 1), 1000, 0});
  rows = again.TakeChanges(On(2026, 3, 1, 2));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].second, "") << "January's day goes";
}

}  // namespace usage_ledger_test
}  // namespace divvy
