#include "dialect/options/quantities.h"

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/text.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

/// Longer durations are mistakes, and 64 bits of nanoseconds end at 292 years.
constexpr Duration kLongest = std::chrono::hours(24) * 36'500;
/// Far above any machine's memory, and far below the limit of 64 bits.
constexpr double kLargestBytes = 9.0e15;

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Removes a plain decimal ("12", "1.5", ".5") from the front of `text` and returns it; nullopt if there is none.
std::optional<double> TakeNumber(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  if (end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1])) {
    ++end;
    while (end < text.size() && IsDigit(text[end])) ++end;
  }
  const auto value = ParseNumber(text.substr(0, end));
  if (value) text.remove_prefix(end);
  return value;
}

std::string_view TakeLetters(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && IsLetter(text[end])) ++end;
  const std::string_view letters = text.substr(0, end);
  text.remove_prefix(end);
  return letters;
}

std::optional<std::int64_t> SizeUnit(std::string_view name) {
  std::string unit = ToLower(name);
  if (unit.ends_with("b")) unit.pop_back();
  if (unit.ends_with("i") && unit.size() == 2) unit.pop_back();
  constexpr std::string_view kUnits = "kmgtp";
  if (unit.empty()) return 1;
  const auto power = kUnits.find(unit);
  if (unit.size() != 1 || power == std::string_view::npos) return std::nullopt;
  return std::int64_t{1} << (10 * (power + 1));
}

struct TimeUnit {
  std::string_view name;
  Duration length;
};

constexpr std::array kTimeUnits = {
    TimeUnit{"s", 1s},        TimeUnit{"sec", 1s},       TimeUnit{"secs", 1s},  TimeUnit{"second", 1s},
    TimeUnit{"seconds", 1s},  TimeUnit{"m", 1min},       TimeUnit{"min", 1min}, TimeUnit{"mins", 1min},
    TimeUnit{"minute", 1min}, TimeUnit{"minutes", 1min}, TimeUnit{"h", 1h},     TimeUnit{"hr", 1h},
    TimeUnit{"hrs", 1h},      TimeUnit{"hour", 1h},      TimeUnit{"hours", 1h}, TimeUnit{"d", 24h},
    TimeUnit{"day", 24h},     TimeUnit{"days", 24h},     TimeUnit{"w", 168h},   TimeUnit{"week", 168h},
    TimeUnit{"weeks", 168h},  TimeUnit{"ms", 1ms},
};

std::optional<Duration> UnitLength(std::string_view name) {
  const std::string wanted = ToLower(name);
  for (const TimeUnit& unit : kTimeUnits) {
    if (unit.name == wanted) return unit.length;
  }
  return std::nullopt;
}

constexpr std::string_view kDurationForms = "write it like 90s, 5m, 1h30m, 2d, 01:30:00 or 1-12:00:00";
constexpr std::string_view kSlurmTimeForms =
    "write minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS, such as 90, 01:30:00 or 2-12";

Error TooLong(std::string_view text) {
  return InvalidArgument(Quoted(text) + " is too long; at most 100 years are allowed");
}

/// The fields of a clock ("1-02:03" -> days 1, {2, 3}); nullopt if a field is not a small whole number.
struct Clock {
  std::optional<std::int64_t> days;
  std::vector<std::int64_t> fields;
};

std::optional<Clock> ReadClock(std::string_view text) {
  const auto read = [](std::string_view part) -> std::optional<std::int64_t> {
    // At most nine digits per field. Then the total in seconds, which Sum() computes, cannot overflow 64 bits.
    if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != std::string_view::npos)
      return std::nullopt;
    return ParseInteger(part);
  };
  Clock clock;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    clock.days = read(text.substr(0, dash));
    if (!clock.days) return std::nullopt;
    text.remove_prefix(dash + 1);
  }
  for (std::string_view part : Split(text, ':')) {
    const auto field = read(part);
    if (!field) return std::nullopt;
    clock.fields.push_back(*field);
  }
  if (clock.fields.size() > 3) return std::nullopt;
  return clock;
}

/// The total of days, hours, minutes and seconds; nullopt if longer than kLongest.
std::optional<Duration> Sum(std::int64_t days, std::int64_t hours, std::int64_t minutes, std::int64_t seconds) {
  // Compute in whole seconds first, where four fields of nine digits cannot overflow.
  const std::int64_t total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
  if (total > std::chrono::duration_cast<std::chrono::seconds>(kLongest).count()) return std::nullopt;
  return Duration(std::chrono::seconds(total));
}

/// At most one decimal, and none if it is 0: 20 -> "20", 1.5 -> "1.5".
std::string OneDecimal(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string out = text;
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

/// "1h 30m 5s": a sequence of numbers with units.
Result<Duration> ParseUnits(std::string_view whole, Duration bare_unit) {
  std::string_view rest = whole;
  double total = 0;
  std::vector<Duration> seen;
  bool is_first = true;
  while (!(rest = Trim(rest)).empty()) {
    const auto value = TakeNumber(rest);
    if (!value) return InvalidArgument(Quoted(whole) + " is not a duration; " + std::string(kDurationForms));
    rest = Trim(rest);
    const std::string_view name = TakeLetters(rest);
    Duration unit = bare_unit;
    if (name.empty()) {
      if (!rest.empty()) return InvalidArgument(Quoted(whole) + " is not a duration; " + std::string(kDurationForms));
      if (!is_first)
        return InvalidArgument(Quoted(whole) + ": the last number has no unit; " + std::string(kDurationForms));
    } else {
      const auto length = UnitLength(name);
      if (!length)
        return InvalidArgument(Quoted(whole) + ": unknown unit " + Quoted(name) + "; units are s, m (or min), h, d, w");
      unit = *length;
    }
    for (const Duration other : seen) {
      if (other == unit) return InvalidArgument(Quoted(whole) + " contains the same unit twice; write it like 1h30m");
    }
    seen.push_back(unit);
    total += *value * static_cast<double>(unit.count());
    if (total > static_cast<double>(kLongest.count())) return TooLong(whole);
    is_first = false;
  }
  return Duration(std::llround(total));
}

Result<Duration> ParseStrictClock(std::string_view text) {
  const auto clock = ReadClock(text);
  const std::size_t size = clock ? clock->fields.size() : 0;
  const bool is_complete = clock && (clock->days ? size == 3 : size >= 2);
  if (!is_complete) return InvalidArgument(Quoted(text) + " is not a duration; " + std::string(kDurationForms));
  const std::vector<std::int64_t>& fields = clock->fields;
  const std::int64_t hours = size == 3 ? fields[0] : 0;
  if (fields[size - 1] > 59) return InvalidArgument(Quoted(text) + " has more than 59 seconds in the last field");
  if (size == 3 && fields[1] > 59)
    return InvalidArgument(Quoted(text) + " has more than 59 minutes in the middle field");
  if (clock->days && hours > 23) return InvalidArgument(Quoted(text) + " has more than 23 hours after the days");
  const auto total = Sum(clock->days.value_or(0), hours, fields[size - 2], fields[size - 1]);
  if (!total) return TooLong(text);
  return *total;
}

}  // namespace

Result<Bytes> ParseSize(std::string_view text, std::int64_t bare_unit) {
  std::string_view rest = Trim(text);
  if (rest.empty()) return InvalidArgument("the size is empty; write it like 20G, 512M or 1.5T");
  if (rest.front() == '-')
    return InvalidArgument(Quoted(text) + " is negative; write a size of 0 or more, such as 20G");
  const auto value = TakeNumber(rest);
  if (!value) return InvalidArgument(Quoted(text) + " is not a size; write it like 20G, 512M or 1.5T");
  rest = Trim(rest);
  if (rest.starts_with(',') || rest.starts_with('.')) {
    return InvalidArgument(Quoted(text) + " is not a size; write decimals with a point, such as 1.5G");
  }
  std::int64_t unit = bare_unit;
  if (!rest.empty()) {
    const auto named = SizeUnit(rest);
    if (!named)
      return InvalidArgument(Quoted(text) + ": unknown unit " + Quoted(rest) +
                             "; units are K, M, G and T (powers of 1024)");
    unit = *named;
  }
  const double bytes = *value * static_cast<double>(unit);
  if (bytes > kLargestBytes) return InvalidArgument(Quoted(text) + " is too large; no node has that much memory");
  return Bytes(std::llround(bytes));
}

Result<Duration> ParseDuration(std::string_view text, Duration bare_unit) {
  const std::string_view trimmed = Trim(text);
  if (trimmed.empty()) return InvalidArgument("the duration is empty; " + std::string(kDurationForms));
  if (trimmed.front() == '-') return InvalidArgument(Quoted(text) + " is negative; " + std::string(kDurationForms));
  if (trimmed.find_first_of(":-") != std::string_view::npos) return ParseStrictClock(trimmed);
  return ParseUnits(trimmed, bare_unit);
}

Result<Duration> ParseSlurmTime(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const std::string word = ToLower(trimmed);
  if (word == "infinite" || word == "unlimited" || word == "-1") return Duration(0);
  const auto clock = ReadClock(trimmed);
  if (!clock) return InvalidArgument(Quoted(text) + " is not a time limit; " + std::string(kSlurmTimeForms));
  std::vector<std::int64_t> f = clock->fields;
  std::optional<Duration> total;
  if (clock->days) {
    f.resize(3);
    total = Sum(*clock->days, f[0], f[1], f[2]);
  } else if (f.size() == 1) {
    total = Sum(0, 0, f[0], 0);
  } else if (f.size() == 2) {
    total = Sum(0, 0, f[0], f[1]);
  } else {
    total = Sum(0, f[0], f[1], f[2]);
  }
  if (!total) return TooLong(text);
  return *total;
}

std::string FormatSize(Bytes size) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = std::abs(static_cast<double>(size.count()));
  std::size_t unit = 0;
  // 1023.95 would be printed as 1024.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return (size < Bytes(0) ? "-" : "") + OneDecimal(value) + " " + std::string(kUnits[unit]);
}

std::string FormatDuration(Duration duration) {
  if (duration < Duration(0)) return "-" + FormatDuration(duration == Duration::min() ? Duration::max() : -duration);
  if (duration < 1s) {
    const double milliseconds = static_cast<double>(duration.count()) / 1e6;
    if (milliseconds == 0) return "0 s";
    return milliseconds < 100 ? OneDecimal(milliseconds) + " ms" : OneDecimal(milliseconds / 1000) + " s";
  }
  if (duration < 10s) return OneDecimal(static_cast<double>(duration.count()) / 1e9) + " s";
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  constexpr std::array<std::int64_t, 4> kLengths = {86'400, 3'600, 60, 1};
  constexpr std::array<std::string_view, 4> kNames = {"d", "h", "min", "s"};
  std::size_t largest = 0;
  while (seconds < kLengths[largest]) ++largest;
  std::string out = std::to_string(seconds / kLengths[largest]) + " " + std::string(kNames[largest]);
  if (largest + 1 < kLengths.size()) {
    const std::int64_t rest = seconds % kLengths[largest] / kLengths[largest + 1];
    if (rest > 0) out += " " + std::to_string(rest) + " " + std::string(kNames[largest + 1]);
  }
  return out;
}

std::string FormatClock(Duration duration) {
  const auto seconds = static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(duration).count());
  if (seconds < 0) return "0:00";
  const long long days = seconds / 86'400;
  const long long hours = seconds / 3'600 % 24;
  const long long minutes = seconds / 60 % 60;
  char text[64];
  if (days > 0) {
    std::snprintf(text, sizeof text, "%lld-%02lld:%02lld:%02lld", days, hours, minutes, seconds % 60);
  } else if (hours > 0) {
    std::snprintf(text, sizeof text, "%02lld:%02lld:%02lld", hours, minutes, seconds % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", minutes, seconds % 60);
  }
  return text;
}

// --- Signals by name and number

namespace {

struct Named {
  std::string_view name;
  int number;
};

constexpr std::array kSignals = {
    Named{"HUP", SIGHUP},   Named{"INT", SIGINT},       Named{"QUIT", SIGQUIT}, Named{"ILL", SIGILL},
    Named{"TRAP", SIGTRAP}, Named{"ABRT", SIGABRT},     Named{"BUS", SIGBUS},   Named{"FPE", SIGFPE},
    Named{"KILL", SIGKILL}, Named{"USR1", SIGUSR1},     Named{"SEGV", SIGSEGV}, Named{"USR2", SIGUSR2},
    Named{"PIPE", SIGPIPE}, Named{"ALRM", SIGALRM},     Named{"TERM", SIGTERM}, Named{"STKFLT", SIGSTKFLT},
    Named{"CHLD", SIGCHLD}, Named{"CONT", SIGCONT},     Named{"STOP", SIGSTOP}, Named{"TSTP", SIGTSTP},
    Named{"TTIN", SIGTTIN}, Named{"TTOU", SIGTTOU},     Named{"URG", SIGURG},   Named{"XCPU", SIGXCPU},
    Named{"XFSZ", SIGXFSZ}, Named{"VTALRM", SIGVTALRM}, Named{"PROF", SIGPROF}, Named{"WINCH", SIGWINCH},
    Named{"IO", SIGIO},     Named{"POLL", SIGIO},       Named{"PWR", SIGPWR},   Named{"SYS", SIGSYS},
    Named{"IOT", SIGABRT},
};

// The kernel's first real-time signal. libc's SIGRTMIN is a function and leaves out two that threads use.
constexpr int kFirstRealTime = 34;
constexpr int kLastSignal = 64;

}  // namespace

Result<int> ParseSignal(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  if (const auto number = ParseInteger(trimmed)) {
    if (*number >= 1 && *number <= kLastSignal) return static_cast<int>(*number);
    return InvalidArgument(Quoted(text) + " is not a signal; signal numbers are 1 to 64");
  }
  std::string name = ToLower(trimmed);
  if (name.starts_with("sig")) name.erase(0, 3);
  // List common signals first: if two names are equally near, suggest the likelier one.
  std::vector<std::string_view> known = {"TERM", "INT", "KILL", "HUP", "USR1", "USR2"};
  for (const Named& signal : kSignals) {
    if (EqualsIgnoringCase(signal.name, name)) return signal.number;
    known.push_back(signal.name);
  }
  if (name.starts_with("rtmin")) {
    const auto offset = name.size() == 5 ? 0 : ParseInteger(std::string_view(name).substr(5));
    if (offset && *offset >= 0 && *offset <= kLastSignal - kFirstRealTime)
      return kFirstRealTime + static_cast<int>(*offset);
  }
  const std::string_view near = name.size() > 16 ? std::string_view() : Nearest(name, known);
  return InvalidArgument(Quoted(text) + " is not a signal" +
                         (near.empty() ? std::string("; write it like USR1, SIGUSR1 or 10")
                                       : "; did you mean SIG" + std::string(near) + "?"));
}

std::string SignalName(int signal) {
  for (const Named& known : kSignals) {
    if (known.number == signal) return "SIG" + std::string(known.name);
  }
  if (signal == kFirstRealTime) return "SIGRTMIN";
  if (signal > kFirstRealTime && signal <= kLastSignal) return "SIGRTMIN+" + std::to_string(signal - kFirstRealTime);
  return "signal " + std::to_string(signal);
}

}  // namespace divvy::dialect
