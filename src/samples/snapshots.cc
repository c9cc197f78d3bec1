// Encodes snapshots as blocks, with a column for each subject and metric, so that a batch of ten seconds is little
// larger than one second.
#include <algorithm>
#include <map>
#include <span>

#include "samples/block.h"
#include "samples/bytes.h"

namespace divvy::samples {
namespace {

constexpr std::size_t kMostSubjects = 4096;
constexpr std::size_t kMostProcesses = 4096;
constexpr std::size_t kMostText = 512;

struct Key {
  bool is_own;  // The job's own metrics come last.
  Metric metric;
  std::string name;

  friend auto operator<=>(const Key&, const Key&) = default;
};

void WriteProcesses(const std::vector<ProcessUse>& processes, ByteWriter& out) {
  const std::size_t count = std::min(processes.size(), kMostProcesses);
  out.Number(count);
  for (const ProcessUse& process : std::span(processes).first(count)) {
    out.Signed(process.pid);
    out.Number(process.job);
    out.Signed(process.gpu);
    out.Float(static_cast<float>(process.memory_bytes));
    out.Float(static_cast<float>(process.utilization));
  }
  // The host use of the processes is written last, because older versions do not read that far.
  for (const ProcessUse& process : std::span(processes).first(count)) {
    out.Float(static_cast<float>(process.cpu_cores));
    out.Float(static_cast<float>(process.host_memory_bytes));
    out.Float(static_cast<float>(process.read_bytes_per_second));
    out.Float(static_cast<float>(process.written_bytes_per_second));
  }
}

std::vector<ProcessUse> ReadProcesses(ByteReader& in) {
  std::vector<ProcessUse> processes(in.Count(kMostProcesses, 11));
  for (ProcessUse& process : processes) {
    process.pid = in.Signed();
    process.job = in.Number();
    process.gpu = static_cast<int>(in.Signed());
    process.memory_bytes = static_cast<double>(in.Float());
    process.utilization = static_cast<double>(in.Float());
  }
  if (in.is_at_end()) return processes;
  for (ProcessUse& process : processes) {
    process.cpu_cores = static_cast<double>(in.Float());
    process.host_memory_bytes = static_cast<double>(in.Float());
    process.read_bytes_per_second = static_cast<double>(in.Float());
    process.written_bytes_per_second = static_cast<double>(in.Float());
  }
  return processes;
}

// Encodes an unknown counter as 0, and a known one as its value plus 1.
void WriteCounters(const std::vector<GpuCounters>& counters, ByteWriter& out) {
  const auto add = [&](const std::optional<std::uint64_t>& count) { out.Number(count ? *count + 1 : 0); };
  out.Number(counters.size());
  for (const GpuCounters& gpu : counters) {
    out.Signed(gpu.gpu);
    add(gpu.energy_millijoules);
    add(gpu.xid_errors);
  }
}

std::vector<GpuCounters> ReadCounters(ByteReader& in) {
  const auto next = [&]() -> std::optional<std::uint64_t> {
    const std::uint64_t count = in.Number();
    return count == 0 ? std::nullopt : std::optional(count - 1);
  };
  std::vector<GpuCounters> counters(in.is_at_end() ? 0 : in.Count(kMostSubjects, 3));
  for (GpuCounters& gpu : counters) {
    gpu.gpu = static_cast<int>(in.Signed());
    gpu.energy_millijoules = next();
    gpu.xid_errors = next();
  }
  return counters;
}

}  // namespace

std::string EncodeSnapshots(const std::vector<Snapshot>& snapshots) {
  ByteWriter out;
  if (snapshots.empty()) return "";
  const Second begin = snapshots.front().at;
  const auto count = static_cast<std::size_t>(
      std::clamp<Second>(snapshots.back().at - begin + 1, 1, static_cast<Second>(kMostBlockPoints)));
  std::map<Subject, std::map<Key, std::vector<Point>>> columns;
  for (const Snapshot& snapshot : snapshots) {
    const auto at = static_cast<std::size_t>(snapshot.at - begin);
    if (at >= count) continue;
    for (const Sample& sample : snapshot.samples) {
      for (const Reading& reading : sample.readings) {
        auto& points = columns[sample.subject][{!reading.name.empty(), reading.metric, reading.name}];
        if (points.empty()) points.assign(count, NoPoint());
        points[at] = PointOf(reading.value);
      }
    }
  }
  out.Number(columns.size());
  for (auto& [subject, metrics] : columns) {
    Block block{begin, 1, count, {}};
    for (auto& [key, points] : metrics) block.columns.push_back({key.metric, key.name, std::move(points)});
    out.Text(ToText(subject));
    out.Text(EncodeBlock(block));
  }
  WriteProcesses(snapshots.back().processes, out);
  WriteCounters(snapshots.back().counters, out);
  return out.Take();
}

Result<std::vector<Snapshot>> DecodeSnapshots(std::string_view bytes) {
  const Error corrupt = CorruptData("a batch of samples is damaged");
  std::map<Second, Snapshot> snapshots;
  if (bytes.empty()) return std::vector<Snapshot>();
  ByteReader in(bytes);
  const std::size_t subjects = in.Count(kMostSubjects, 2);
  for (std::size_t i = 0; i < subjects; ++i) {
    const auto subject = SubjectFromText(in.Text(kMostText));
    const std::string_view text = in.Text(bytes.size());
    if (in.failed() || !subject) return corrupt;
    DIVVY_TRY(const Block block, DecodeBlock(text));
    for (std::size_t at = 0; at < block.count; ++at) {
      Sample sample{*subject, {}};
      for (const Column& column : block.columns) {
        if (IsPoint(column.points[at]))
          sample.readings.push_back({column.metric, static_cast<double>(column.points[at].mean), column.name});
      }
      if (sample.readings.empty()) continue;
      Snapshot& snapshot = snapshots[block.begin + static_cast<Second>(at)];
      snapshot.samples.push_back(std::move(sample));
    }
  }
  std::vector<ProcessUse> processes = ReadProcesses(in);
  std::vector<GpuCounters> counters = ReadCounters(in);
  if (in.failed()) return corrupt;
  std::vector<Snapshot> out;
  for (auto& [at, snapshot] : snapshots) {
    snapshot.at = at;
    out.push_back(std::move(snapshot));
  }
  if (out.empty()) return out;
  out.back().processes = std::move(processes);
  out.back().counters = std::move(counters);
  return out;
}

}  // namespace divvy::samples
