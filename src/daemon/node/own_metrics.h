// What jobs say of themselves: lines of their output that are JSON objects, {"step": 10, "loss": 0.3}. The numbers in
// them are the job's own metrics.
//
// Bounded: of a job wire::kMostOwnLines lines and kMostBytes bytes are read in each second; where it writes more, what
// is older is passed over, and how much that was is a metric of the job (samples::Metric::kOwnLinesLeftOut). Not for
// two threads at a time; a log on a server that is away keeps it waiting.
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
  };

  /// Appends what has come since the last call to the samples of the jobs in `out`, under the name `node`. Of jobs that
  /// are here for the first time at the first call, only what comes from then on is read; of later attempts what comes
  /// behind that which was read of the ones before, or from then on where none was read here. One that is no longer
  /// among `sources` is read once more: its last words come with its end.
  void Look(const std::vector<Source>& sources, const std::string& node, samples::Snapshot& out);

 private:
  struct Reader {
    Source source;
    std::int64_t next = 0;
    std::int64_t size = 0;  // Of the file at the last look.
    std::string begun;      // A line that has no end yet.
    bool is_current = false;
  };
  /// What came, as readings of the job; how many lines were passed over as well.
  std::vector<samples::Reading> Read(Reader& reader);
  LogPiece Piece(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most) {
    return ReadJobLog(log, at, last, most, groups_);
  }

  /// How far a log was read of a job that is no longer here: its next run goes on from there, however short it is.
  struct Left {
    std::string path;
    std::int64_t next = 0;
  };
  static constexpr std::size_t kMostLeft = 4096;

  std::map<std::uint64_t, Reader> readers_;  // By job.
  std::map<std::uint64_t, Left> left_;       // By job; the oldest jobs go.
  UserGroups groups_;
  bool has_looked_ = false;
};

/// As readings of a job.
std::vector<samples::Reading> OwnReadings(const wire::OwnNumbers& numbers);

}  // namespace divvy
