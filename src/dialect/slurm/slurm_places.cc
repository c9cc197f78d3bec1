// The nodes that a Slurm job names, and their treatment on a single-node server.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "dialect/options/node_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace slurm {

Result<std::vector<std::string>> ParseHosts(std::string_view option, std::string_view value,
                                            std::vector<std::string>* notes) {
  if (value.empty()) return std::vector<std::string>();
  if (Trim(value).empty()) return InvalidArgument("the list of hosts is empty");
  if (value.find('/') == std::string_view::npos) return ReadNodeList(value);
  if (notes != nullptr) {
    notes->push_back("--" + std::string(option) + "=" + std::string(value) +
                     ": host files are not read, so it is ignored; list the hosts");
  }
  return std::vector<std::string>();
}

Status SettlePlaces(JobSpec& spec) {
  Request& request = spec.request;
  std::vector<std::string> notes;
  if (const auto exclude = Value(spec, "exclude")) {
    DIVVY_TRY(request.excluded_nodes, ParseHosts("exclude", *exclude, &notes));
  }
  if (const auto hosts = Value(spec, "nodelist")) {
    DIVVY_TRY(request.node_list, ParseHosts("nodelist", *hosts, &notes));
    std::erase_if(request.node_list,
                  [&](const std::string& name) { return std::ranges::count(request.excluded_nodes, name) > 0; });
    // In divvy, the list is exhaustive: CheckNodes refuses a list with fewer names than the job has nodes.
  }
  if (const auto constraint = Value(spec, "constraint")) {
    DIVVY_TRY(const ConstraintOption ask, ParseConstraint(*constraint));
    request.constraint.clear();
    if (!ask.machines.empty()) {
      if (const auto condition = ReadConstraint(ask.machines)) {
        request.constraint = *condition;
      } else {
        notes.push_back("--constraint=" + *constraint + ": " + condition.error().message + "; ignored");
      }
    }
  }
  for (const std::string& note : notes) AddNote(spec, note);
  return {};
}

}  // namespace slurm

namespace {

constexpr std::size_t kMostTaskHosts = 65'536;

/// Reads lines such as "n1", "n[1-3],n5" and "n1*4 n2". "#" begins a comment.
Result<std::vector<std::string>> ReadHostFile(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view line : Split(text, '\n')) {
    DIVVY_TRY(const std::vector<std::string_view> entries, SplitHostList(Trim(line.substr(0, line.find('#')))));
    for (const std::string_view entry : entries) {
      const auto star = entry.rfind('*');
      const auto times = star == std::string_view::npos ? 1 : ParseInteger(entry.substr(star + 1));
      if (star == 0 || !times || *times < 1 || *times > static_cast<std::int64_t>(kMostTaskHosts))
        return InvalidArgument(Quoted(entry) + " is not a list of hosts; write it like n1, n[1-4] or n1*4");
      DIVVY_TRY(const std::vector<std::string> names, ExpandHostList(entry.substr(0, star)));
      if (hosts.size() + names.size() * static_cast<std::size_t>(*times) > kMostTaskHosts)
        return InvalidArgument("it lists more than " + std::to_string(kMostTaskHosts) + " hosts");
      for (std::int64_t i = 0; i < *times; ++i) hosts.insert(hosts.end(), names.begin(), names.end());
    }
  }
  if (hosts.empty()) return InvalidArgument("it lists no host; write one on each line");
  return hosts;
}

std::string HostFile(const ParseContext& around) {
  constexpr std::string_view kName = "SLURM_HOSTFILE=";
  const auto entry =
      std::ranges::find_if(around.environment, [&](const std::string& one) { return one.starts_with(kName); });
  return entry == around.environment.end() ? "" : entry->substr(kName.size());
}

bool IsArbitrary(const JobSpec& spec) {
  return slurm::Value(spec, "distribution").value_or("").starts_with("arbitrary");
}

}  // namespace

void CutTaskHosts(const JobSpec& spec, std::vector<std::string>& hosts) {
  const std::int64_t tasks = slurm::Number(spec, "ntasks").value_or(0);
  if (tasks > 0 && static_cast<std::size_t>(tasks) < hosts.size()) hosts.resize(static_cast<std::size_t>(tasks));
}

Result<std::vector<std::string>> TaskHosts(const JobSpec& spec, const ParseContext& around, bool is_srun) {
  const std::string list = slurm::Value(spec, "nodelist").value_or("");
  const std::string file = HostFile(around);
  const bool reads_file = list.empty() && !file.empty() && (IsArbitrary(spec) || is_srun);
  if (!reads_file && (!IsArbitrary(spec) || list.empty())) return std::vector<std::string>();
  std::vector<std::string> hosts;
  if (reads_file) {
    DIVVY_TRY(const std::string text, around.read_file(file));
    auto listed = ReadHostFile(text);
    if (!listed) return InvalidArgument("SLURM_HOSTFILE=" + file + ": " + listed.error().message);
    hosts = *std::move(listed);
  } else {
    DIVVY_TRY(hosts, ExpandHostList(list));
  }
  CutTaskHosts(spec, hosts);
  return hosts;
}

Result<std::vector<std::string>> ApplyTaskHosts(const ParseContext& around, bool is_srun, JobSpec& spec) {
  if (spec.request.is_heterogeneous()) return std::vector<std::string>();
  DIVVY_TRY(std::vector<std::string> hosts, TaskHosts(spec, around, is_srun));
  if (!is_srun) NoteLostOrder(around, spec);
  if (hosts.empty()) return hosts;
  if (!slurm::Value(spec, "ntasks") && !slurm::Value(spec, "ntasks-per-node"))
    slurm::Keep(spec, "ntasks", std::to_string(hosts.size()));
  std::vector<std::string> nodes;
  std::set<std::string_view> seen;
  for (const std::string& host : hosts) {
    if (seen.insert(host).second) nodes.push_back(host);
  }
  slurm::Keep(spec, "distribution", "arbitrary");
  slurm::Keep(spec, "nodelist", FoldHostList(nodes));
  return hosts;
}

void NoteLostOrder(const ParseContext& around, JobSpec& spec) {
  const bool rereads_file = slurm::Value(spec, "nodelist").value_or("").empty() && !HostFile(around).empty();
  if (!IsArbitrary(spec) || rereads_file) return;
  AddNote(spec,
          "--distribution=arbitrary: tasks are placed in blocks, node after node; for another order, give it to srun, "
          "or list the hosts in SLURM_HOSTFILE");
}

Status CompleteSlurmOnOne(JobSpec& spec, std::string_view hostname) {
  if (spec.dialect != Dialect::kSlurm) return {};
  if (const auto beyond = slurm::Value(spec, "beyond-one")) return InvalidArgument(*beyond);
  for (Component& one : spec.request.others) {
    if (const auto beyond = one.labels.find(slurm::LabelOf("beyond-one")); beyond != one.labels.end())
      return InvalidArgument("in a component, " + beyond->second);
    one.node_list.clear();
    one.excluded_nodes.clear();
    one.constraint.clear();
  }
  const auto is_own = [&](std::string_view host) {
    return host == hostname || host == hostname.substr(0, hostname.find('.')) || host == "localhost";
  };
  Request& request = spec.request;
  if (const auto own = std::ranges::find_if(request.excluded_nodes, is_own); own != request.excluded_nodes.end())
    return InvalidArgument("--exclude: " + Quoted(*own) + " is this server, the only node; omit it");
  if (!request.node_list.empty() && std::ranges::none_of(request.node_list, is_own)) {
    AddNote(spec, "--nodelist=" + FoldHostList(request.node_list) + ": the only node is " + std::string(hostname) +
                      "; ignored");
  }
  request.node_list.clear();
  request.excluded_nodes.clear();
  request.constraint.clear();
  return {};
}

}  // namespace divvy::dialect
