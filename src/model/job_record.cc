#include "model/job_record.h"

#include <array>

namespace divvy {
namespace {

constexpr std::array<std::string_view, 11> kStateNames = {"held",      "queued",    "starting",  "running",
                                                          "paused",    "stopping",  "succeeded", "failed",
                                                          "cancelled", "timed_out", "lost"};

}  // namespace

JobRecord::JobRecord() = default;
JobRecord::JobRecord(const JobRecord&) = default;
JobRecord::JobRecord(JobRecord&&) noexcept = default;
JobRecord& JobRecord::operator=(const JobRecord&) = default;
JobRecord& JobRecord::operator=(JobRecord&&) noexcept = default;
JobRecord::~JobRecord() = default;
bool operator==(const JobRecord&, const JobRecord&) = default;

int GpuCountOf(const JobRecord& record) {
  if (record.gang.empty()) return record.gpus.size();
  int gpus = 0;
  for (const NodeAllocation& allocation : record.gang) gpus += allocation.gpus.size();
  return gpus;
}

double GpusWorthOf(const JobRecord& record) {
  return GpuCountOf(record) * static_cast<double>(record.gpu_parts.ten_thousandths()) / GpuShare::kWhole;
}

std::vector<NodeAllocation> AllocationsOf(const JobRecord& record) {
  if (!record.gang.empty()) return record.gang;
  return {NodeAllocation{record.node, record.gpus, record.request.tasks, 0, record.exit}};
}

bool IsOn(const JobRecord& record, std::string_view node) {
  if (record.gang.empty()) return record.node == node;
  for (const NodeAllocation& allocation : record.gang) {
    if (allocation.node == node) return true;
  }
  return false;
}

std::string DisplayId(const JobRecord& record) {
  if (record.array.is_set()) return ToString(record.array) + "_" + std::to_string(record.array_index);
  if (record.array_count == 0 || record.array_waiting.empty()) return ToString(record.id);
  if (record.array_indices.empty()) return ToString(record.id) + "_[" + record.array_waiting.ToString() + "]";
  IndexRanges indices;
  // Indices are listed up to this number of elements: the list of a long array with a step would be too long to read.
  constexpr std::uint64_t kSpelled = 1000;
  if (record.array_waiting.size() > kSpelled && record.array_indices.ranges().size() > 1) {
    return ToString(record.id) + "_[" + std::to_string(record.array_waiting.size()) + " elements]";
  }
  if (record.array_indices.ranges().size() == 1) {
    const std::uint32_t offset = record.array_indices.front();
    for (const auto& range : record.array_waiting.ranges()) indices.Insert(range.first + offset, range.last + offset);
  } else {
    for (const auto& range : record.array_waiting.ranges()) {
      for (std::uint32_t ordinal = range.first; ordinal <= range.last; ++ordinal) {
        if (const auto index = record.array_indices.Nth(ordinal)) indices.Insert(*index);
      }
    }
  }
  return ToString(record.id) + "_[" + indices.ToString() + "]";
}

std::string_view Name(JobState state) { return kStateNames.at(static_cast<std::size_t>(state)); }

std::string_view Name(Dialect dialect) {
  constexpr std::array<std::string_view, 4> kNames = {"native", "slurm", "gflow", "valohai"};
  return kNames.at(static_cast<std::size_t>(dialect));
}

std::string_view Name(PlacementStrategy placement) {
  constexpr std::array<std::string_view, 5> kNames = {"sequential", "random", "pack", "spread", "best"};
  return kNames.at(static_cast<std::size_t>(placement));
}

std::string_view Name(TopologyNeed topology) {
  constexpr std::array<std::string_view, 5> kNames = {"any", "numa", "nvlink", "rack", "block"};
  return kNames.at(static_cast<std::size_t>(topology));
}

std::string_view Name(Preemptible preemptible) {
  constexpr std::array<std::string_view, 3> kNames = {"never", "pause", "requeue"};
  return kNames.at(static_cast<std::size_t>(preemptible));
}

std::string GpuListText(GpuSet gpus) {
  std::string text;
  for (const int gpu : gpus.ToVector()) text += (text.empty() ? "" : ",") + std::to_string(gpu);
  return text;
}

std::string GpuCountText(const Request& request) {
  if (request.portion.request > GpuShare()) {
    return (request.gpus > 1 ? std::to_string(request.gpus) + "x" : "") + PartsText(request.portion.request);
  }
  return std::to_string(request.gpus) + (request.is_elastic() ? ".." + std::to_string(request.max_gpus) : "");
}

std::string TopologyText(const Request& request) {
  if (request.topology == TopologyNeed::kAny) return "";
  return std::string(Name(request.topology)) + (request.requires_topology ? ":required" : "");
}

std::optional<JobState> JobStateFromName(std::string_view name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == name) return static_cast<JobState>(i);
  }
  return std::nullopt;
}

}  // namespace divvy
