#include "simulate/traces/trace_formats.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "simulate/traces/trace_readers.h"

namespace divvy::simulate {
namespace {

struct Format {
  std::string_view name;
  Status (*read)(const std::string& path, Workload& workload);
};

constexpr std::array kFormats = {
    Format{"helios", ReadHelios},
    Format{"philly", ReadPhilly},
    Format{"pollux", ReadPollux},
    Format{"gavel", ReadGavel},
    Format{"shockwave", ReadShockwave},
    Format{"muri", ReadMuri},
    Format{"tiresias", ReadTiresias},
    Format{"pai", ReadPai},
    Format{"openb", ReadOpenbTimes},
    Format{"sacct", ReadSacct},
    Format{"swf", ReadSwf},
};

constexpr std::int64_t kMostOfOne = 1'000'000;  // Limit for the nodes of a group, and the GPUs or CPUs of a node.

Result<int> CountOf(const CsvFile& file, std::string_view column) {
  DIVVY_TRY(const auto value, file.Count(column, kMostOfOne));
  return static_cast<int>(value);
}

/// Merges equal neighbours into one group.
void AddNode(TraceCluster& cluster, NodeGroup node) {
  if (node.gpus == 0 || node.count == 0) return;
  if (!cluster.groups.empty()) {
    NodeGroup last = cluster.groups.back();
    last.count = node.count;
    if (last == node) {
      cluster.groups.back().count += node.count;
      return;
    }
  }
  cluster.groups.push_back(std::move(node));
}

Result<NodeGroup> OpenbNode(const CsvFile& file) {
  NodeGroup node;
  node.count = 1;
  DIVVY_TRY(node.gpus, CountOf(file, "gpu"));
  DIVVY_TRY(const double cpu_milli, file.Number("cpu_milli", 0, 1e9));
  DIVVY_TRY(const double memory_mib, file.Number("memory_mib", 0, 1e12));
  node.cpus = static_cast<int>(cpu_milli / 1000);
  node.memory = Bytes(std::llround(memory_mib * 1024 * 1024));
  node.model = file.Field("model");
  return node;
}

Result<NodeGroup> PhillyNodes(const CsvFile& file) {
  NodeGroup nodes;
  DIVVY_TRY(nodes.count, CountOf(file, "node num"));
  nodes.gpus = 8;  // The file only has node counts. All nodes count as 8-GPU nodes (as in HeliosArtifact).
  nodes.team = file.Field("vc");
  return nodes;
}

Result<NodeGroup> PaiNode(const CsvFile& file) {
  NodeGroup node;
  node.count = 1;
  DIVVY_TRY(node.gpus, CountOf(file, "cap_gpu"));
  DIVVY_TRY(node.cpus, CountOf(file, "cap_cpu"));
  DIVVY_TRY(const double memory_gib, file.Number("cap_mem", 0, 1e9));
  node.memory = Bytes(std::llround(memory_gib * 1024 * 1024 * 1024));
  node.model = file.Field("gpu_type");
  return node;
}

Result<NodeGroup> TiresiasSwitch(const CsvFile& file, TraceCluster& cluster) {
  NodeGroup nodes;
  DIVVY_TRY(const int switches, CountOf(file, "num_switch"));
  DIVVY_TRY(nodes.count, CountOf(file, "num_node_p_switch"));
  DIVVY_TRY(nodes.gpus, CountOf(file, "num_gpu_p_node"));
  DIVVY_TRY(nodes.cpus, CountOf(file, "num_cpu_p_node"));
  DIVVY_TRY(const double memory_gib, file.Number("mem_p_node", 0, 1e9));
  nodes.memory = Bytes(std::llround(memory_gib * 1024 * 1024 * 1024));
  for (int i = 1; i < switches; ++i) {
    nodes.rack = "switch" + std::to_string(i);
    AddNode(cluster, nodes);
  }
  nodes.rack = "switch" + std::to_string(switches);
  return nodes;
}

}  // namespace

const std::vector<std::string_view>& TraceFormats() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Format& format : kFormats) all.push_back(format.name);
    return all;
  }();
  return names;
}

Result<Workload> ReadWorkload(std::string_view format, const std::vector<std::string>& paths) {
  const auto known = std::ranges::find(kFormats, format, &Format::name);
  if (known == kFormats.end()) {
    const auto near = Nearest(format, TraceFormats());
    std::string names;
    for (const std::string_view name : TraceFormats()) names += (names.empty() ? "" : ", ") + std::string(name);
    return InvalidArgument("there is no trace format '" + std::string(format) + "'" +
                           (near.empty() ? "" : "; did you mean " + std::string(near) + "?") + " (formats: " + names +
                           ")");
  }
  if (paths.empty()) return InvalidArgument("no job file is given");
  Workload workload;
  for (const std::string& path : paths) DIVVY_CHECK(known->read(path, workload));
  // Several files of one format have the same notes.
  std::vector<std::string> notes;
  for (std::string& note : workload.notes) {
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
  workload.notes = std::move(notes);
  if (workload.jobs.empty()) return InvalidArgument(paths.front() + ": the file has no jobs");
  if (workload.jobs.size() > UINT32_MAX)
    return LimitExceeded(paths.front() + ": the file has more than 4 billion jobs");
  Arrange(workload);
  return workload;
}

Result<TraceCluster> ReadCluster(const std::string& path) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {}));
  TraceCluster cluster;
  const bool is_openb = file.Has("cpu_milli") && file.Has("memory_mib") && file.Has("gpu");
  const bool is_philly = file.Has("vc") && file.Has("node num");
  const bool is_pai = file.Has("cap_gpu") && file.Has("cap_cpu") && file.Has("cap_mem");
  const bool is_tiresias = file.Has("num_switch") && file.Has("num_node_p_switch") && file.Has("num_gpu_p_node") &&
                           file.Has("num_cpu_p_node") && file.Has("mem_p_node");
  if (!is_openb && !is_philly && !is_pai && !is_tiresias)
    return InvalidArgument(
        path +
        ":1: unknown format of a node list: the columns of openb are sn,cpu_milli,memory_mib,gpu,"
        "model, of Philly vc,node num, of PAI machine,gpu_type,cap_cpu,cap_mem,cap_gpu; or describe the "
        "cluster: --nodes 96x8:v100");
  DIVVY_CHECK(ForEachLine(file, [&]() -> Status {
    DIVVY_TRY(NodeGroup node, is_openb    ? OpenbNode(file)
                              : is_philly ? PhillyNodes(file)
                              : is_pai    ? PaiNode(file)
                                          : TiresiasSwitch(file, cluster));
    AddNode(cluster, std::move(node));
    return {};
  }));
  if (cluster.groups.empty()) return InvalidArgument(path + ": no node has a GPU");
  return cluster;
}

}  // namespace divvy::simulate
