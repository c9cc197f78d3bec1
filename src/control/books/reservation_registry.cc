#include "control/books/reservation_registry.h"

#include <algorithm>

#include "base/index_ranges.h"
#include "base/text.h"

namespace divvy {
namespace {

using Days = std::chrono::duration<std::int64_t, std::ratio<86400>>;
constexpr Duration kDay = std::chrono::hours(24);
constexpr Duration kLongest = std::chrono::hours(24 * 366);
constexpr std::size_t kMostReservations = 1000;

Duration StepOf(Every every) { return every == Every::kWeek ? 7 * kDay : kDay; }

/// In the creator's time zone. 1970 began on a Thursday.
bool IsWeekday(Time time, Duration utc_offset) {
  const std::int64_t day = std::chrono::floor<Days>(time.time_since_epoch() + utc_offset).count();
  return ((day + 3) % 7 + 7) % 7 < 5;
}

bool IsLabel(std::string_view text) {
  return text.size() <= 64 && std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= ' '; });
}

/// "100001 0-3 n1"
GpuReservation::Kept KeptOf(std::string_view text) {
  const std::vector<std::string_view> words = Split(text, ' ');
  GpuReservation::Kept kept;
  if (words.size() != 3) return kept;
  const auto occurrence = ParseInteger(words[0]);
  const auto gpus = IndexRanges::Parse(words[1], "a reservation's GPUs");
  if (!occurrence || *occurrence < 0 || !gpus || gpus->empty() || gpus->back() >= GpuSet::kCapacity) return kept;
  kept.occurrence = static_cast<std::uint64_t>(*occurrence);
  for (std::uint32_t i = 0; i < gpus->size(); ++i) kept.gpus.Insert(static_cast<GpuIndex>(*gpus->Nth(i)));
  kept.node = words[2];
  return kept;
}

}  // namespace

std::string_view Name(Every every) {
  switch (every) {
    case Every::kOnce:
      return "once";
    case Every::kDay:
      return "day";
    case Every::kWeekday:
      return "weekday";
    case Every::kWeek:
      return "week";
  }
  return "";
}

std::optional<Every> EveryFromName(std::string_view name) {
  for (const Every every : {Every::kOnce, Every::kDay, Every::kWeekday, Every::kWeek}) {
    if (Name(every) == name) return every;
  }
  return std::nullopt;
}

bool IsFor(const GpuReservation& reservation, std::string_view user, std::string_view team) {
  return reservation.user.empty() ? reservation.team == team : reservation.user == user;
}

std::string NameOf(const GpuReservation& reservation) {
  return "reservation " + std::to_string(reservation.number) +
         (reservation.name.empty() ? "" : " (" + reservation.name + ")");
}

std::string Describe(Every every) { return every == Every::kOnce ? "once" : "every " + std::string(Name(every)); }

std::vector<ReservationOccurrence> OccurrencesOf(const GpuReservation& reservation, Time now, Time until) {
  std::vector<ReservationOccurrence> occurrences;
  const auto add = [&](std::int64_t ordinal, Time from) {
    const Time end = AddSaturating(from, reservation.duration);
    if (end <= now || from >= until) return;
    const auto which = static_cast<std::uint64_t>(ordinal) % kOccurrencesPerReservation;
    occurrences.push_back({reservation.number * kOccurrencesPerReservation + which, reservation.number, from, end});
  };
  if (reservation.every == Every::kOnce) {
    add(0, reservation.start);
    return occurrences;
  }
  const Duration step = StepOf(reservation.every);
  // A long occurrence may have begun several steps ago.
  const Duration passed = now - reservation.start - reservation.duration;
  std::int64_t ordinal = passed > Duration(0) ? passed / step : 0;
  for (Time from = reservation.start + ordinal * step; from < until; from += step, ++ordinal) {
    if (reservation.every == Every::kWeekday && !IsWeekday(from, reservation.utc_offset)) continue;
    add(ordinal, from);
  }
  return occurrences;
}

Result<GpuReservation> ReservationRegistry::Make(GpuReservation asked, Time now) const {
  if (asked.gpus < 1) return InvalidArgument("a reservation needs 1 GPU or more: --gpus 4");
  if (asked.user.empty() == asked.team.empty())
    return InvalidArgument("a reservation is for a user or for a team: --user ada, or --team vision");
  if (asked.duration < std::chrono::minutes(1) || asked.duration > kLongest)
    return InvalidArgument("a reservation lasts from one minute to 366 days: --duration 4h");
  if (asked.start == kNoTime || asked.start - now > kLongest)
    return InvalidArgument("a reservation begins within 366 days: --start tomorrow");
  if (asked.every == Every::kOnce && AddSaturating(asked.start, asked.duration) <= now)
    return InvalidArgument("it would have ended already; --start sets when it begins");
  if (asked.every != Every::kOnce && asked.duration > StepOf(asked.every)) {
    return InvalidArgument("it lasts longer than the time between two occurrences; --every " +
                           std::string(Name(asked.every)) + " takes at most " +
                           (asked.every == Every::kWeek ? "7 days" : "24 hours"));
  }
  if (!IsLabel(asked.name)) return InvalidArgument("a reservation's name is one plain line of at most 64 bytes");
  if (ParseInteger(asked.name)) return InvalidArgument("'" + asked.name + "' is a number, not a name");
  if (reservations_.size() >= kMostReservations)
    return LimitExceeded("there are " + std::to_string(kMostReservations) + " reservations; cancel some");
  for (const auto& [number, other] : reservations_) {
    if (!asked.name.empty() && other.name == asked.name)
      return Error{ErrorCode::kAlreadyExists, "there is a " + NameOf(other) + " already"};
  }
  asked.number = reservations_.empty() ? 1 : reservations_.rbegin()->first + 1;
  return asked;
}

ReservationRegistry::Setting ReservationRegistry::Add(const GpuReservation& reservation) {
  reservations_[reservation.number] = reservation;
  const auto seconds = [](Duration duration) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count());
  };
  std::string text = "gpus " + std::to_string(reservation.gpus) + "\n";
  text += "start " + seconds(reservation.start.time_since_epoch()) + "\n";
  text += "duration " + seconds(reservation.duration) + "\n";
  text += "every " + std::string(Name(reservation.every)) + "\n";
  text += "utc_offset " + seconds(reservation.utc_offset) + "\n";
  text += reservation.user.empty() ? "team " + reservation.team + "\n" : "user " + reservation.user + "\n";
  if (!reservation.by.empty()) text += "by " + reservation.by + "\n";
  if (!reservation.kept.gpus.empty()) {
    IndexRanges gpus;
    for (const int gpu : reservation.kept.gpus.ToVector()) gpus.Insert(static_cast<std::uint32_t>(gpu));
    text += "kept " + std::to_string(reservation.kept.occurrence) + " " + gpus.ToString() + " " +
            reservation.kept.node + "\n";
  }
  if (!reservation.name.empty()) text += "name " + reservation.name + "\n";
  return {std::string(kReservationPrefix) + std::to_string(reservation.number), text};
}

Result<GpuReservation> ReservationRegistry::Find(std::string_view which) const {
  const auto number = ParseInteger(which);
  for (const auto& [key, reservation] : reservations_) {
    const bool is_it = number ? key == static_cast<std::uint64_t>(*number) : reservation.name == which;
    if (is_it) return reservation;
  }
  return NotFound("there is no reservation '" + std::string(which) + "'; divvy reserve list shows them");
}

ReservationRegistry::Setting ReservationRegistry::Remove(std::uint64_t number) {
  reservations_.erase(number);
  return {std::string(kReservationPrefix) + std::to_string(number), ""};
}

std::vector<ReservationRegistry::Setting> ReservationRegistry::DropPast(Time now) {
  std::vector<std::uint64_t> past;
  for (const auto& [number, reservation] : reservations_) {
    const bool is_past =
        reservation.every == Every::kOnce && AddSaturating(reservation.start, reservation.duration) <= now;
    if (is_past) past.push_back(number);
  }
  std::vector<Setting> settings;
  for (const std::uint64_t number : past) settings.push_back(Remove(number));
  return settings;
}

bool ReservationRegistry::LoadSetting(std::string_view key, std::string_view text) {
  if (!key.starts_with(kReservationPrefix)) return false;
  const auto number = ParseInteger(key.substr(kReservationPrefix.size()));
  if (!number || *number < 1 || Trim(text).empty()) return true;
  GpuReservation reservation;
  reservation.number = static_cast<std::uint64_t>(*number);
  for (const std::string_view line : Split(text, '\n')) {
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view what = line.substr(0, blank), value = line.substr(blank + 1);
    const auto seconds = std::chrono::seconds(ParseInteger(value).value_or(0));
    if (what == "gpus") reservation.gpus = static_cast<int>(seconds.count());
    if (what == "start") reservation.start = Time(Duration(seconds));
    if (what == "duration") reservation.duration = seconds;
    if (what == "utc_offset") reservation.utc_offset = seconds;
    if (what == "every") reservation.every = EveryFromName(value).value_or(Every::kOnce);
    if (what == "user") reservation.user = value;
    if (what == "team") reservation.team = value;
    if (what == "by") reservation.by = value;
    if (what == "name") reservation.name = value;
    if (what == "kept") reservation.kept = KeptOf(value);
  }
  if (reservation.gpus > 0 && reservation.duration > Duration(0)) reservations_[reservation.number] = reservation;
  return true;
}

}  // namespace divvy
