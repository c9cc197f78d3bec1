// sinfo --json, and scontrol show node, partition and config.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/shown_answer.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/slurm/slurm_environment.h"
#include "wire/json/json.h"

namespace divvy::cli::slurm {
namespace {

/// "A=1 B=2\n   C=3\n" or all on one line.
std::string Lines(const std::vector<std::string>& lines, bool is_one_line) {
  return Join(lines, is_one_line ? " " : "\n   ") + "\n" + (is_one_line ? "" : "\n");
}

std::string UpperState(const NodeRow& row) {
  std::string state = NodeState(row);
  if (state.starts_with("reserved")) state.insert(0, "idle+");
  std::ranges::transform(state, state.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return state;
}

/// Active reservations with unused GPUs on the node: "course,3".
std::string ReservationsOf(const NodeRow& row) {
  std::vector<std::string> names;
  for (const wire::GpuView& gpu : row.gpus) {
    if (!gpu.reservation.empty() && std::ranges::count(names, gpu.reservation) == 0) names.push_back(gpu.reservation);
  }
  return Join(names, ",");
}

std::int64_t GpusInUse(const NodeRow& row) { return std::ranges::count(row.gpus, "allocated", &wire::GpuView::state); }

std::string CountedTres(const NodeRow& row, std::int64_t cpus, std::int64_t gpus) {
  return "cpu=" + std::to_string(cpus) + ",mem=" + std::to_string(row.scene.memory_mib) +
         "M,gres/gpu=" + std::to_string(gpus);
}

bool IsOwn(const NodeRow& row) { return row.view.name.empty() || row.view.is_controller; }

std::string KnownNumber(std::int64_t number) { return number < 0 ? "N/A" : std::to_string(number); }

std::string Load(const NodeRow& row) {
  if (row.scene.load < 0) return "N/A";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", row.scene.load);
  return text;
}

/// The partition that was requested for this row, or else all partitions of the node: "main,a100".
std::vector<std::string> AllPartitionsOf(const NodeRow& row) {
  if (!row.partition.empty()) return {row.partition};
  std::vector<std::string> names;
  if (IsDefaultPartition(row)) names.emplace_back(dialect::kSlurmPartition);
  for (std::string& pool : PoolsOf(row)) names.push_back(std::move(pool));
  return names;
}

void AddNode(const NodeRow& row, JsonWriter& json) {
  JsonFields fields(json);
  const auto list = [&](std::string_view key, const std::vector<std::string>& items) {
    json.Key(key);
    json.BeginArray();
    for (const std::string& item : items) json.String(item);
    json.EndArray();
  };
  const std::string state = NodeState(row);
  const bool is_heard = !state.ends_with('*');
  json.BeginObject();
  fields.Text("name", HostOf(row));
  fields.Text("hostname", HostOf(row));
  fields.Text("address", AddressOf(row));
  fields.Text("architecture", "x86_64");
  fields.Text("state", is_heard ? state : state.substr(0, state.size() - 1));
  list("state_flags", is_heard ? std::vector<std::string>() : std::vector<std::string>{"NOT_RESPONDING"});
  fields.Text("reason", ReasonOf(row));
  fields.Text("reservation", ReservationsOf(row));
  list("features", FeaturesOf(row));
  fields.Text("gres", Gres(row.gpus));
  fields.Text("gres_used", GresUsed(row.gpus));
  fields.Number("cpus", row.scene.cpus);
  fields.Number("alloc_cpus", CpusInUse(row));
  fields.Number("idle_cpus", row.scene.cpus - CpusInUse(row));
  fields.Number("real_memory", row.scene.memory_mib);
  fields.Number("alloc_memory", MemoryInUse(row));
  if (IsOwn(row)) {
    const auto up_since = static_cast<std::int64_t>(row.scene.now - row.status.uptime_s);
    fields.Number("cpu_load", static_cast<std::int64_t>(row.scene.load * 100));
    fields.Number("free_memory", row.scene.memory_free_mib);
    fields.Number("free_mem", row.scene.memory_free_mib);
    fields.Number("boot_time", up_since);
    fields.Number("slurmd_start_time", up_since);
  }
  fields.Text("slurmd_version", VersionOf(row));
  fields.Text("tres", CountedTres(row, row.scene.cpus, static_cast<std::int64_t>(row.gpus.size())));
  fields.Text("tres_used", CountedTres(row, CpusInUse(row), GpusInUse(row)));
  list("partitions", AllPartitionsOf(row));
  json.EndObject();
}

}  // namespace

std::string NodesJson(const std::vector<NodeRow>& rows) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  AddMeta(json, "sinfo");
  json.Key("nodes");
  json.BeginArray();
  for (const NodeRow& row : rows) AddNode(row, json);
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

std::string ShowNode(const NodeRow& row, bool is_one_line) {
  const std::string host = HostOf(row);
  const std::string cpus = std::to_string(row.scene.cpus);
  const auto used = std::to_string(CpusInUse(row));
  const std::string features = OrNull(Join(FeaturesOf(row), ","));
  std::vector<std::string> lines = {
      "NodeName=" + host + " Arch=x86_64 CoresPerSocket=1",
      "CPUAlloc=" + used + " CPUEfctv=" + cpus + " CPUTot=" + cpus + " CPULoad=" + Load(row),
      "AvailableFeatures=" + features,
      "ActiveFeatures=" + features,
      "Gres=" + Gres(row.gpus),
      "GresUsed=" + GresUsed(row.gpus),
      "NodeAddr=" + AddressOf(row) + " NodeHostName=" + host + " Version=" + VersionOf(row),
      "RealMemory=" + std::to_string(row.scene.memory_mib) + " AllocMem=" + std::to_string(MemoryInUse(row)) +
          " FreeMem=" + KnownNumber(row.scene.memory_free_mib) + " Sockets=" + cpus + " Boards=1",
      "State=" + UpperState(row) + " ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
      "Partitions=" + Join(AllPartitionsOf(row), ","),
      "SlurmdStartTime=" + (IsOwn(row) ? Moment(row.scene.now - row.status.uptime_s) : std::string("None")),
      "CfgTRES=cpu=" + cpus + ",mem=" + std::to_string(row.scene.memory_mib) + "M,billing=" + cpus +
          ",gres/gpu=" + std::to_string(row.gpus.size()),
      "AllocTRES=cpu=" + used + ",gres/gpu=" + std::to_string(GpusInUse(row)),
  };
  if (const std::string names = ReservationsOf(row); !names.empty()) lines.push_back("ReservationName=" + names);
  if (!ReasonOf(row).empty()) lines.push_back("Reason=" + ReasonWithMoment(row));
  return Lines(lines, is_one_line);
}

static std::string StateOf(const wire::PoolView& pool) {
  if (pool.state.empty()) return "UP";
  std::string state = pool.state;
  for (char& c : state) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return state;
}

namespace {

struct PartitionTotals {
  std::vector<std::string> hosts;
  std::int64_t cpus = 0;
  std::int64_t memory_mib = 0;
  std::size_t gpus = 0;
};

PartitionTotals TotalsOf(const std::vector<NodeRow>& rows) {
  PartitionTotals totals;
  for (const NodeRow& row : rows) {
    totals.hosts.push_back(HostOf(row));
    totals.cpus += row.scene.cpus;
    totals.memory_mib += row.scene.memory_mib;
    totals.gpus += row.gpus.size();
  }
  return totals;
}

std::string TresOf(const PartitionTotals& totals, std::size_t nodes) {
  return "cpu=" + std::to_string(totals.cpus) + ",mem=" + std::to_string(totals.memory_mib) +
         "M,node=" + std::to_string(nodes) + ",gres/gpu=" + std::to_string(totals.gpus);
}

}  // namespace

std::string ConfigPathOf(const NodeRow& row) {
  return row.status.home.empty() ? "/etc/divvy/divvy.toml" : row.status.home + "/divvy.toml";
}

std::string ShowPartition(const std::vector<NodeRow>& rows, bool is_one_line) {
  const std::string name = PartitionOf(rows.front());
  const PartitionTotals totals = TotalsOf(rows);
  const std::string cpus = std::to_string(totals.cpus);
  const std::string nodes = std::to_string(rows.size());
  const wire::PoolView& pool = rows.front().pool;
  const std::string accounts = pool.teams.empty() ? "ALL" : Join(pool.teams, ",");
  const std::string most = pool.max_nodes ? std::to_string(*pool.max_nodes) : pool.name.empty() ? nodes : "UNLIMITED";
  const std::vector<std::string> lines = {
      "PartitionName=" + name,
      "AllowGroups=ALL AllowAccounts=" + accounts + " AllowQos=ALL",
      "AllocNodes=ALL Default=" + std::string(IsDefaultPartition(rows.front()) ? "YES" : "NO") + " QoS=N/A",
      "DefaultTime=" + PartitionTime(pool.default_time_s, "NONE") +
          " DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
      "MaxNodes=" + most + " MaxTime=" + PartitionTime(pool.max_time_s, "UNLIMITED") +
          " MinNodes=1 LLN=NO MaxCPUsPerNode=UNLIMITED",
      "Nodes=" + dialect::FoldHostList(totals.hosts),
      "PriorityJobFactor=1 PriorityTier=" + (pool.name.empty() ? "1" : std::to_string(pool.priority)) +
          " RootOnly=NO ReqResv=NO OverSubscribe=" + (pool.is_exclusive ? "EXCLUSIVE" : "NO"),
      "OverTimeLimit=NONE PreemptMode=OFF",
      "State=" + StateOf(pool) + " TotalCPUs=" + cpus + " TotalNodes=" + nodes + " SelectTypeParameters=NONE",
      "JobDefaults=(null)",
      "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
      "TRES=" + TresOf(totals, rows.size()),
  };
  return Lines(lines, is_one_line);
}

namespace {

/// Clients look these up to learn how the cluster behaves. For a plugin of Slurm's, the value is the one that behaves
/// like divvy.
std::vector<std::pair<std::string, std::string>> ConfigLines(const NodeRow& row) {
  return {
      {"AccountingStorageEnforce", "none"},
      {"AccountingStorageTRES", "cpu,mem,energy,node,billing,gres/gpu"},
      {"AccountingStorageType", "divvy"},
      {"AcctGatherNodeFreq", "0 sec"},
      {"AllowSpecResourcesUsage", "NO"},
      {"BOOT_TIME", Moment(row.scene.now - row.status.uptime_s)},
      {"ClusterName", std::string(dialect::kSlurmCluster)},
      {"DependencyParameters", "kill_invalid_depend"},
      {"EnforcePartLimits", "ALL"},
      {"GresTypes", "gpu"},
      {"InactiveLimit", "0 sec"},
      {"JobRequeue", "1"},
      {"KillOnBadExit", "0"},
      {"KillWait", "30 sec"},
      {"Licenses", ""},
      {"MaxArraySize", "4000001"},
      {"MaxTasksPerNode", "512"},
      {"MinJobAge", "300 sec"},
      {"OverTimeLimit", "0 min"},
      {"PriorityType", "priority/multifactor"},
      {"ProctrackType", "proctrack/linuxproc"},
      {"PropagateResourceLimits", "ALL"},
      {"PropagateResourceLimitsExcept", ""},
      {"SchedulerParameters", "policy=" + row.status.policy},
      {"SchedulerTimeSlice", "30 sec"},
      {"SchedulerType", "sched/backfill"},
      {"SelectType", "select/cons_tres"},
      {"SelectTypeParameters", "CR_MEMORY"},
      {"SLURM_CONF", ConfigPathOf(row)},
      {"SLURM_VERSION", std::string(kVersion.substr(kVersion.find(' ') + 1))},
      {"SlurmctldHost[0]", HostOf(row)},
      {"SlurmctldPort", row.status.listens.substr(row.status.listens.rfind(':') + 1)},
      {"SlurmdPort", ""},
      {"SlurmUser", row.status.user + "(" + std::to_string(row.scene.uid_of(row.status.user)) + ")"},
      {"StateSaveLocation", row.status.home},
  };
}

}  // namespace

std::string ShowConfig(const NodeRow& row) {
  std::string text = "Configuration data as of " + Moment(row.scene.now) + "\n";
  for (const auto& [name, value] : ConfigLines(row)) {
    std::string padded = name;
    padded.resize(std::max<std::size_t>(name.size(), 23), ' ');
    text += padded + " = " + OrNull(value) + "\n";
  }
  return text;
}

std::string ConfigJson(const NodeRow& row) {
  std::string out;
  JsonWriter json(out);
  JsonFields fields(json);
  json.BeginObject();
  AddMeta(json, "scontrol");
  json.Key("config");
  json.BeginObject();
  for (const auto& [name, value] : ConfigLines(row)) fields.Text(name, value);
  json.EndObject();
  json.EndObject();
  return out + "\n";
}

std::string PartitionsJson(const std::vector<std::vector<NodeRow>>& partitions) {
  std::string out;
  JsonWriter json(out);
  JsonFields fields(json);
  json.BeginObject();
  AddMeta(json, "scontrol");
  json.Key("partitions");
  json.BeginArray();
  for (const std::vector<NodeRow>& rows : partitions) {
    const PartitionTotals totals = TotalsOf(rows);
    const wire::PoolView& pool = rows.front().pool;
    // In minutes; -1: no limit.
    const auto minutes = [](const std::optional<double>& seconds) {
      return seconds ? static_cast<std::int64_t>(std::ceil(*seconds / 60)) : -1;
    };
    json.BeginObject();
    fields.Text("name", PartitionOf(rows.front()));
    fields.Bool("default", IsDefaultPartition(rows.front()));
    fields.Text("nodes", dialect::FoldHostList(totals.hosts));
    fields.Number("total_nodes", static_cast<std::int64_t>(rows.size()));
    fields.Number("total_cpus", totals.cpus);
    fields.Text("allowed_accounts", Join(pool.teams, ","));
    fields.Number("default_time_limit", minutes(pool.default_time_s));
    fields.Number("max_time_limit", minutes(pool.max_time_s));
    fields.Number("maximum_nodes_per_job", pool.max_nodes.value_or(-1));
    fields.Number("priority_tier", pool.name.empty() ? 1 : pool.priority);
    fields.Bool("exclusive", pool.is_exclusive);
    fields.Text("state", StateOf(pool));
    fields.Text("tres", TresOf(totals, rows.size()));
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

Result<std::vector<NodeRow>> FetchNodes() {
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const wire::StatusView status, api.Status());
  DIVVY_TRY(const std::vector<wire::GpuView> gpus, api.Gpus());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/nodes", ""));
  DIVVY_TRY(const std::string pools_text, api.Raw("GET", "/v1/pools", ""));
  DIVVY_TRY(std::vector<wire::PoolView> pools, DecodeShown<std::vector<wire::PoolView>>(pools_text));
  const auto shared = std::make_shared<const std::vector<wire::PoolView>>(std::move(pools));
  DIVVY_TRY(std::vector<wire::NodeView> views, DecodeShown<std::vector<wire::NodeView>>(text));
  std::ranges::stable_partition(views, &wire::NodeView::is_controller);
  wire::JobSelector select;
  select.user = "all";
  select.states = {"starting", "running", "paused", "stopping"};
  DIVVY_TRY(const std::vector<wire::JobView> jobs, api.Jobs(select));
  const bool is_alone = views.size() < 2;
  Scene scene = SceneOfServer();
  if (!is_alone && views.front().is_controller) scene.hostname = views.front().name;
  std::vector<NodeRow> rows;
  for (wire::NodeView& view : views) {
    NodeRow row;
    row.status = status;
    row.pools = shared;
    row.scene = scene;
    row.scene.cpus = static_cast<int>(view.cpus);
    row.scene.memory_mib = view.memory_bytes >> 20;
    if (!view.is_controller || api.is_remote()) {
      row.scene.load = -1;
      row.scene.memory_free_mib = -1;
    }
    if (!view.is_controller) row.status.trouble.clear();
    row.view = std::move(view);
    if (is_alone && !api.is_remote()) row.view.name.clear();
    const std::string host = HostOf(row);
    for (const wire::GpuView& gpu : gpus) {
      if (is_alone || gpu.node == host || (gpu.node.empty() && row.view.is_controller)) row.gpus.push_back(gpu);
    }
    for (const wire::JobView& job : jobs) {
      if (IsOnOneOf(job, {host}, row.scene)) row.jobs.push_back(job);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace divvy::cli::slurm
