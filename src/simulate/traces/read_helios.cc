// SenseTime's Helios (Hu et al., SC'21), cluster Venus, in both available forms.
#include "base/text.h"
#include "simulate/traces/trace_readers.h"
#include "simulate/traces/trace_time.h"

namespace divvy::simulate {
namespace {

/// The whole cluster: as published (duration), or the copy of Venus with run times cut at 48 hours. The copy has full
/// run times and virtual clusters for a few jobs only, so these are ignored. Jobs without GPUs are left out.
Status ReadWhole(CsvFile& file, Workload& workload) {
  const bool is_capped = file.Has("duration_capped_s");
  if (is_capped) workload.notes.push_back("the file has run times cut at 48 hours");
  std::int64_t without_gpus = 0;
  const Status read = ForEachLine(file, [&]() -> Status {
    TraceJob job;
    const auto submit = ParseDateTime(file.Field("submit_time"));
    if (!submit)
      return file.Wrong("submit_time '" + std::string(file.Field("submit_time")) +
                        "' is not a time such as 2020-09-01 01:37:15");
    job.id = file.Field("job_id");
    job.user = file.Field("user");
    job.team = file.Field("vc");
    job.kind = file.Field("state");
    job.submit = *submit;
    DIVVY_TRY(job.gpus, GpuField(file, "gpu_num"));
    DIVVY_TRY(job.runtime, SecondsField(file, is_capped ? "duration_capped_s" : "duration"));
    if (file.Has("jobname")) job.name = file.Field("jobname");
    if (job.gpus == 0) {
      ++without_gpus;
      return {};
    }
    workload.jobs.push_back(std::move(job));
    return {};
  });
  if (without_gpus > 0) workload.notes.push_back(Plural(without_gpus, "job") + " left out: no GPUs");
  return read;
}

/// "per-VC pool sizes (nodes, 8 GPU/node): vcvGl=20, vcvlY=2".
void ReadPools(std::string_view comment, Workload& workload) {
  const std::size_t colon = comment.find("8 GPU/node):");
  if (colon == std::string_view::npos) return;
  for (const std::string_view part : Split(comment.substr(comment.find(':', colon) + 1), ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const auto nodes = ParseInteger(Trim(part.substr(equals + 1)));
    if (!nodes || *nodes < 1 || *nodes > 1'000'000) continue;
    if (!workload.cluster) workload.cluster.emplace();
    NodeGroup group;
    group.count = static_cast<int>(*nodes);
    group.gpus = 8;
    group.team = Trim(part.substr(0, equals));
    workload.cluster->groups.push_back(std::move(group));
  }
}

/// "... September window 2020-09-01..2020-09-26 inclusive; ...": the start of the file's times.
Time WindowStart(std::string_view comment) {
  const std::size_t window = comment.find("window 2");
  if (window == std::string_view::npos) return Time();
  return ParseDateTime(comment.substr(window + 7, 10)).value_or(Time());
}

Status ReadSlice(CsvFile& file, Workload& workload) {
  Time origin{};
  for (const std::string& comment : file.comments()) {
    ReadPools(comment, workload);
    if (const Time start = WindowStart(comment); start != Time()) origin = start;
  }
  return ForEachLine(file, [&]() -> Status {
    TraceJob job;
    job.id = file.Field("job_id");
    job.user = file.Field("user");
    job.team = file.Field("tenant");
    job.kind = file.Field("final_status");
    job.gpu_type = file.Field("chip_type");
    DIVVY_TRY(const Duration submit, SecondsField(file, "submit_time", 1e-6));
    job.submit = origin + submit;
    DIVVY_TRY(job.gpus, GpuField(file, "num_chips"));
    DIVVY_TRY(job.nodes, GpuField(file, "num_nodes"));
    DIVVY_TRY(job.runtime, SecondsField(file, "duration_s"));
    // In this trace, the column walltime_limit_s repeats the run time, so it is not read as a time limit.
    workload.jobs.push_back(std::move(job));
    return {};
  });
}

}  // namespace

Status ReadHelios(const std::string& path, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"job_id", "submit_time", "user"}, {.comment = '#'}));
  if (file.Has("gpu_num") && (file.Has("duration_capped_s") || file.Has("duration"))) return ReadWhole(file, workload);
  if (file.Has("num_chips") && file.Has("num_nodes") && file.Has("duration_s")) return ReadSlice(file, workload);
  return InvalidArgument(path +
                         ": not a helios trace: expected the columns gpu_num and duration, or "
                         "num_chips, num_nodes and duration_s");
}

}  // namespace divvy::simulate
