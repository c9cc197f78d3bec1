#include "control/books/reservation_registry.h"

#include <gtest/gtest.h>

namespace divvy {
namespace reservation_registry_test {

using std::chrono::hours;
using std::chrono::minutes;

/// A Friday, 12:00 UTC.
const Time kNow = Time(Duration(std::chrono::seconds(1'767'960'000)));

GpuReservation Asked(int gpus = 4, Every every = Every::kOnce) {
  GpuReservation asked;
  asked.gpus = gpus;
  asked.user = "ada";
  asked.start = kNow + hours(1);
  asked.duration = hours(2);
  asked.every = every;
  return asked;
}

std::string ErrorOf(const auto& result) { return result ? "" : result.error().message; }

TEST(ReservationRegistry, EachInvalidFieldIsRefusedByName) {
  ReservationRegistry registry;
  const auto refusal = [&](const std::function<void(GpuReservation&)>& change) {
    GpuReservation asked = Asked();
    change(asked);
    return ErrorOf(registry.Make(asked, kNow));
  };
  EXPECT_EQ(refusal([](GpuReservation&) {}), "");
  EXPECT_EQ(refusal([](GpuReservation& r) { r.gpus = 0; }), "a reservation needs 1 GPU or more: --gpus 4");
  EXPECT_EQ(refusal([](GpuReservation& r) { r.team = "vision"; }),
            "a reservation is for a user or for a team: --user ada, or --team vision");
  EXPECT_EQ(refusal([](GpuReservation& r) { r.start = kNow - hours(3); }),
            "it would have ended already; --start sets when it begins");
  EXPECT_EQ(refusal([](GpuReservation& r) { r.duration = Duration(5); }),
            "a reservation lasts from one minute to 366 days: --duration 4h");
  EXPECT_EQ(refusal([](GpuReservation& r) { r.duration = hours(25), r.every = Every::kDay; }),
            "it lasts longer than the time between two occurrences; --every day takes at most 24 hours");
  EXPECT_EQ(refusal([](GpuReservation& r) { r.name = "7"; }), "'7' is a number, not a name");
  GpuReservation course = *registry.Make(Asked(), kNow);
  course.name = "course";
  registry.Add(course);
  EXPECT_EQ(refusal([](GpuReservation& r) { r.name = "course"; }), "there is a reservation 1 (course) already");
}

TEST(ReservationRegistry, AOneTimeReservationHasOneOccurrence) {
  GpuReservation once = Asked();
  once.number = 3;
  const auto occurrences = OccurrencesOf(once, kNow, kNow + hours(24 * 30));
  ASSERT_EQ(occurrences.size(), 1u);
  EXPECT_EQ(occurrences[0].from, kNow + hours(1));
  EXPECT_EQ(occurrences[0].until, kNow + hours(3));
  EXPECT_EQ(ReservationOf(occurrences[0].id), 3u);
  EXPECT_TRUE(OccurrencesOf(once, kNow + hours(3), kNow + hours(24 * 30)).empty());
  EXPECT_TRUE(OccurrencesOf(once, kNow, kNow + minutes(30)).empty()) << "beyond the horizon";
}

TEST(ReservationRegistry, DailyAndWeeklyReservationsRecurAndKeepTheirNames) {
  GpuReservation daily = Asked(4, Every::kDay);
  daily.number = 1;
  const auto occurrences = OccurrencesOf(daily, kNow, kNow + hours(72));
  ASSERT_EQ(occurrences.size(), 3u);
  EXPECT_EQ(occurrences[2].from, occurrences[0].from + hours(48));
  // A day later, in the middle of the second occurrence.
  const auto later = OccurrencesOf(daily, occurrences[1].from + hours(1), kNow + hours(72));
  ASSERT_EQ(later.size(), 2u);
  EXPECT_EQ(later[0], occurrences[1]);
  GpuReservation weekly = Asked(4, Every::kWeek);
  EXPECT_EQ(OccurrencesOf(weekly, kNow, kNow + hours(24 * 8)).size(), 2u);
}

TEST(ReservationRegistry, WeekdaysFollowTheTimeZoneOfTheCreator) {
  GpuReservation work = Asked(4, Every::kWeekday);
  // Friday 13:00, then Monday.
  auto occurrences = OccurrencesOf(work, kNow, kNow + hours(24 * 4));
  ASSERT_EQ(occurrences.size(), 2u);
  EXPECT_EQ(occurrences[1].from - occurrences[0].from, hours(72));
  // Twelve hours further east it is Saturday already.
  work.utc_offset = hours(12);
  occurrences = OccurrencesOf(work, kNow, kNow + hours(24 * 4));
  ASSERT_EQ(occurrences.size(), 2u);
  EXPECT_EQ(occurrences[0].from, kNow + hours(49));
}

TEST(ReservationRegistry, IsRestoredFromStoredTextsAndDropsPastReservations) {
  ReservationRegistry registry;
  GpuReservation once = *registry.Make(Asked(), kNow);
  once.name = "the course";
  once.by = "root";
  const auto first = registry.Add(once);
  GpuReservation daily = Asked(2, Every::kDay);
  daily.user.clear();
  daily.team = "vision";
  daily.utc_offset = hours(-8);
  const auto second = registry.Add(*registry.Make(daily, kNow));
  ReservationRegistry again;
  for (const auto& [key, text] : {first, second}) EXPECT_TRUE(again.LoadSetting(key, text));
  EXPECT_EQ(again.all(), registry.all());
  EXPECT_EQ(again.Find("the course")->number, 1u);
  EXPECT_EQ(again.Find("2")->team, "vision");
  EXPECT_EQ(ErrorOf(again.Find("9")), "there is no reservation '9'; divvy reserve list shows them");
  const auto dropped = again.DropPast(kNow + hours(4));
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0], (ReservationRegistry::Setting{"reservation.1", ""}));
  EXPECT_EQ(again.all().size(), 1u);
}

}  // namespace reservation_registry_test
}  // namespace divvy
