// Training workloads of scheduling experiments: Pollux and Sia, Gavel, Shockwave, Muri, Tiresias, ElasticFlow. If they
// have steps instead of run times, the run times follow from the experiment's table of throughputs.
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "simulate/traces/trace_readers.h"

namespace divvy::simulate {
namespace {

void TakesStepsOnly(Workload& workload, std::string_view from) {
  if (workload.knows_runtimes)
    workload.notes.push_back("the trace has no run times; they are computed from " + std::string(from));
  workload.knows_runtimes = false;
}

/// A job of a TSV file without titles: job_type, scale_factor, total_steps, arrival_s.
Result<TraceJob> ReadTsvJob(const CsvFile& file, std::int64_t number) {
  TraceJob job;
  job.id = std::to_string(number);
  job.name = file.Field("job_type");
  DIVVY_TRY(job.gpus, GpuField(file, "scale_factor"));
  DIVVY_TRY(job.steps, file.Number("total_steps", 0, 1e15));
  DIVVY_TRY(const Duration arrival, SecondsField(file, "arrival_s"));
  job.submit = Time(arrival);
  return job;
}

/// "0e4a51.tsv.gz" is the virtual cluster 0e4a51.
std::string NameOfFile(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.substr(0, name.find('.'));
}

/// The number of fields in the first line. -1: the file is empty.
Result<int> FieldsOfFirstLine(const std::string& path) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {}, {.separator = '\n', .titles = {"line"}}));
  DIVVY_TRY(const bool is_there, file.Next());
  return is_there ? static_cast<int>(Split(file.Field("line"), '\t').size()) : -1;
}

Status ReadMilliseconds(const std::string& path, double unit_seconds, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"job_id", "num_gpu", "submit_time", "duration", "model_name"}));
  return ForEachLine(file, [&]() -> Status {
    TraceJob job;
    job.id = file.Field("job_id");
    job.name = file.Field("model_name");
    DIVVY_TRY(job.gpus, GpuField(file, "num_gpu"));
    DIVVY_TRY(const Duration submit, SecondsField(file, "submit_time", unit_seconds));
    job.submit = Time(submit);
    DIVVY_TRY(job.runtime, SecondsField(file, "duration", unit_seconds));
    for (const std::string_view column : {"iterations", "iteration"}) {
      if (!file.Has(column)) continue;
      DIVVY_TRY(job.steps, file.Number(column, 0, 1e15));
    }
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

}  // namespace

Status ReadPollux(const std::string& path, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"name", "time", "application", "num_replicas"}));
  TakesStepsOnly(workload, "the profiles of its applications");
  return ForEachLine(file, [&]() -> Status {
    TraceJob job;
    job.id = file.Field("name");
    job.name = file.Field("application");
    DIVVY_TRY(job.gpus, GpuField(file, "num_replicas"));
    DIVVY_TRY(const Duration submit, SecondsField(file, "time"));
    job.submit = Time(submit);
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

Status ReadGavel(const std::string& path, Workload& workload) {
  DIVVY_TRY(const int fields, FieldsOfFirstLine(path));
  if (fields != 6 && fields != 9)
    return fields < 0 ? InvalidArgument(path + ": the file has no jobs")
                      : CorruptData(path + ":1: has " + Plural(fields, "field") +
                                    " between tabs; a Gavel trace without its command column has 6 or 9");
  const bool is_physical = fields == 9;
  TableStyle style{.separator = '\t',
                   .titles = {"job_type", "argument", "needs_data_dir", "total_steps", "arrival_s", "scale_factor"}};
  if (is_physical)
    style.titles = {"job_type",     "directory", "argument", "needs_data_dir", "total_steps",
                    "scale_factor", "weight",    "slo",      "arrival_s"};
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {}, std::move(style)));
  TakesStepsOnly(workload, "steps and throughputs");
  return ForEachLine(file, [&]() -> Status {
    DIVVY_TRY(TraceJob job, ReadTsvJob(file, static_cast<std::int64_t>(workload.jobs.size())));
    if (is_physical) {
      DIVVY_TRY(job.weight, file.Number("weight", 0, 1e9));
    } else {
      job.team = NameOfFile(path);
    }
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

Status ReadShockwave(const std::string& path, Workload& workload) {
  TableStyle style{.separator = '\t',
                   .titles = {"job_type", "directory", "argument", "needs_data_dir", "total_steps", "scale_factor",
                              "mode", "weight", "slo", "duration", "arrival_s"}};
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {}, std::move(style)));
  return ForEachLine(file, [&]() -> Status {
    DIVVY_TRY(TraceJob job, ReadTsvJob(file, static_cast<std::int64_t>(workload.jobs.size())));
    job.kind = file.Field("mode");
    DIVVY_TRY(job.weight, file.Number("weight", 0, 1e9));
    DIVVY_TRY(job.runtime, SecondsField(file, "duration"));
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

Status ReadMuri(const std::string& path, Workload& workload) { return ReadMilliseconds(path, 1e-3, workload); }
Status ReadTiresias(const std::string& path, Workload& workload) { return ReadMilliseconds(path, 1, workload); }

}  // namespace divvy::simulate
