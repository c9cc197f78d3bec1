// The daemon's own log: one line a fact, key=value, ids first, with the time and the level before it. The lines are for
// people; what programs need is in the API.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace divvy {

/// kTrace: every request. kDebug: every change of a job. kInfo: the daemon's own life. kWarning: something went wrong
/// and is being dealt with. kError: something was given up.
enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };

/// "warning"; kInfo for a word that is no level.
LogLevel LogLevelFromName(std::string_view name);

/// May be used from any thread.
class Log {
 public:
  /// Takes a whole line, without line feed; from any thread.
  using Sink = std::function<void(std::string_view line)>;
  /// To standard error, wherever that leads by then.
  Log();
  explicit Log(Sink sink) : sink_(std::move(sink)) {}

  void SetLevel(LogLevel least) { least_ = least; }
  /// False: a line of this level would be dropped, so that there is no need to make it.
  bool Writes(LogLevel level) const { return level >= least_ && level != LogLevel::kOff; }
  void Write(LogLevel level, std::string_view line) const;

 private:
  Sink sink_;
  std::atomic<LogLevel> least_ = LogLevel::kInfo;
};

/// `text` as a value in a line: in double quotes, with quotes and control characters escaped, so that a line stays one.
std::string LogQuoted(std::string_view text);

}  // namespace divvy
