// Standard Workload Format 2.2 (Feitelson et al., Parallel Workloads Archive): 18 numbers per line, -1 if unknown, and
// a header of lines that start with ';'.
#include <cmath>

#include "base/text.h"
#include "simulate/traces/trace_readers.h"

namespace divvy::simulate {
namespace {

/// Parses "; MaxNodes: 128" as 128. Returns nothing for other lines, or if the value is unknown.
std::optional<std::int64_t> HeaderValue(std::string_view comment, std::string_view name) {
  const std::string_view text = Trim(comment);
  if (text.size() <= name.size() || !EqualsIgnoringCase(text.substr(0, name.size()), name) || text[name.size()] != ':')
    return std::nullopt;
  // "MaxNodes: 128 (100 in one partition)": the first word is the number.
  const auto words = SplitWords(text.substr(name.size() + 1));
  const auto value = words.empty() ? std::nullopt : ParseInteger(words.front());
  return value && *value > 0 ? value : std::nullopt;
}

void ReadHeader(const CsvFile& file, Workload& workload, Time& origin) {
  std::int64_t nodes = 0, processors = 0;
  for (const std::string& comment : file.comments()) {
    if (const auto value = HeaderValue(comment, "UnixStartTime"); value && *value < 9'000'000'000)
      origin = Time(std::chrono::seconds(*value));
    if (const auto value = HeaderValue(comment, "MaxNodes")) nodes = *value;
    if (const auto value = HeaderValue(comment, "MaxProcs")) processors = *value;
  }
  if (nodes == 0) nodes = processors;
  if (processors == 0) processors = nodes;
  // If the nodes do not divide the processors, the nodes are uneven and only the totals are known.
  if (nodes == 0 || nodes > 1'000'000 || processors % nodes != 0 || processors / nodes > 1'000'000) return;
  NodeGroup group;
  group.count = static_cast<int>(nodes);
  group.gpus = static_cast<int>(processors / nodes);
  workload.cluster = TraceCluster{{group}};
}

std::string Name(std::string_view prefix, double value) {
  return value < 0 ? "" : std::string(prefix) + std::to_string(std::llround(value));
}

}  // namespace

Status ReadSwf(const std::string& path, Workload& workload) {
  TableStyle style{
      .separator = ' ',
      .comment = ';',
      .titles = {"job", "submit", "wait", "run", "allocated", "cpu", "used_memory", "processors", "time", "memory",
                 "status", "user", "group", "executable", "queue", "partition", "preceding", "think"}};
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {}, std::move(style)));
  Time origin{};
  std::int64_t left_out = 0;
  const auto number = [&file](std::string_view column) { return file.Number(column, -1, kMostTraceSeconds); };
  DIVVY_CHECK(ForEachLine(file, [&]() -> Status {
    if (workload.jobs.empty() && left_out == 0) ReadHeader(file, workload, origin);
    TraceJob job;
    job.id = file.Field("job");
    DIVVY_TRY(const double submit, number("submit"));
    DIVVY_TRY(const double wait, number("wait"));
    DIVVY_TRY(const double run, number("run"));
    DIVVY_TRY(const double allocated, number("allocated"));
    DIVVY_TRY(const double asked, number("processors"));
    DIVVY_TRY(const double limit, number("time"));
    DIVVY_TRY(const double memory_kib, number("memory"));
    DIVVY_TRY(const double user, number("user"));
    DIVVY_TRY(const double group, number("group"));
    DIVVY_TRY(const double executable, number("executable"));
    const double processors = asked > 0 ? asked : allocated;
    if (submit < 0 || run < 0 || processors <= 0) {
      ++left_out;
      return {};
    }
    if (processors > static_cast<double>(kMostGpusOfJob)) return file.Wrong("more processors than any cluster has");
    job.gpus = static_cast<int>(processors);
    job.submit = origin + TimeFromSeconds(submit).time_since_epoch();
    job.runtime = TimeFromSeconds(run).time_since_epoch();
    if (limit > 0) job.limit = TimeFromSeconds(limit).time_since_epoch();
    if (memory_kib > 0) job.memory = Bytes(std::llround(memory_kib * 1024 * processors));
    job.user = Name("user", user);
    job.team = Name("group", group);
    job.name = Name("program", executable);
    job.kind = file.Field("status");
    if (wait >= 0) {
      job.published_start = job.submit + TimeFromSeconds(wait).time_since_epoch();
      job.published_end = *job.published_start + job.runtime;
    }
    workload.jobs.push_back(std::move(job));
    return {};
  }));
  workload.notes.push_back("each processor counts as one GPU");
  if (left_out > 0)
    workload.notes.push_back(Plural(left_out, "job") + " left out: submission time, run time or size is unknown");
  return {};
}

}  // namespace divvy::simulate
