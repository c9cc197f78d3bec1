// One reader per format (trace_formats.h), for ReadWorkload and tests. Each one appends the jobs of one file to
// `workload`, in the order of the file.
#pragma once

#include <string>

#include "simulate/traces/csv_file.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

Status ReadHelios(const std::string& path, Workload& workload);
Status ReadPhilly(const std::string& path, Workload& workload);
Status ReadPollux(const std::string& path, Workload& workload);
Status ReadGavel(const std::string& path, Workload& workload);
Status ReadShockwave(const std::string& path, Workload& workload);
Status ReadMuri(const std::string& path, Workload& workload);
Status ReadTiresias(const std::string& path, Workload& workload);
Status ReadPai(const std::string& path, Workload& workload);
Status ReadOpenbTimes(const std::string& path, Workload& workload);
Status ReadSacct(const std::string& path, Workload& workload);
Status ReadSwf(const std::string& path, Workload& workload);

/// More GPUs than any job in a trace has. A larger number means a misread column.
inline constexpr std::int64_t kMostGpusOfJob = 10'000'000;
/// About 280 years.
inline constexpr double kMostTraceSeconds = 9e9;

/// Calls `read` for each line of the table, until it fails.
template <typename Read>
Status ForEachLine(CsvFile& file, Read read) {
  for (;;) {
    DIVVY_TRY(const bool is_there, file.Next());
    if (!is_there) return {};
    DIVVY_CHECK(read());
  }
}

/// Returns the field in `column`, a number of seconds, as a duration. Also used for points in time, as the time since
/// the trace's zero.
inline Result<Duration> SecondsField(const CsvFile& file, std::string_view column, double unit_seconds = 1) {
  DIVVY_TRY(const double value, file.Number(column, 0, kMostTraceSeconds / unit_seconds));
  return TimeFromSeconds(value * unit_seconds).time_since_epoch();
}

inline Result<int> GpuField(const CsvFile& file, std::string_view column) {
  DIVVY_TRY(const auto count, file.Count(column, kMostGpusOfJob));
  return static_cast<int>(count);
}

}  // namespace divvy::simulate
