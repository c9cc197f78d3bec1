// The daemon's own log. Each line holds one event as key=value pairs, ids first, after the time and the level. The
// lines are meant for people; programs use the API.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace divvy {

/// kTrace: every request. kDebug: every change of a job. kInfo: the daemon's own life cycle. kWarning: a problem that
/// the daemon handles. kError: the daemon gave something up.
enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };

/// Parses a level name such as "warning". Returns kInfo for an unknown name.
LogLevel LogLevelFromName(std::string_view name);

/// May be used from any thread.
class Log {
 public:
  /// Receives a complete line without its line feed. Called from any thread.
  using Sink = std::function<void(std::string_view line)>;
  /// Writes to standard error, which may be redirected later.
  Log();
  explicit Log(Sink sink) : sink_(std::move(sink)) {}

  /// From now on drops lines below this level.
  void SetLevel(LogLevel least) { least_ = least; }
  /// Returns false if a line of this level would be dropped, so that callers can skip building it.
  bool Writes(LogLevel level) const { return level >= least_ && level != LogLevel::kOff; }
  void Write(LogLevel level, std::string_view line) const;

 private:
  Sink sink_;
  std::atomic<LogLevel> least_ = LogLevel::kInfo;
};

/// Formats `text` as a value of a log line: in double quotes, with quotes and control characters escaped. The result
/// never contains a line break.
std::string LogQuoted(std::string_view text);

}  // namespace divvy
