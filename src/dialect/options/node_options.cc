#include "dialect/options/node_options.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_hostlist.h"
#include "engine/feature_expression.h"
#include "model/growth_wishes.h"

namespace divvy::dialect {
namespace {

// The limit for host names (RFC 1123).
constexpr std::size_t kLongestName = 253;

bool IsName(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_'; };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, fits);
}

Status CheckNames(std::string_view option, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!IsName(name)) return InvalidArgument(std::string(option) + ": " + Quoted(name) + " is not a valid node name");
  }
  return {};
}

// The largest length in bytes of the names in all --provider options together.
constexpr std::size_t kLongestNames = 1024;

/// Parses --provider. `has_any`: the same command line or script already had a --provider option, so the names are
/// added to those.
Status AddProvider(std::string_view value, JobSpec& spec, bool has_any) {
  std::string& names = spec.labels[std::string(kProviderLabel)];
  if (!has_any) names.clear();
  for (const std::string_view name : Split(value, ',')) {
    if (name.empty() || name.find_first_of(" \t") != std::string_view::npos)
      return InvalidArgument(Quoted(value) +
                             " is not a list of providers; write it like lab-slurm or lab-slurm,aws-us");
    const auto known = Split(names, ',');
    if (std::ranges::find(known, name) == known.end()) names += (names.empty() ? "" : ",") + std::string(name);
  }
  if (names.size() > kLongestNames)
    return InvalidArgument("the names of providers have more than " + std::to_string(kLongestNames) + " bytes");
  return {};
}

}  // namespace

Result<std::vector<std::string>> ReadNodeList(std::string_view text) {
  const auto read = ExpandHostList(Trim(text));
  // Shorten "Invalid hostlist: n[3-1]: why".
  if (const auto why = read ? std::string::npos : read.error().message.find("]: "); why != std::string::npos)
    return InvalidArgument(Quoted(text) + read.error().message.substr(why + 1));
  if (!read) return InvalidArgument(Quoted(text) + " is not a list of nodes; write it like n1,n2 or n[1-4,7]");
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const std::string& name : *read) {
    if (!IsName(name)) return InvalidArgument(Quoted(name) + " is not a valid node name (divvy nodes lists the nodes)");
    if (seen.insert(name).second) names.push_back(name);
  }
  if (names.empty()) return InvalidArgument("the list of nodes is empty; write it like n1,n2 or n[1-4,7]");
  if (names.size() > static_cast<std::size_t>(kMostNodes))
    return InvalidArgument(Quoted(text) + " names more than " + std::to_string(kMostNodes) + " nodes");
  return names;
}

Result<std::string> ReadConstraint(std::string_view text) {
  std::string condition(Trim(text));
  if (condition.empty()) return InvalidArgument("the constraint is empty; write it like ib or \"ib&(nvme|ssd)\"");
  DIVVY_TRY([[maybe_unused]] const FeatureWish wish, ParseFeatureWish(condition));
  return condition;
}

void AddNodeOptions(std::vector<Option>& table, JobSpec& spec) {
  table.push_back(Option::Value("nodes", 'N', "N",
                                "number of nodes; each provides the requested GPUs, cores and memory, and runs one "
                                "task unless --tasks says otherwise (default: 1)",
                                Reads(spec.request.nodes, ReadCount, 1, kMostNodes, "nodes")));
  table.push_back(Option::Value(
      "constraint", 'C', "EXPR",
      "features that the nodes must have: ib, \"ib&(nvme|ssd)\", \"[rack1|rack2]\" (all nodes the same one)",
      Reads(spec.request.constraint, ReadConstraint)));
  // The option has no letter: -w, as in Slurm, is --wait in divvy.
  table.push_back(Option::Value("nodelist", "LIST", "use only these nodes: n1,n2 or n[1-4,7]",
                                Reads(spec.request.node_list, ReadNodeList)));
  table.push_back(Option::Value("exclude", 'x', "LIST", "do not use these nodes: n1,n2 or n[1-4,7]",
                                Reads(spec.request.excluded_nodes, ReadNodeList)));
}

Status CheckNodes(const Request& request) {
  if (request.nodes < 1 || request.nodes > kMostNodes)
    return InvalidArgument("--nodes " + std::to_string(request.nodes) + ": a job can have 1 to " +
                           std::to_string(kMostNodes) + " nodes");
  if (request.short_nodes < 0 || request.short_nodes >= request.nodes ||
      (request.short_nodes > 0 &&
       (request.gpus < 2 || request.is_elastic() || request.is_portioned() || !request.slice.empty())))
    return InvalidArgument("short_nodes is " + std::to_string(request.short_nodes) +
                           ", but only some of several nodes can give one of their whole GPUs less; write 0, or a "
                           "number below that of the nodes");
  if (request.short_nodes > 0 && request.constraint.find('*') != std::string::npos)
    return InvalidArgument("--constraint " + request.constraint +
                           " counts nodes, which is not possible if they have different numbers of GPUs; write "
                           "--nodes and --gpus for nodes that are equal, or a constraint for all nodes");
  if (request.nodes > 1 && request.spreads_tasks)
    return InvalidArgument("--nodes " + std::to_string(request.nodes) +
                           " cannot be combined with tasks that may be spread over any nodes; omit one of them");
  if (request.nodes > request.tasks)
    return InvalidArgument("--tasks " + std::to_string(request.tasks) + " is fewer than --nodes " +
                           std::to_string(request.nodes) + ", but each node runs at least one task; write --tasks " +
                           std::to_string(request.nodes) + ", or omit --tasks");
  if (request.is_elastic() && request.is_gang()) {
    const std::string range = std::to_string(request.gpus) + ".." + std::to_string(request.max_gpus);
    return InvalidArgument("--gpus " + range +
                           " (an elastic job) needs a job on one node, but this one may have several; write --gpus " +
                           std::to_string(request.gpus) + ", or omit --nodes and --gpus-per-task");
  }
  if (!request.constraint.empty()) {
    if (const auto condition = ReadConstraint(request.constraint); !condition)
      return InvalidArgument("--constraint " + Quoted(request.constraint) + ": " + condition.error().message);
  }
  DIVVY_CHECK(CheckNames("--nodelist", request.node_list));
  DIVVY_CHECK(CheckNames("--exclude", request.excluded_nodes));
  const std::set<std::string_view> excluded(request.excluded_nodes.begin(), request.excluded_nodes.end());
  const auto left =
      std::ranges::count_if(request.node_list, [&](const auto& name) { return !excluded.contains(name); });
  if (!request.node_list.empty() && left < request.nodes) {
    const std::string without = excluded.empty() ? "" : " that --exclude does not list";
    return InvalidArgument("--nodelist names " + Plural(left, "node") + without + ", but --nodes requests " +
                           std::to_string(request.nodes) + "; list more nodes, or request fewer");
  }
  return {};
}

std::vector<std::string> NodeReadings(const Request& request) {
  std::vector<std::string> out;
  if (!request.constraint.empty()) out.push_back("where " + request.constraint);
  if (!request.node_list.empty()) out.push_back("on " + FoldHostList(request.node_list));
  if (!request.excluded_nodes.empty()) out.push_back("not on " + FoldHostList(request.excluded_nodes));
  return out;
}

void AddGrowthOptions(std::vector<Option>& table, JobSpec& spec) {
  table.push_back(Option::Flag("no-grow", "wait for existing nodes; request none from a provider",
                               [&spec](std::string_view) -> Status {
                                 spec.labels[std::string(kNoGrowLabel)] = "yes";
                                 return {};
                               }));
  table.push_back(Option::Value("provider", "NAMES",
                                "request nodes for this job from these providers only, see divvy providers; repeatable",
                                [&spec, has_any = std::make_shared<bool>(false)](std::string_view value) -> Status {
                                  const bool is_later = *has_any;
                                  *has_any = true;
                                  return AddProvider(value, spec, is_later);
                                }));
  table.push_back(Option::Value(
      "max-price", "AMOUNT", "highest price per hour of all nodes that are requested for this job, such as 3.50",
      [&spec](std::string_view value) -> Status {
        if (!PriceIn(value))
          return InvalidArgument(Quoted(value) + " is not a number above 0 and at most 1000000000; write it like 3.50");
        spec.labels[std::string(kMaxPriceLabel)] = value;
        return {};
      }));
}

}  // namespace divvy::dialect
