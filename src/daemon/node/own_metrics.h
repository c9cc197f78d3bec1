// Metrics that jobs report: lines of their output that are JSON objects, {"step": 10, "loss": 0.3}. The numbers in them
// are the job's own metrics.
//
// The work is limited: at most wire::kMostOwnLines lines and kMostBytes bytes of a job are read per second. If a job
// writes more, the older lines are skipped, and their number is a metric of the job
// (samples::Metric::kOwnLinesLeftOut). Must not be used by two threads at a time. A log on a server that does not
// answer blocks the call.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "daemon/node/job_log.h"
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
  /// read once more, for the last lines before the job's end.
  void Look(const std::vector<Source>& sources, const std::string& node, samples::Snapshot& out);

 private:
  struct Reader {
    Source source;
    std::int64_t next = 0;
    std::int64_t size = 0;  // The size of the file at the last look.
    std::string begun;      // The beginning of a line that is not complete yet.
    bool is_current = false;
  };
  /// Returns new lines as readings of the job, and the number of skipped lines.
  std::vector<samples::Reading> Read(Reader& reader);
  LogPiece Piece(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most) {
    return ReadJobLog(log, at, last, most, groups_);
  }

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
