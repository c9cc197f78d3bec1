// Slurm's accounting in the output format of sacct -P (--parsable2) or -p (--parsable), with titles:
//   sacct -a -X -P -S 2024-01-01 -o
//   JobID,User,Account,Partition,Submit,Start,End,ElapsedRaw,TimelimitRaw,Priority,State,AllocTRES,ReqTRES
// Steps ("17.batch") are left out, as are jobs that never ran; the notes count them.
#include <cmath>
#include <optional>

#include "base/text.h"
#include "simulate/traces/trace_readers.h"
#include "simulate/traces/trace_time.h"

namespace divvy::simulate {
namespace {

bool IsUnknown(std::string_view text) { return text.empty() || text == "Unknown" || text == "None" || text == "N/A"; }

/// "64G", "65536M", "1.5T"; a bare number is mebibytes.
std::optional<Bytes> ParseTresMemory(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr std::string_view kUnits = "KMGTP";
  const std::size_t unit = kUnits.find(text.back());
  const auto value = ParseNumber(unit == std::string_view::npos ? text : text.substr(0, text.size() - 1));
  if (!value || *value < 0 || *value > 1e9) return std::nullopt;
  const double kib = std::pow(1024.0, static_cast<double>(unit == std::string_view::npos ? 1 : unit));
  const double bytes = *value * kib * 1024;
  return bytes < 9e18 ? std::optional(Bytes(std::llround(bytes))) : std::nullopt;
}

/// Parses "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1" into `job`. Returns false on a syntax error.
bool ReadTres(std::string_view text, TraceJob& job) {
  std::int64_t typed = 0, total = -1;
  for (const std::string_view part : Split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "mem") {
      const auto memory = ParseTresMemory(value);
      if (!memory) return false;
      job.memory = *memory;
      continue;
    }
    const bool is_gpu = name == "gres/gpu", is_typed = name.starts_with("gres/gpu:");
    if (!is_gpu && !is_typed && name != "cpu" && name != "node") continue;
    const auto count = ParseInteger(value);
    if (!count || *count < 0 || *count > kMostGpusOfJob) return false;
    if (name == "cpu") job.cpus = static_cast<int>(*count);
    if (name == "node") job.nodes = static_cast<int>(*count);
    if (is_gpu) total = *count;
    if (is_typed && *count > 0) {
      typed += *count;
      job.gpu_type = (job.gpu_type.empty() ? "" : job.gpu_type + "|") + std::string(name.substr(9));
    }
  }
  job.gpus = static_cast<int>(total >= 0 ? total : std::min(typed, kMostGpusOfJob));
  return true;
}

struct Times {
  Time submit{};
  std::optional<Time> start, end;
  std::optional<Duration> ran;
};

Result<std::optional<Time>> TimeField(const CsvFile& file, std::string_view column) {
  const std::string_view text = file.Field(column);
  if (IsUnknown(text)) return std::optional<Time>();
  if (const auto seconds = ParseInteger(text); seconds && *seconds >= 0 && *seconds < 9'000'000'000)
    return std::optional(Time(std::chrono::seconds(*seconds)));  // SLURM_TIME_FORMAT=%s
  const auto time = ParseDateTime(text);
  if (!time)
    return file.Wrong(std::string(column) + " '" + std::string(text) + "' is not a time such as 2024-01-05T12:00:00");
  return time;
}

Result<Times> ReadTimes(const CsvFile& file) {
  Times times;
  DIVVY_TRY(const auto submit, TimeField(file, "Submit"));
  if (!submit) return file.Wrong("Submit has no time");
  times.submit = *submit;
  DIVVY_TRY(times.start, TimeField(file, "Start"));
  DIVVY_TRY(times.end, TimeField(file, "End"));
  if (!file.Field("ElapsedRaw").empty()) {
    DIVVY_TRY(times.ran, SecondsField(file, "ElapsedRaw"));
  } else if (!file.Field("Elapsed").empty()) {
    times.ran = ParseSlurmDuration(file.Field("Elapsed"));
    if (!times.ran)
      return file.Wrong("Elapsed '" + std::string(file.Field("Elapsed")) + "' is not a duration such as 1-02:03:04");
  } else if (times.start && times.end) {
    if (*times.end < *times.start) return file.Wrong("End is before Start");
    times.ran = *times.end - *times.start;
  }
  return times;
}

Result<Duration> ReadLimit(const CsvFile& file) {
  const std::string_view raw = file.Field("TimelimitRaw"), text = file.Field("Timelimit");
  const auto is_none = [](std::string_view limit) {
    return IsUnknown(limit) || EqualsIgnoringCase(limit, "UNLIMITED") || EqualsIgnoringCase(limit, "Partition_Limit");
  };
  if (!is_none(raw)) return SecondsField(file, "TimelimitRaw", 60);
  if (is_none(text)) return Duration(0);
  const auto limit = ParseSlurmDuration(text);
  if (!limit)
    return file.Wrong("Timelimit '" + std::string(text) + "' is not a duration such as 1-02:03:04 or UNLIMITED");
  return *limit;
}

Result<TraceJob> ReadJob(const CsvFile& file) {
  TraceJob job;
  job.id = file.Field("JobID");
  job.user = file.Field("User");
  job.team = file.Field(file.Field("Account").empty() ? "Partition" : "Account");
  job.name = file.Field("JobName");
  job.kind = file.Field("State");
  const std::string_view allocated = file.Field("AllocTRES"), asked = file.Field("ReqTRES");
  const std::string_view tres = allocated.empty() ? asked : allocated;
  if (!tres.empty() && !ReadTres(tres, job))
    return file.Wrong("'" + std::string(tres) + "' is not a list such as cpu=8,gres/gpu=2,mem=64G,node=1");
  if (!IsUnknown(file.Field("Priority"))) {
    DIVVY_TRY(const auto priority, file.Count("Priority", std::int64_t{UINT32_MAX}));
    job.priority = static_cast<int>(std::min<std::int64_t>(priority, INT32_MAX));
  }
  DIVVY_TRY(job.limit, ReadLimit(file));
  return job;
}

}  // namespace

Status ReadSacct(const std::string& path, Workload& workload) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"JobID", "Submit"}, {.separator = '|'}));
  if (!file.Has("AllocTRES") && !file.Has("ReqTRES"))
    return InvalidArgument(path + ":1: no column with the GPUs; add AllocTRES,ReqTRES to sacct -o");
  if (!file.Has("ElapsedRaw") && !file.Has("Elapsed") && !(file.Has("Start") && file.Has("End")))
    return InvalidArgument(path + ":1: no column with the run times; add Start,End,ElapsedRaw to sacct -o");
  std::int64_t steps = 0, never_ran = 0, still_run = 0;
  DIVVY_CHECK(ForEachLine(file, [&]() -> Status {
    if (file.Field("JobID").find('.') != std::string_view::npos) {
      ++steps;
      return {};
    }
    DIVVY_TRY(TraceJob job, ReadJob(file));
    DIVVY_TRY(const Times times, ReadTimes(file));
    const bool has_started = !file.Has("Start") || times.start.has_value();
    if (!times.ran || !has_started || job.kind == "PENDING") {
      ++never_ran;
      return {};
    }
    still_run += job.kind == "RUNNING";
    job.submit = times.submit;
    job.runtime = *times.ran;
    job.published_start = times.start;
    job.published_end = times.end;
    workload.jobs.push_back(std::move(job));
    return {};
  }));
  if (steps > 0) workload.notes.push_back(Plural(steps, "job step") + " left out; use sacct -X to omit them");
  if (never_ran > 0) workload.notes.push_back(Plural(never_ran, "job") + " left out: never ran");
  if (still_run > 0)
    workload.notes.push_back(Plural(still_run, "job") + " still running; treated as ended when sacct was called");
  return {};
}

}  // namespace divvy::simulate
