#include "cli/shims/slurm_nodes.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/text.h"
#include "cli/api.h"
#include "cli/shims/slurm_common.h"
#include "cli/shims/slurm_format.h"
#include "cli/shims/slurm_json.h"
#include "dialect/slurm_environment.h"
#include "wire/json.h"

namespace divvy::cli::slurm {
namespace {

using NodeField = Field<NodeRow>;

std::int64_t CpusInUse(const NodeRow& row) {
  std::int64_t cpus = 0;
  for (const wire::JobView& job : row.jobs) {
    if (HoldsGpus(job)) cpus += CpusOf(job);
  }
  return std::min<std::int64_t>(cpus, row.scene.cpus);
}

std::string CpuCounts(const NodeRow& row) {
  const std::int64_t used = CpusInUse(row);
  const std::int64_t rest = row.scene.cpus - used;
  const bool is_drained = NodeState(row) == "drained";
  return std::to_string(used) + "/" + std::to_string(is_drained ? 0 : rest) + "/" +
         std::to_string(is_drained ? rest : 0) + "/" + std::to_string(row.scene.cpus);
}

std::string NodeCounts(const NodeRow& row) {
  const std::string state = NodeState(row);
  return state == "idle" ? "0/1/0/1" : state == "drained" ? "0/0/1/1" : "1/0/0/1";
}

std::string CompactState(const NodeRow& row) {
  const std::string state = NodeState(row);
  return state == "mixed" ? "mix" : state == "allocated" ? "alloc" : state == "drained" ? "drain" : state;
}

std::string Reason(const NodeRow& row) { return row.status.trouble.empty() ? "none" : row.status.trouble; }

std::string Decimal(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", number);
  return text;
}

NodeField Always(char letter, std::string_view name, std::string_view header, std::string text) {
  return {letter, name, header, [text = std::move(text)](const NodeRow&) { return text; }};
}

std::string PartitionOf(const NodeRow& row) {
  return row.partition.empty() ? std::string(dialect::kSlurmPartition) : row.partition;
}

std::int64_t MemoryInUse(const NodeRow& row) {
  std::int64_t bytes = 0;
  for (const wire::JobView& job : row.jobs) {
    if (HoldsGpus(job)) bytes += job.request.memory_bytes;
  }
  return bytes >> 20;
}

std::string CountedTres(const NodeRow& row, std::int64_t cpus, std::int64_t gpus) {
  return "cpu=" + std::to_string(cpus) + ",mem=" + std::to_string(row.scene.memory_mib) +
         "M,gres/gpu=" + std::to_string(gpus);
}

std::vector<NodeField> NodeFields() {
  const auto host = [](const NodeRow& r) { return r.scene.hostname; };
  const auto cpus = [](const NodeRow& r) { return std::to_string(r.scene.cpus); };
  return {
      {'N', "nodelist", "NODELIST", host},
      {'n', "nodehost", "HOSTNAMES", host},
      {'t', "statecompact", "STATE", CompactState},
      {'T', "statelong", "STATE", NodeState},
      {0, "statecomplete", "STATE", NodeState},
      {'G', "gres", "GRES", [](const NodeRow& r) { return Gres(r.gpus); }},
      {0, "gresused", "GRES_USED", [](const NodeRow& r) { return GresUsed(r.gpus); }},
      {'c', "cpus", "CPUS", cpus},
      {'C', "cpusstate", "CPUS(A/I/O/T)", CpuCounts},
      {'F', "nodeaiot", "NODES(A/I/O/T)", NodeCounts},
      {'A', "nodeai", "NODES(A/I)", [](const NodeRow& r) { return NodeCounts(r).substr(0, 3); }},
      {'m', "memory", "MEMORY", [](const NodeRow& r) { return std::to_string(r.scene.memory_mib); }},
      {'e', "freemem", "FREE_MEM", [](const NodeRow& r) { return std::to_string(r.scene.memory_free_mib); }},
      {'O', "cpusload", "CPU_LOAD", [](const NodeRow& r) { return Decimal(r.scene.load); }},
      {'E', "reason", "REASON", Reason},
      {'X', "sockets", "SOCKETS", cpus},
      {'z', "socketcorethread", "S:C:T", [](const NodeRow& r) { return std::to_string(r.scene.cpus) + ":1:1"; }},
      {'v', "version", "VERSION", [](const NodeRow& r) { return "divvy-" + r.status.version; }},
      {'P', "partition", "PARTITION",
       [](const NodeRow& r) { return PartitionOf(r) + (PartitionOf(r) == dialect::kSlurmPartition ? "*" : ""); }},
      {'R', "partitionname", "PARTITION", PartitionOf},
      {0, "allocmem", "ALLOCMEM", [](const NodeRow& r) { return std::to_string(MemoryInUse(r)); }},
      Always(0, "comment", "COMMENT", "(null)"),
      Always(0, "extra", "EXTRA", "(null)"),
      Always(0, "port", "PORT", "0"),
      Always('a', "available", "AVAIL", "up"),
      Always('D', "nodes", "NODES", "1"),
      Always('l', "time", "TIMELIMIT", "infinite"),
      Always('L', "defaulttime", "DEFAULTTIME", "n/a"),
      Always('s', "size", "JOB_SIZE", "1"),
      Always('r', "root", "ROOT", "no"),
      Always('h', "oversubscribe", "OVERSUBSCRIBE", "NO"),
      Always('g', "groups", "GROUPS", "all"),
      Always('f', "features", "AVAIL_FEATURES", "(null)"),
      Always('b', "features_act", "ACTIVE_FEATURES", "(null)"),
      Always('B', "maxcpuspernode", "MAX_CPUS_PER_NODE", "UNLIMITED"),
      Always('d', "disk", "TMP_DISK", "0"),
      Always('w', "weight", "WEIGHT", "1"),
      Always('H', "timestamp", "TIMESTAMP", "Unknown"),
      Always('I', "priorityjobfactor", "PRIO_JOB_FACTOR", "1"),
      Always('M', "preemptmode", "PREEMPT_MODE", "OFF"),
      Always('o', "nodeaddr", "NODE_ADDR", "127.0.0.1"),
      Always('p', "prioritytier", "PRIO_TIER", "1"),
      Always('S', "allocnodes", "ALLOCNODES", "all"),
      Always('u', "user", "USER", "Unknown"),
      Always('U', "userlong", "USER", "Unknown"),
      Always('V', "cluster", "CLUSTER", std::string(dialect::kSlurmCluster)),
      Always('Y', "cores", "CORES", "1"),
      Always('Z', "threads", "THREADS", "1"),
  };
}

/// "A=1 B=2\n   C=3\n" or all on one line.
std::string Lines(const std::vector<std::string>& lines, bool is_one_line) {
  return Join(lines, is_one_line ? " " : "\n   ") + "\n";
}

std::string UpperState(const NodeRow& row) {
  std::string state = NodeState(row);
  std::ranges::transform(state, state.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return state;
}

}  // namespace

std::string NodeState(const NodeRow& row) {
  if (!row.status.accepts_work) return "drained";
  const bool is_busy = std::ranges::any_of(row.jobs, HoldsGpus);
  const bool has_free = std::ranges::any_of(row.gpus, [](const wire::GpuView& gpu) { return gpu.state == "free"; });
  const bool has_used =
      std::ranges::any_of(row.gpus, [](const wire::GpuView& gpu) { return gpu.state == "allocated"; });
  if (has_used && !has_free) return "allocated";
  return is_busy || has_used ? "mixed" : "idle";
}

Result<std::string> FormatNodes(const NodeRow& row, std::string_view letters, const std::string& names,
                                bool has_header) {
  const std::vector<NodeField> fields = NodeFields();
  std::vector<Shown<NodeRow>> columns;
  if (!names.empty()) {
    DIVVY_TRY(columns, ParseNames(names, fields, "node"));
  } else {
    DIVVY_TRY(columns, ParseLetters(letters, fields, "node"));
  }
  // sinfo's own formats give names as much room as they need; cut names would be of no use.
  for (Shown<NodeRow>& column : columns) {
    if (names.empty() && column.width > 0 && (column.field->letter == 'N' || column.field->letter == 'P')) {
      column.width = std::max(column.width, column.field->text(row).size());
    }
  }
  return (has_header ? HeaderLine(columns) : "") + RowLine(columns, row);
}

std::string NodesJson(const NodeRow& row) {
  std::string out;
  JsonWriter json(out);
  JsonFields fields(json);
  const auto list = [&](std::string_view key, const std::vector<std::string>& items) {
    json.Key(key);
    json.BeginArray();
    for (const std::string& item : items) json.String(item);
    json.EndArray();
  };
  json.BeginObject();
  AddMeta(json, "sinfo");
  json.Key("nodes");
  json.BeginArray();
  json.BeginObject();
  fields.Text("name", row.scene.hostname);
  fields.Text("hostname", row.scene.hostname);
  fields.Text("address", "127.0.0.1");
  fields.Text("architecture", "x86_64");
  fields.Text("state", NodeState(row));
  list("state_flags", {});
  fields.Text("reason", row.status.trouble);
  fields.Text("gres", Gres(row.gpus));
  fields.Text("gres_used", GresUsed(row.gpus));
  fields.Number("cpus", row.scene.cpus);
  fields.Number("alloc_cpus", CpusInUse(row));
  fields.Number("idle_cpus", row.scene.cpus - CpusInUse(row));
  fields.Number("cpu_load", static_cast<std::int64_t>(row.scene.load * 100));
  fields.Number("real_memory", row.scene.memory_mib);
  fields.Number("alloc_memory", MemoryInUse(row));
  fields.Number("free_memory", row.scene.memory_free_mib);
  fields.Number("free_mem", row.scene.memory_free_mib);
  fields.Number("boot_time", static_cast<std::int64_t>(row.scene.now - row.status.uptime_s));
  fields.Number("slurmd_start_time", static_cast<std::int64_t>(row.scene.now - row.status.uptime_s));
  fields.Text("slurmd_version", "divvy-" + row.status.version);
  fields.Text("tres", CountedTres(row, row.scene.cpus, static_cast<std::int64_t>(row.gpus.size())));
  fields.Text("tres_used",
              CountedTres(row, CpusInUse(row), std::ranges::count(row.gpus, "allocated", &wire::GpuView::state)));
  list("partitions", {PartitionOf(row)});
  json.EndObject();
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

std::string ShowNode(const NodeRow& row, bool is_one_line) {
  const std::string& host = row.scene.hostname;
  const std::string cpus = std::to_string(row.scene.cpus);
  const auto used = std::to_string(CpusInUse(row));
  std::int64_t gpus_used = std::ranges::count(row.gpus, "allocated", &wire::GpuView::state);
  std::vector<std::string> lines = {
      "NodeName=" + host + " Arch=x86_64 CoresPerSocket=1",
      "CPUAlloc=" + used + " CPUEfctv=" + cpus + " CPUTot=" + cpus + " CPULoad=" + Decimal(row.scene.load),
      "AvailableFeatures=(null)",
      "ActiveFeatures=(null)",
      "Gres=" + Gres(row.gpus),
      "GresUsed=" + GresUsed(row.gpus),
      "NodeAddr=127.0.0.1 NodeHostName=" + host + " Version=divvy-" + row.status.version,
      "RealMemory=" + std::to_string(row.scene.memory_mib) + " AllocMem=" + std::to_string(MemoryInUse(row)) +
          " FreeMem=" + std::to_string(row.scene.memory_free_mib) + " Sockets=" + cpus + " Boards=1",
      "State=" + UpperState(row) + " ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
      "Partitions=" + PartitionOf(row),
      "SlurmdStartTime=" + Moment(row.scene.now - row.status.uptime_s),
      "CfgTRES=cpu=" + cpus + ",mem=" + std::to_string(row.scene.memory_mib) + "M,billing=" + cpus +
          ",gres/gpu=" + std::to_string(row.gpus.size()),
      "AllocTRES=cpu=" + used + ",gres/gpu=" + std::to_string(gpus_used),
  };
  if (!row.status.trouble.empty()) lines.push_back("Reason=" + row.status.trouble);
  return Lines(lines, is_one_line) + (is_one_line ? "" : "\n");
}

std::string ShowPartition(const NodeRow& row, bool is_one_line) {
  const std::string cpus = std::to_string(row.scene.cpus);
  const std::vector<std::string> lines = {
      "PartitionName=" + PartitionOf(row),
      "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
      "AllocNodes=ALL Default=" + std::string(PartitionOf(row) == dialect::kSlurmPartition ? "YES" : "NO") + " QoS=N/A",
      "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
      "MaxNodes=1 MaxTime=UNLIMITED MinNodes=1 LLN=NO MaxCPUsPerNode=UNLIMITED",
      "Nodes=" + row.scene.hostname,
      "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
      "OverTimeLimit=NONE PreemptMode=OFF",
      "State=UP TotalCPUs=" + cpus + " TotalNodes=1 SelectTypeParameters=NONE",
      "JobDefaults=(null)",
      "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
      "TRES=cpu=" + cpus + ",mem=" + std::to_string(row.scene.memory_mib) +
          "M,node=1,gres/gpu=" + std::to_string(row.gpus.size()),
  };
  return Lines(lines, is_one_line) + (is_one_line ? "" : "\n");
}

std::string ShowConfig(const NodeRow& row) {
  std::string text = "Configuration data as of " + Moment(row.scene.now) + "\n";
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"AccountingStorageType", "divvy"},
      {"BOOT_TIME", Moment(row.scene.now - row.status.uptime_s)},
      {"ClusterName", std::string(dialect::kSlurmCluster)},
      {"GresTypes", "gpu"},
      {"KillWait", "30 sec"},
      {"MaxArraySize", "4000001"},
      {"SchedulerType", row.status.policy},
      {"SelectType", "divvy"},
      {"SLURM_VERSION", "22.05 (spoken by divvy " + row.status.version + ")"},
      {"SlurmctldHost[0]", row.scene.hostname},
      {"StateSaveLocation", row.status.home},
  };
  for (const auto& [name, value] : lines) {
    std::string padded = name;
    padded.resize(std::max<std::size_t>(name.size(), 23), ' ');
    text += padded + " = " + OrNull(value) + "\n";
  }
  return text;
}

Result<NodeRow> FetchNode() {
  NodeRow row;
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(row.status, api.Status());
  DIVVY_TRY(row.gpus, api.Gpus());
  wire::JobSelector select;
  select.user = "all";
  select.states = {"starting", "running", "paused", "stopping"};
  DIVVY_TRY(row.jobs, api.Jobs(select));
  row.scene = SceneOfServer();
  return row;
}

}  // namespace divvy::cli::slurm
