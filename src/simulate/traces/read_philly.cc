// Microsoft's Philly (Jeon et al., ATC 2019) from the artifact of Pollux: without ids, and not sorted by time.
#include "simulate/traces/trace_readers.h"
#include "simulate/traces/trace_time.h"

namespace divvy::simulate {

Status ReadPhilly(const std::string& path, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"timestamp", "duration", "num_gpus", "cluster"}));
  std::int64_t line = 0;
  return ForEachLine(file, [&]() -> Status {
    TraceJob job;
    const auto submit = ParseDateTime(file.Field("timestamp"));
    if (!submit)
      return file.Wrong("timestamp '" + std::string(file.Field("timestamp")) +
                        "' is not a time such as 2017-10-09 07:01:55");
    job.id = std::to_string(++line);
    job.team = file.Field("cluster");
    job.submit = *submit;
    DIVVY_TRY(job.gpus, GpuField(file, "num_gpus"));
    DIVVY_TRY(job.runtime, SecondsField(file, "duration"));
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

}  // namespace divvy::simulate
