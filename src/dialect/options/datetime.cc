// Points in time as users write them.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

constexpr Duration kDay = std::chrono::hours(24);
constexpr std::string_view kTimeForms =
    "write it like now+1h, 16:00, tomorrow, 2026-03-01 or 2026-03-01T16:00 (local time)";

std::optional<int> Digits(std::string_view text, std::size_t least, std::size_t most) {
  if (text.size() < least || text.size() > most) return std::nullopt;
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const auto value = ParseInteger(text);
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

/// Days since 1970; nullopt if the date does not exist.
std::optional<Duration> Date(std::optional<int> year, std::optional<int> month, std::optional<int> day) {
  if (!year || !month || !day) return std::nullopt;
  // Later dates are refused, because times are 64-bit nanoseconds, which end in 2262.
  if (*year < 1970 || *year > 2200) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return Duration(std::chrono::sys_days(date).time_since_epoch());
}

/// "16:00", "16:00:30", "4:00pm": the time since midnight.
std::optional<Duration> TimeOfDay(std::string_view text) {
  int shift = -1;  // Hours to add for "am" (0) and "pm" (12); -1: a 24 hour clock.
  const std::string lower = ToLower(text);
  if (lower.ends_with("am") || lower.ends_with("pm")) {
    shift = lower[lower.size() - 2] == 'p' ? 12 : 0;
    text = Trim(text.substr(0, text.size() - 2));
  }
  const auto parts = Split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  auto hour = Digits(parts[0], 1, 2);
  const auto minute = Digits(parts[1], 2, 2);
  const auto second = parts.size() == 3 ? Digits(parts[2], 2, 2) : 0;
  if (!hour || !minute || !second || *minute > 59 || *second > 59) return std::nullopt;
  if (shift >= 0) {
    if (*hour < 1 || *hour > 12) return std::nullopt;
    hour = *hour % 12 + shift;
  }
  if (*hour > 23) return std::nullopt;
  return std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

struct NamedTime {
  std::string_view name;
  Duration since_midnight;
};
// The words of at(1), which Slurm also accepts.
constexpr std::array kNamedTimes = {NamedTime{"midnight", 0h}, NamedTime{"noon", 12h}, NamedTime{"teatime", 16h},
                                    NamedTime{"elevenses", 11h}, NamedTime{"fika", 15h}};

/// Removes "Z", "+02:00" or "-0530" from the end of `text` and returns it; nullopt if there is none.
std::optional<Duration> TakeZone(std::string_view& text) {
  if (text.ends_with('Z') || text.ends_with('z')) {
    text.remove_suffix(1);
    return Duration(0);
  }
  const auto sign = text.find_last_of("+-");
  if (sign == std::string_view::npos) return std::nullopt;
  std::string digits(text.substr(sign + 1));
  std::erase(digits, ':');
  const auto value = Digits(digits, 4, 4);
  if (!value || *value / 100 > 14 || *value % 100 > 59) return std::nullopt;
  const Duration offset = std::chrono::hours(*value / 100) + std::chrono::minutes(*value % 100);
  const bool is_behind = text[sign] == '-';
  text = text.substr(0, sign);
  return is_behind ? -offset : offset;
}

/// "2026-03-01[T16:00[:30][Z]]" in UTC.
std::optional<Time> IsoMoment(std::string_view text, Duration utc_offset) {
  if (text.size() < 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto date =
      Date(Digits(text.substr(0, 4), 4, 4), Digits(text.substr(5, 2), 2, 2), Digits(text.substr(8, 2), 2, 2));
  if (!date) return std::nullopt;
  Duration since_midnight{0};
  if (text.size() > 10) {
    if (text[10] != 'T' && text[10] != 't' && text[10] != ' ') return std::nullopt;
    std::string_view clock = text.substr(11);
    if (const auto zone = TakeZone(clock)) utc_offset = *zone;
    const auto time = TimeOfDay(clock);
    if (!time) return std::nullopt;
    since_midnight = *time;
  }
  return Time(*date + since_midnight - utc_offset);
}

/// "03/01/26", "3/1/2026", "03/01" (the next one), each optionally followed by "-HH:MM[:SS]", as in sbatch.
std::optional<Time> AmericanMoment(std::string_view text, Time now, Duration utc_offset) {
  Duration since_midnight{0};
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto time = TimeOfDay(text.substr(dash + 1));
    if (!time) return std::nullopt;
    since_midnight = *time;
    text = text.substr(0, dash);
  }
  const auto parts = Split(text, '/');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const auto month = Digits(parts[0], 1, 2);
  const auto day = Digits(parts[1], 1, 2);
  if (parts.size() == 3) {
    auto year = Digits(parts[2], 2, 4);
    if (year && parts[2].size() == 2) year = *year + 2000;
    const auto date = Date(year, month, day);
    if (!date) return std::nullopt;
    return Time(*date + since_midnight - utc_offset);
  }
  const std::chrono::year_month_day today(
      std::chrono::sys_days(std::chrono::floor<std::chrono::days>((now + utc_offset).time_since_epoch())));
  // 29 February may be eight years away.
  for (int year = static_cast<int>(today.year()); year < static_cast<int>(today.year()) + 9; ++year) {
    const auto date = Date(year, month, day);
    if (date && Time(*date + kDay - utc_offset) > now) return Time(*date + since_midnight - utc_offset);
  }
  return std::nullopt;
}

Time NextAt(Duration since_midnight, Time now, Duration utc_offset) {
  const Time midnight = Time(std::chrono::floor<std::chrono::days>((now + utc_offset).time_since_epoch()) - utc_offset);
  const Time today = midnight + since_midnight;
  return today > now ? today : today + kDay;
}

}  // namespace

Result<Time> ParseMoment(std::string_view text, Time now, Duration utc_offset) {
  const std::string_view trimmed = Trim(text);
  const std::string word = ToLower(trimmed);
  if (word.starts_with("now")) {
    const std::string_view rest = Trim(trimmed.substr(3));
    if (rest.empty()) return now;
    if (rest.front() == '+') {
      DIVVY_TRY(const Duration wait, ParseDuration(rest.substr(1), 1s));
      return AddSaturating(now, wait);
    }
    return InvalidArgument(Quoted(text) + " is not a time: expected '+' and a duration after 'now', such as now+1h");
  }
  for (const NamedTime& named : kNamedTimes) {
    if (word == named.name) return NextAt(named.since_midnight, now, utc_offset);
  }
  // "noon-tomorrow", "16:00-today", as in sbatch.
  for (const std::string_view day : {"-today", "-tomorrow"}) {
    if (!word.ends_with(day)) continue;
    const std::string_view clock = std::string_view(word).substr(0, word.size() - day.size());
    const auto named = std::ranges::find(kNamedTimes, clock, &NamedTime::name);
    const auto time = named != kNamedTimes.end() ? named->since_midnight : TimeOfDay(clock);
    if (time) return NextAt(0h, now, utc_offset) + *time - (day == "-today" ? kDay : Duration(0));
  }
  if (word == "today") return now;
  if (word == "tomorrow") return NextAt(0h, now, utc_offset);
  if (trimmed.find('/') == std::string_view::npos && trimmed.find('-') == std::string_view::npos) {
    if (const auto time = TimeOfDay(trimmed)) return NextAt(*time, now, utc_offset);
  }
  if (const auto moment = IsoMoment(trimmed, utc_offset)) return *moment;
  if (const auto moment = AmericanMoment(trimmed, now, utc_offset)) return *moment;
  if (trimmed.empty()) return InvalidArgument("the time is empty; " + std::string(kTimeForms));
  return InvalidArgument(Quoted(text) + " is not a valid time; " + std::string(kTimeForms));
}

Result<Time> ParsePastMoment(std::string_view text, Time now, Duration utc_offset) {
  const std::string_view trimmed = Trim(text);
  const std::string word = ToLower(trimmed);
  if (word == "now") return now;
  // Try a time of day before a length: "16:00" is four o'clock here, not sixteen minutes.
  if (trimmed.find('-') == std::string_view::npos && trimmed.find('/') == std::string_view::npos) {
    if (const auto time = TimeOfDay(trimmed)) {
      const Time next = NextAt(*time, now, utc_offset);
      return next > now ? next - 24h : next;
    }
  }
  if (const auto ago = ParseDuration(trimmed, 1h)) return now - *ago;
  const Time midnight = NextAt(0h, now, utc_offset) - 24h;
  if (word == "today") return midnight;
  if (word == "yesterday") return midnight - 24h;
  if (const auto moment = IsoMoment(trimmed, utc_offset)) return *moment;
  // A date without a year means the last such day in the past.
  constexpr int kYearsBetweenLeapDays = 8;
  for (int years = 0; years <= kYearsBetweenLeapDays; ++years) {
    const auto moment = AmericanMoment(trimmed, now - years * 364 * 24h, utc_offset);
    if (moment && (*moment <= now || Split(trimmed, '/').size() == 3)) return *moment;
  }
  return InvalidArgument((trimmed.empty() ? "the time is empty" : Quoted(text) + " is not a time in the past") +
                         "; write it like 2h or 7d (ago), 16:00, yesterday, 2026-03-01 or 2026-03-01T16:00");
}

}  // namespace divvy::dialect
