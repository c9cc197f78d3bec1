// scontrol create, update and delete of partitions. A partition that is made here is a pool without limits, which
// exists as long as a node has its label. Pools with limits are in divvy.toml.
#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/shown_answer.h"
#include "cli/shims/slurm/slurm_scontrol.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "dialect/slurm/slurm_environment.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::cli::slurm {
namespace {

const std::string kLabel = "pool";

struct PartitionWish {
  std::string name;
  std::optional<std::vector<std::string>> nodes;  // "ALL": every node.
};

/// True if every partition without a table in divvy.toml has this value, so that setting it needs no change.
bool IsAlwaysSo(std::string_view name, std::string_view value) {
  const bool is_unlimited = value == "unlimited" || value == "infinite" || value == "-1";
  if (name == "maxtime" || name == "maxnodes" || name == "defaulttime") return is_unlimited || value == "none";
  if (name == "state") return value == "up";
  return (name == "oversubscribe" && value == "no") || (name == "default" && value == "no");
}

Result<PartitionWish> ReadWish(const std::vector<std::string>& words) {
  PartitionWish wish;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) return InvalidArgument("'" + word + "' must have the form NAME=VALUE");
    const std::string name = ToLower(word.substr(0, equals));
    const std::string value = word.substr(equals + 1);
    if (name == "partitionname" || name == "partition") {
      wish.name = value;
    } else if (name == "nodes") {
      if (EqualsIgnoringCase(value, "all")) {
        wish.nodes = {"ALL"};
      } else {
        DIVVY_TRY(wish.nodes, HostNames({value}));
      }
    } else if (!IsAlwaysSo(name, ToLower(value))) {
      return InvalidArgument("Update of this parameter is not supported: " + word.substr(0, equals) +
                             "; scontrol sets only Nodes, limits are in the table [pools." + wish.name +
                             "] of divvy.toml");
    }
  }
  if (wish.name.empty()) return InvalidArgument("No partition specified; write PartitionName=debug");
  if (wish.name.find_first_of(", ") != std::string::npos)
    return InvalidArgument("'" + wish.name + "' is not a partition's name; use no comma and no space");
  return wish;
}

bool IsIn(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> LabelledPools(const NodeRow& row) {
  std::vector<std::string> names;
  const auto label = row.view.labels.find(kLabel);
  if (label == row.view.labels.end()) return names;
  for (const std::string_view one : Split(label->second, ',')) names.emplace_back(Trim(one));
  return names;
}

/// Adds the partition's name to the label of the nodes in `nodes`, and removes it from that of all others.
Status Label(Api& api, const std::vector<NodeRow>& rows, const std::string& name,
             const std::vector<std::string>& nodes) {
  for (const NodeRow& row : rows) {
    std::vector<std::string> pools = LabelledPools(row);
    const bool is_wanted = IsIn(nodes, HostOf(row)) || IsIn(nodes, "ALL");
    if (is_wanted == IsIn(pools, name)) continue;
    if (is_wanted) pools.push_back(name);
    else std::erase(pools, name);
    wire::NodeRequest request;
    request.names = {HostOf(row)};
    request.labels = {{kLabel, Join(pools, ",")}};
    DIVVY_TRY([[maybe_unused]] const std::string text,
              api.Raw("POST", "/v1/nodes/label", wire::EncodeChanged(request)));
  }
  return {};
}

Status Apply(PartitionVerb verb, const std::vector<std::string>& words) {
  DIVVY_TRY(const PartitionWish wish, ReadWish(words));
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(const std::vector<NodeRow> rows, FetchNodes());
  DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/pools", ""));
  DIVVY_TRY(const std::vector<wire::PoolView> pools, DecodeShown<std::vector<wire::PoolView>>(text));
  const auto pool = std::ranges::find(pools, wish.name, &wire::PoolView::name);
  const bool exists = pool != pools.end();
  // "MaxTime=UNLIMITED" alone.
  if (verb == PartitionVerb::kUpdate && !wish.nodes && !(exists && pool->is_from_file) &&
      (exists || wish.name == dialect::kSlurmPartition))
    return {};
  if (wish.name == dialect::kSlurmPartition && !exists)
    return InvalidArgument("partition " + wish.name + " is all nodes, and cannot be changed");
  if (exists && pool->is_from_file)
    return InvalidArgument("partition " + wish.name + " is in divvy.toml: change its table [pools." + wish.name +
                           "] there, then run divvy down and divvy up");
  if (verb == PartitionVerb::kCreate && exists) return InvalidArgument("Partition name already exists: " + wish.name);
  if (verb != PartitionVerb::kCreate && !exists)
    return InvalidArgument("Invalid partition name specified: " + wish.name);
  if (verb != PartitionVerb::kDelete && !wish.nodes)
    return InvalidArgument("write Nodes=n[1-2], or Nodes=ALL: a partition without nodes does not exist here");
  const std::vector<std::string> nodes = verb == PartitionVerb::kDelete ? std::vector<std::string>() : *wish.nodes;
  for (const std::string& node : nodes) {
    if (node != "ALL" && NodesNamed(rows, {node}).empty())
      return InvalidArgument("Invalid node name specified: " + node);
  }
  return Label(api, rows, wish.name, nodes);
}

}  // namespace

int ControlPartition(PartitionVerb verb, const std::vector<std::string>& words) {
  const Status applied = Apply(verb, words);
  return applied ? 0 : Say("scontrol: error: " + applied.error().message);
}

}  // namespace divvy::cli::slurm
