#include "cli/shims/slurm_look/slurm_nodes.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <tuple>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_format.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/slurm/slurm.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

/// Nodes that share a line, because the line shows the same for all.
using NodeGroup = std::vector<const NodeRow*>;
using NodeField = Field<NodeGroup>;

/// Columns that are added up or listed over the nodes of a line.
constexpr std::string_view kSummed[] = {"nodelist", "nodes", "nodeaiot", "nodeai", "cpusstate"};

std::string CpuCounts(const NodeGroup& group) {
  std::int64_t used = 0, idle = 0, other = 0, all = 0;
  for (const NodeRow* row : group) {
    const std::int64_t busy = CpusInUse(*row);
    used += busy;
    (IsTakingWork(*row) ? idle : other) += row->scene.cpus - busy;
    all += row->scene.cpus;
  }
  return std::to_string(used) + "/" + std::to_string(idle) + "/" + std::to_string(other) + "/" + std::to_string(all);
}

/// Counts of allocated, idle, other and all nodes.
std::tuple<int, int, int, int> NodeCounts(const NodeGroup& group) {
  int used = 0, idle = 0, other = 0;
  for (const NodeRow* row : group) {
    const std::string state = NodeState(*row);
    if (state == "idle") ++idle;
    else if (state == "mixed" || state == "allocated") ++used;
    else ++other;
  }
  return {used, idle, other, used + idle + other};
}

std::string Decimal(double number) {
  if (number < 0) return "N/A";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", number);
  return text;
}

std::string Known(std::int64_t number) { return number < 0 ? "N/A" : std::to_string(number); }

NodeField ConstantNodeField(char letter, std::string_view name, std::string_view header, std::string text) {
  return {letter, name, header, [text = std::move(text)](const NodeGroup&) { return text; }};
}

NodeField Of(char letter, std::string_view name, std::string_view header,
             std::function<std::string(const NodeRow&)> text) {
  return {letter, name, header, [text = std::move(text)](const NodeGroup& group) { return text(*group.front()); }};
}

/// Slurm's reason for a node that does not respond.
constexpr std::string_view kNotHeard = "Not responding";

/// Splits the controller's "fan, by root" into the reason and the user.
std::pair<std::string, std::string> ReasonAndUserOf(const NodeRow& row) {
  const std::string text = ReasonOf(row);
  constexpr std::string_view kBy = ", by ";
  const auto by = text.rfind(kBy);
  if (text == kNotHeard) return {text, std::string(dialect::kSlurmCluster)};
  if (text.starts_with(kBy.substr(2))) return {"", text.substr(kBy.size() - 2)};
  if (by == std::string::npos || !row.status.trouble.empty()) return {text, ""};
  return {text.substr(0, by), text.substr(by + kBy.size())};
}

std::optional<double> ReasonSince(const NodeRow& row) {
  return ReasonOf(row) == kNotHeard ? row.view.last_contact : row.view.reason_since;
}

std::string ReasonText(const NodeRow& row) {
  const std::string reason = ReasonAndUserOf(row).first;
  return reason.empty() ? "none" : reason;
}

std::string ReasonUser(const NodeRow& row) {
  const std::string user = ReasonAndUserOf(row).second;
  return user.empty() ? "Unknown" : user;
}

std::string HostsOf(const NodeGroup& group) {
  std::vector<std::string> names;
  for (const NodeRow* row : group) names.push_back(HostOf(*row));
  return dialect::FoldHostList(names);
}

std::vector<NodeField> NodeFields() {
  const auto features = [](const NodeRow& r) { return OrNull(Join(FeaturesOf(r), ",")); };
  const auto cpus = [](const NodeRow& r) { return std::to_string(r.scene.cpus); };
  return {
      {'N', "nodelist", "NODELIST", HostsOf},
      Of('n', "nodehost", "HOSTNAMES", HostOf),
      Of('t', "statecompact", "STATE", CompactState),
      Of('T', "statelong", "STATE", NodeState),
      Of(0, "statecomplete", "STATE", NodeState),
      Of('G', "gres", "GRES", [](const NodeRow& r) { return Gres(r.gpus); }),
      Of(0, "gresused", "GRES_USED", [](const NodeRow& r) { return GresUsed(r.gpus); }),
      Of('c', "cpus", "CPUS", cpus),
      {'C', "cpusstate", "CPUS(A/I/O/T)", CpuCounts},
      {'F', "nodeaiot", "NODES(A/I/O/T)",
       [](const NodeGroup& group) {
         const auto [used, idle, other, all] = NodeCounts(group);
         return std::to_string(used) + "/" + std::to_string(idle) + "/" + std::to_string(other) + "/" +
                std::to_string(all);
       }},
      {'A', "nodeai", "NODES(A/I)",
       [](const NodeGroup& group) {
         const auto [used, idle, other, all] = NodeCounts(group);
         return std::to_string(used) + "/" + std::to_string(idle);
       }},
      Of('m', "memory", "MEMORY", [](const NodeRow& r) { return std::to_string(r.scene.memory_mib); }),
      Of('e', "freemem", "FREE_MEM", [](const NodeRow& r) { return Known(r.scene.memory_free_mib); }),
      Of('O', "cpusload", "CPU_LOAD", [](const NodeRow& r) { return Decimal(r.scene.load); }),
      Of('E', "reason", "REASON", ReasonText),
      Of('X', "sockets", "SOCKETS", cpus),
      Of('z', "socketcorethread", "S:C:T", [](const NodeRow& r) { return std::to_string(r.scene.cpus) + ":1:1"; }),
      Of('v', "version", "VERSION", [](const NodeRow& r) { return VersionOf(r); }),
      Of('P', "partition", "PARTITION",
         [](const NodeRow& r) { return PartitionOf(r) + (IsDefaultPartition(r) ? "*" : ""); }),
      Of('R', "partitionname", "PARTITION", PartitionOf),
      Of(0, "allocmem", "ALLOCMEM", [](const NodeRow& r) { return std::to_string(MemoryInUse(r)); }),
      ConstantNodeField(0, "comment", "COMMENT", "(null)"),
      ConstantNodeField(0, "extra", "EXTRA", "(null)"),
      ConstantNodeField(0, "port", "PORT", "0"),
      Of('a', "available", "AVAIL",
         [](const NodeRow& r) {
           return r.pool.state.empty() ? "up" : r.pool.state == "inactive" ? "inact" : r.pool.state;
         }),
      {'D', "nodes", "NODES", [](const NodeGroup& group) { return std::to_string(group.size()); }},
      Of('l', "time", "TIMELIMIT",
         [](const NodeRow& r) { return r.pool.max_time_s ? Elapsed(*r.pool.max_time_s) : "infinite"; }),
      Of('L', "defaulttime", "DEFAULTTIME",
         [](const NodeRow& r) { return r.pool.default_time_s ? Elapsed(*r.pool.default_time_s) : "n/a"; }),
      Of('s', "size", "JOB_SIZE",
         [](const NodeRow& r) { return r.pool.max_nodes ? "1-" + std::to_string(*r.pool.max_nodes) : "1"; }),
      ConstantNodeField('r', "root", "ROOT", "no"),
      Of('h', "oversubscribe", "OVERSUBSCRIBE",
         [](const NodeRow& r) { return r.pool.is_exclusive ? "EXCLUSIVE" : "NO"; }),
      Of('g', "groups", "GROUPS",
         [](const NodeRow& r) { return r.pool.teams.empty() ? "all" : Join(r.pool.teams, ","); }),
      Of('f', "features", "AVAIL_FEATURES", features),
      Of('b', "features_act", "ACTIVE_FEATURES", features),
      ConstantNodeField('B', "maxcpuspernode", "MAX_CPUS_PER_NODE", "UNLIMITED"),
      ConstantNodeField('d', "disk", "TMP_DISK", "0"),
      ConstantNodeField('w', "weight", "WEIGHT", "1"),
      Of('H', "timestamp", "TIMESTAMP",
         [](const NodeRow& r) { return ReasonOf(r).empty() ? "Unknown" : Moment(ReasonSince(r), "Unknown"); }),
      ConstantNodeField('I', "priorityjobfactor", "PRIO_JOB_FACTOR", "1"),
      ConstantNodeField('M', "preemptmode", "PREEMPT_MODE", "OFF"),
      Of('o', "nodeaddr", "NODE_ADDR", AddressOf),
      Of('p', "prioritytier", "PRIO_TIER",
         [](const NodeRow& r) { return r.pool.name.empty() ? "1" : std::to_string(r.pool.priority); }),
      ConstantNodeField('S', "allocnodes", "ALLOCNODES", "all"),
      Of('u', "user", "USER", ReasonUser),
      Of('U', "userlong", "USER", ReasonUser),
      ConstantNodeField('V', "cluster", "CLUSTER", std::string(dialect::kSlurmCluster)),
      ConstantNodeField('Y', "cores", "CORES", "1"),
      ConstantNodeField('Z', "threads", "THREADS", "1"),
  };
}

/// Groups nodes for which these columns show the same. With `is_by_node`, each node has its own group.
std::vector<NodeGroup> Grouped(const std::vector<NodeRow>& rows, const std::vector<Shown<NodeGroup>>& columns,
                               bool is_by_node) {
  std::vector<NodeGroup> groups;
  std::vector<std::string> keys;
  for (const NodeRow& row : rows) {
    std::string key;
    for (const Shown<NodeGroup>& column : columns) {
      if (std::ranges::find(kSummed, column.field->name) == std::end(kSummed)) key += column.field->text({&row}) + '\n';
    }
    const auto same = std::ranges::find(keys, key);
    if (is_by_node || same == keys.end()) {
      keys.push_back(key);
      groups.push_back({&row});
      continue;
    }
    NodeGroup& group = groups[static_cast<std::size_t>(same - keys.begin())];
    // A node in several partitions counts once on a line that does not show the partition.
    const auto is_same = [&](const NodeRow* other) { return HostOf(*other) == HostOf(row); };
    if (std::ranges::none_of(group, is_same)) group.push_back(&row);
  }
  return groups;
}

/// The state, without the marker for a node that does not respond.
std::string StateHere(const NodeRow& row) {
  const bool is_busy = std::ranges::any_of(row.jobs, HoldsGpus);
  const auto has = [&](std::string_view state) {
    return std::ranges::any_of(row.gpus, [&](const wire::GpuView& gpu) { return gpu.state == state; });
  };
  const bool has_free = has("free"), has_reserved = has("reserved");
  const bool has_used = has("allocated") || !row.view.exclusive_job.empty();
  if (!IsTakingWork(row)) return is_busy || row.view.state == "draining" ? "draining" : "drained";
  if (has_used && !has_free && !has_reserved) return "allocated";
  if (has_reserved && !has_free && !is_busy) return "reserved";
  // No GPU of the node may be used.
  if (row.view.state == "up" && !row.gpus.empty() && !has_free && !is_busy) return "drained";
  return is_busy || has_used ? "mixed" : "idle";
}

}  // namespace

bool IsTakingWork(const NodeRow& row) {
  const std::string& state = row.view.state;
  return row.status.accepts_work && state != "cordoned" && state != "draining" && state != "drained" &&
         state != "unfit";
}

std::string HostOf(const NodeRow& row) { return row.view.name.empty() ? row.scene.hostname : row.view.name; }

std::string NodeState(const NodeRow& row) {
  if (!row.status.accepts_work) return "drained";
  if (row.view.state == "lost") return "down*";
  if (row.view.state == "awaited") return "unknown*";
  return StateHere(row) + (row.view.state == "away" ? "*" : "");
}

std::string CompactState(const NodeRow& row) {
  std::string state = NodeState(row);
  for (const auto& [name, compact] :
       {std::pair("mixed", "mix"), std::pair("allocated", "alloc"), std::pair("draining", "drng"),
        std::pair("drained", "drain"), std::pair("unknown", "unk"), std::pair("reserved", "resv")}) {
    if (state.starts_with(name)) return compact + state.substr(std::string_view(name).size());
  }
  return state;
}

std::string ReasonWithMoment(const NodeRow& row) {
  const auto [reason, user] = ReasonAndUserOf(row);
  const std::optional<double> since = ReasonSince(row);
  if (user.empty() || !since) return ReasonOf(row);
  return reason + (reason.empty() ? "" : " ") + "[" + user + "@" + Moment(since) + "]";
}

std::string ReasonOf(const NodeRow& row) {
  if (!row.status.trouble.empty()) return row.status.trouble;
  const bool is_shut = row.view.gpus > 0 && static_cast<std::int64_t>(row.view.gpus_restricted.size()) == row.view.gpus;
  if (row.view.reason.empty() && is_shut && row.view.state == "up") return "GPUs restricted";
  return row.view.reason.empty() && row.view.state == "lost" ? std::string(kNotHeard) : row.view.reason;
}

Result<bool> IsInState(const NodeRow& row, std::string_view state) {
  // Slurm's states that no node here ever has are valid, too.
  static constexpr std::string_view kStates[] = {
      "allocated",    "blocked",       "cloud",       "completing", "comp",     "down",      "drained",
      "draining",     "dynamic",       "fail",        "failing",    "future",   "idle",      "inval",
      "maintenance",  "mixed",         "no_respond",  "npc",        "perfctrs", "planned",   "power_down",
      "powered_down", "powering_down", "powering_up", "power_up",   "reboot",   "rebooting", "reserved",
      "resume",       "undrain",       "unknown",     "drng",       "failg",    "plnd",      "resv"};
  bool is_in = true;
  for (const std::string_view word : Split(state, '&')) {
    std::string wanted = ToLower(Trim(word));
    if (wanted.ends_with('*')) wanted.pop_back();
    const auto begins = [&](std::string_view name) { return name.starts_with(wanted); };
    if (wanted.empty() || std::ranges::none_of(kStates, begins)) {
      return InvalidArgument("Bad state string: \"" + std::string(word) +
                             "\"; states of nodes here are idle, mixed, allocated, draining, drained, drain (both of "
                             "these), down, unknown and no_respond");
    }
    const bool is_silent = std::string_view("no_respond").starts_with(wanted) && NodeState(row).ends_with('*');
    // A partly used node also counts as allocated.
    const bool is_in_use = std::string_view("allocated").starts_with(wanted) && CompactState(row) == "mix";
    is_in = is_in && (begins(NodeState(row)) || begins(CompactState(row)) || is_silent || is_in_use);
  }
  return is_in;
}

std::int64_t CpusInUse(const NodeRow& row) {
  std::int64_t cpus = 0;
  for (const wire::JobView& job : row.jobs) {
    if (!HoldsGpus(job)) continue;
    for (const Place& place : PlacesOf(job, row.scene)) cpus += place.host == HostOf(row) ? place.cpus : 0;
  }
  return std::min<std::int64_t>(cpus, row.scene.cpus);
}

std::int64_t MemoryInUse(const NodeRow& row) {
  std::int64_t bytes = 0;
  for (const wire::JobView& job : row.jobs) {
    if (!HoldsGpus(job)) continue;
    for (const Place& place : PlacesOf(job, row.scene)) bytes += place.host == HostOf(row) ? place.memory_bytes : 0;
  }
  return bytes >> 20;
}

std::vector<std::string> FeaturesOf(const NodeRow& row) {
  std::set<std::string> features;
  for (const auto& [key, value] : row.view.labels) {
    if (key == "pool") continue;
    if (key != "features") {
      features.insert(key);
      features.insert(key + "=" + value);
      continue;
    }
    for (const std::string_view word : Split(value, ',')) {
      if (!word.empty()) features.emplace(word);
    }
  }
  return {features.begin(), features.end()};
}

std::string VersionOf(const NodeRow& row) {
  return "divvy-" + (row.view.version.empty() ? row.status.version : row.view.version);
}

std::string AddressOf(const NodeRow& row) {
  const bool is_own = row.view.name.empty() || row.view.is_controller;
  return is_own ? "127.0.0.1" : row.view.address.empty() ? row.view.name : row.view.address;
}

std::string PartitionOf(const NodeRow& row) {
  return row.partition.empty() ? std::string(dialect::kSlurmPartition) : row.partition;
}

bool IsDefaultPartition(const NodeRow& row) {
  if (row.pool.is_default) return true;
  const bool has_other = row.pools != nullptr && std::ranges::count(*row.pools, true, &wire::PoolView::is_default) > 0;
  return !has_other && PartitionOf(row) == dialect::kSlurmPartition;
}

std::string PartitionTime(const std::optional<double>& seconds, std::string_view none) {
  return seconds ? LongElapsed(*seconds) : std::string(none);
}

std::vector<std::string> PoolsOf(const NodeRow& row) {
  std::vector<std::string> pools = row.view.pools;
  std::erase(pools, std::string(dialect::kSlurmPartition));
  if (!pools.empty()) return pools;
  const auto label = row.view.labels.find("pool");
  if (label == row.view.labels.end()) return pools;
  for (const std::string_view pool : Split(label->second, ',')) {
    if (!pool.empty() && pool != dialect::kSlurmPartition) pools.emplace_back(pool);
  }
  return pools;
}

std::vector<std::string> PartitionsOf(const std::vector<NodeRow>& rows) {
  std::set<std::string> pools;
  for (const NodeRow& row : rows) {
    for (const std::string& pool : PoolsOf(row)) pools.insert(pool);
  }
  bool has_default = false;
  if (!rows.empty() && rows.front().pools != nullptr) {
    for (const wire::PoolView& pool : *rows.front().pools) {
      pools.insert(pool.name);
      has_default = has_default || pool.is_default;
    }
  }
  std::vector<std::string> names;
  if (!has_default) names.emplace_back(dialect::kSlurmPartition);
  for (const std::string& pool : pools) {
    if (has_default || pool != dialect::kSlurmPartition) names.push_back(pool);
  }
  return names;
}

std::vector<NodeRow> NodesIn(const std::vector<NodeRow>& rows, const std::string& partition) {
  const auto is_in = [&](const NodeRow& row) { return std::ranges::count(PoolsOf(row), partition) > 0; };
  wire::PoolView made;
  bool are_made = false;
  if (!rows.empty() && rows.front().pools != nullptr) {
    for (const wire::PoolView& pool : *rows.front().pools) {
      if (pool.name == partition) made = pool;
      are_made = are_made || pool.is_from_file;
    }
  }
  const bool is_whole = partition.empty() || partition == dialect::kSlurmPartition;
  const bool is_pool = !made.name.empty() || std::ranges::any_of(rows, is_in) || (are_made && !is_whole);
  const auto is_of_main = [&](const NodeRow& row) {
    return std::ranges::count(row.view.pools, partition) > 0;  // A pool may be called "main".
  };
  std::vector<NodeRow> out;
  for (const NodeRow& row : rows) {
    if (is_pool && !is_in(row) && !is_of_main(row)) continue;
    out.push_back(row);
    out.back().partition = partition;
    out.back().pool = made;
  }
  return out;
}

std::vector<NodeRow> NodesNamed(const std::vector<NodeRow>& rows, const std::vector<std::string>& names) {
  if (names.empty()) return rows;
  std::vector<NodeRow> out;
  for (const NodeRow& row : rows) {
    const bool is_own = row.view.name.empty() || row.view.is_controller;
    const auto is_it = [&](const std::string& name) {
      return IsSameHost(name, HostOf(row)) || (is_own && name == "localhost");
    };
    if (std::ranges::any_of(names, is_it)) out.push_back(row);
  }
  return out;
}

Result<std::string> FormatNodes(const std::vector<NodeRow>& rows, std::string_view letters, const std::string& names,
                                bool has_header, bool is_by_node) {
  const std::vector<NodeField> fields = NodeFields();
  std::vector<Shown<NodeGroup>> columns;
  if (!names.empty()) {
    DIVVY_TRY(columns, ParseNames(names, fields, "node"));
  } else {
    DIVVY_TRY(columns, ParseLetters(letters, fields, "node"));
  }
  const std::vector<NodeGroup> groups = Grouped(rows, columns, is_by_node);
  // Widen name columns of sinfo's own formats to fit, because cut names are useless.
  for (Shown<NodeGroup>& column : columns) {
    const bool is_name = column.field->letter == 'N' || column.field->letter == 'P';
    if (!names.empty() || column.width == 0 || !is_name) continue;
    for (const NodeGroup& group : groups) column.width = std::max(column.width, column.field->text(group).size());
  }
  std::string text = has_header ? HeaderLine(columns) : "";
  for (const NodeGroup& group : groups) text += RowLine(columns, group);
  return text;
}

Status CheckSeveral(const JobSpec& spec) {
  if (spec.request.nodes <= 1) return {};
  DIVVY_TRY(const std::vector<NodeRow> nodes, FetchNodes());
  if (nodes.size() > 1) return {};
  JobSpec here = spec;
  return dialect::CompleteSlurmOnOne(here, Hostname());
}

}  // namespace divvy::cli::slurm
