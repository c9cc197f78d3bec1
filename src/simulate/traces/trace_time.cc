#include "simulate/traces/trace_time.h"

#include <array>
#include <chrono>

#include "base/text.h"

namespace divvy::simulate {
namespace {

/// Parses digits only; the value is at most `most`.
std::optional<int> Digits(std::string_view text, int most) {
  const auto value = ParseInteger(text);
  if (!value || text.front() < '0' || text.front() > '9' || *value > most) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<Time> ParseDateTime(std::string_view text) {
  if (text.size() != 10 && text.size() != 19) return std::nullopt;
  const auto year = Digits(text.substr(0, 4), 2200), month = Digits(text.substr(5, 2), 12);
  const auto day = Digits(text.substr(8, 2), 31);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1900) return std::nullopt;
  const Time midnight = Time(Duration(std::chrono::sys_days(date).time_since_epoch()));
  if (text.size() == 10) return midnight;
  const auto hour = Digits(text.substr(11, 2), 23), minute = Digits(text.substr(14, 2), 59);
  const auto second = Digits(text.substr(17, 2), 60);
  if (!hour || !minute || !second || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  return midnight + std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

std::optional<Duration> ParseSlurmDuration(std::string_view text) {
  constexpr int kMost = 100'000'000;
  Duration sum{0};
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto days = dash == 0 ? std::nullopt : Digits(text.substr(0, dash), 100'000);
    if (!days) return std::nullopt;
    sum += std::chrono::days(*days);
    text = text.substr(dash + 1);
  }
  if (const std::size_t dot = text.find('.'); dot != std::string_view::npos) {
    const auto fraction = ParseNumber("0" + std::string(text.substr(dot)));
    if (!fraction) return std::nullopt;
    sum += DurationFromSeconds(*fraction);
    text = text.substr(0, dot);
  }
  const auto parts = Split(text, ':');
  if (parts.size() > 3) return std::nullopt;
  // Without days, the last part is seconds (a single part: minutes). With days, the first part is hours.
  std::array<Duration, 3> units = {std::chrono::hours(1), std::chrono::minutes(1), std::chrono::seconds(1)};
  if (dash == std::string_view::npos && parts.size() < 3) units = {std::chrono::minutes(1), std::chrono::seconds(1)};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = parts[i].empty() ? std::nullopt : Digits(parts[i], kMost);
    if (!value || units[i].count() == 0) return std::nullopt;
    if (*value > std::chrono::hours(24 * 36'500) / units[i]) return std::nullopt;
    sum += *value * units[i];
  }
  return sum;
}

}  // namespace divvy::simulate
