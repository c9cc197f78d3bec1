#include "dialect/options/node_options.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_hostlist.h"
#include "engine/feature_expression.h"

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
    if (!IsName(name)) return InvalidArgument(std::string(option) + ": " + Quoted(name) + " is no name of a machine");
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> ReadNodeList(std::string_view text) {
  const auto read = ExpandHostList(Trim(text));
  // Shorten "Invalid hostlist: n[3-1]: why".
  if (const auto why = read ? std::string::npos : read.error().message.find("]: "); why != std::string::npos)
    return InvalidArgument(Quoted(text) + read.error().message.substr(why + 1));
  if (!read) return InvalidArgument(Quoted(text) + " is no list of machines; write it like n1,n2 or n[1-4,7]");
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const std::string& name : *read) {
    if (!IsName(name)) return InvalidArgument(Quoted(name) + " is no name of a machine (divvy nodes lists them)");
    if (seen.insert(name).second) names.push_back(name);
  }
  if (names.empty()) return InvalidArgument("a machine is missing; write it like n1,n2 or n[1-4,7]");
  if (names.size() > static_cast<std::size_t>(kMostNodes))
    return InvalidArgument(Quoted(text) + " stands for more than " + std::to_string(kMostNodes) + " machines");
  return names;
}

Result<std::string> ReadConstraint(std::string_view text) {
  std::string condition(Trim(text));
  if (condition.empty()) return InvalidArgument("a feature is missing; write it like ib or \"ib&(nvme|ssd)\"");
  DIVVY_TRY([[maybe_unused]] const FeatureWish wish, ParseFeatureWish(condition));
  return condition;
}

void AddNodeOptions(std::vector<Option>& table, JobSpec& spec) {
  table.push_back(
      {"nodes", 'N', Takes::kValue, "N",
       "machines, each of which gives the GPUs, cores and memory that are asked for; the command is started "
       "once on each unless --tasks says how often in all",
       [&spec](std::string_view value) -> Status {
         DIVVY_TRY(spec.request.nodes, ReadCount(value, 1, kMostNodes, "machines"));
         return {};
       }});
  table.push_back({"constraint", 'C', Takes::kValue, "EXPR",
                   "features that its machines have: ib, \"ib&(nvme|ssd)\", \"[rack1|rack2]\" (all the same one)",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.constraint, ReadConstraint(value));
                     return {};
                   }});
  // No letter, because -w is --wait.
  table.push_back({"nodelist", 0, Takes::kValue, "LIST", "run on machines of this list only: n1,n2 or n[1-4,7]",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.node_list, ReadNodeList(value));
                     return {};
                   }});
  table.push_back({"exclude", 'x', Takes::kValue, "LIST", "run on no machine of this list: n1,n2 or n[1-4,7]",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.excluded_nodes, ReadNodeList(value));
                     return {};
                   }});
}

Status CheckNodes(const Request& request) {
  if (request.nodes < 1 || request.nodes > kMostNodes)
    return InvalidArgument("--nodes " + std::to_string(request.nodes) + ": a job runs on 1 to " +
                           std::to_string(kMostNodes) + " machines");
  if (request.nodes > 1 && request.spreads_tasks)
    return InvalidArgument("--nodes " + std::to_string(request.nodes) +
                           " and tasks that may lie anywhere exclude each other; leave one of them out");
  if (request.nodes > request.tasks)
    return InvalidArgument("--tasks " + std::to_string(request.tasks) + " are fewer than --nodes " +
                           std::to_string(request.nodes) + ", and each machine runs one at least; write --tasks " +
                           std::to_string(request.nodes) + ", or leave --tasks out");
  if (request.is_elastic() && request.is_gang()) {
    const std::string range = std::to_string(request.gpus) + ".." + std::to_string(request.gpus_most);
    return InvalidArgument("--gpus " + range + " is of one machine, and this job may have several; write --gpus " +
                           std::to_string(request.gpus) + ", or leave --nodes and --gpus-per-task out");
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
    const std::string without = excluded.empty() ? "" : " without those of --exclude";
    return InvalidArgument("--nodelist names " + Plural(left, "machine") + without + ", and --nodes asks for " +
                           std::to_string(request.nodes) + "; name more, or ask for fewer");
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

}  // namespace divvy::dialect
