// Alibaba's traces with times: a sample of PAI 2020 (Weng et al., NSDI'22), and openb, the cluster of GPU v2023.
#include <cmath>

#include "base/text.h"
#include "simulate/traces/trace_readers.h"

namespace divvy::simulate {

Status ReadPai(const std::string& path, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"job_id", "arrival_s", "service_sec", "gpu_count"}));
  workload.notes.push_back("the file has GPU counts rounded up to whole GPUs, and run times cut at 48 hours");
  return ForEachLine(file, [&]() -> Status {
    TraceJob job;
    job.id = file.Field("job_id");
    DIVVY_TRY(const Duration arrival, SecondsField(file, "arrival_s"));
    job.submit = Time(arrival);
    DIVVY_TRY(job.runtime, SecondsField(file, "service_sec"));
    DIVVY_TRY(job.gpus, GpuField(file, "gpu_count"));
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

Status ReadOpenbTimes(const std::string& path, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli",
                                               "creation_time", "deletion_time", "scheduled_time"}));
  std::int64_t never_ran = 0;
  DIVVY_CHECK(ForEachLine(file, [&]() -> Status {
    if (file.Field("scheduled_time").empty() || file.Field("deletion_time").empty()) {
      ++never_ran;
      return {};
    }
    TraceJob job;
    job.id = job.name = file.Field("name");
    job.kind = file.Field("pod_phase");
    job.gpu_type = file.Field("gpu_spec");
    DIVVY_TRY(job.gpus, GpuField(file, "num_gpu"));
    DIVVY_TRY(const auto milli, file.Count("gpu_milli", 1000));
    if (job.gpus > 0 && milli == 0) return file.Wrong("num_gpu is above 0, but gpu_milli is 0");
    if (job.gpus > 0) job.share = GpuShare(static_cast<std::int32_t>(milli * 10));
    DIVVY_TRY(const double cpu_milli, file.Number("cpu_milli", 0, 1e9));
    DIVVY_TRY(const double memory_mib, file.Number("memory_mib", 0, 1e12));
    job.cpus = static_cast<int>(std::ceil(cpu_milli / 1000));
    job.memory = Bytes(std::llround(memory_mib * 1024 * 1024));
    DIVVY_TRY(const Duration created, SecondsField(file, "creation_time"));
    DIVVY_TRY(const Duration scheduled, SecondsField(file, "scheduled_time"));
    DIVVY_TRY(const Duration deleted, SecondsField(file, "deletion_time"));
    if (deleted < scheduled) return file.Wrong("deletion_time is before scheduled_time");
    job.submit = Time(created);
    job.runtime = deleted - scheduled;
    job.published_start = Time(scheduled);
    job.published_end = Time(deleted);
    workload.jobs.push_back(std::move(job));
    return {};
  }));
  if (never_ran > 0) workload.notes.push_back(Plural(never_ran, "job") + " left out: never started or ended");
  return {};
}

}  // namespace divvy::simulate
