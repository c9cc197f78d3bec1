// Metrics that jobs report: lines of their output that are JSON objects, {"step": 10, "loss": 0.3}. The numbers in them
// are the job's own metrics.
//
// The work is limited: at most wire::kMostOwnLines lines and kMostBytes bytes of a job are read per second. If a job
// writes more, the older lines are skipped, and their number is a metric of the job
// (samples::Metric::kOwnLinesLeftOut). Must not be used by two threads at a time. A file system of a user that does not
// answer delays only what that user's jobs report, where the launcher reads their logs. There, lines that follow a
// silence may be read up to three calls later.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "daemon/node/job_log.h"
#include "platform/supervisor/root_errand.h"
#include "samples/sample.h"
#include "wire/http/own_numbers.h"

namespace divvy {

class OwnMetrics {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 10;

  struct Source {
    std::uint64_t job = 0;
    std::uint32_t attempt = 0;
    JobLog log;
    bool is_older = false;  // It began before this process, which may have read its first lines already.
  };

  /// Reads the lines that jobs have written to their logs since the last call, and appends the metrics in them to the
  /// jobs' samples in `out`, under the node name `node`. If a run is older than this process, only later lines are
  /// read. When a job is started again, reading continues where it stopped in the job's last run, or begins at the
  /// present end of the log if this object has not read it before. The log of a job that is no longer in `sources` is
  /// read once more, for the last lines before the job's end. Waits for the launcher for at most kLongestWait; what it
  /// reads later is returned by a later call.
  void Look(const std::vector<Source>& sources, const std::string& node, samples::Snapshot& out);

 private:
  static constexpr std::chrono::milliseconds kLongestWait{300};
  /// A log with nothing new is read more rarely by the launcher, because each read takes a process.
  static constexpr int kLongestPeriod = 4;

  struct Reader {
    Source source;
    std::int64_t next = 0;        // -1: the end of the log.
    std::string begun;            // The beginning of a line that is not complete yet.
    bool is_current = false;      // The run was in `sources` of the last call.
    std::optional<LogRead> read;  // A read whose answer was not there at the last call.
    bool reads_the_end = false;   // The last read began after the end of the run.
    bool is_slow = false;         // The launcher needed longer than kLongestWait before; no call waits for it again.
    int period = 1;               // It is read in each call, or only in each second or fourth one.
    int rests = 0;                // Calls until it is read again.
  };
  void SetSources(const std::vector<Source>& sources);
  /// Begins to read; returns the piece if this process reads it.
  std::optional<LogPiece> Begin(Reader& reader);
  /// Returns new lines as readings of the job, and the number of skipped lines.
  static std::vector<samples::Reading> Readings(Reader& reader, const LogPiece& piece);

  /// How far the log of a job that no longer runs was read. When the job runs again, reading continues there.
  struct Left {
    std::string path;
    std::int64_t next = 0;
  };
  static constexpr std::size_t kMostLeft = 4096;

  std::map<std::uint64_t, Reader> readers_;  // By job.
  std::map<std::uint64_t, Left> left_;       // By job; the oldest jobs are dropped.
  UserGroups groups_;
};

/// Converts numbers that a job has reported to readings for its samples.
std::vector<samples::Reading> OwnReadings(const wire::OwnNumbers& numbers);

}  // namespace divvy
