#include "dialect/config/config_pools.h"

#include <algorithm>

#include "dialect/config/config_values.h"
#include "dialect/options/slurm_hostlist.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kPools = "pools.";
constexpr std::string_view kPoolKeys[] = {
    "nodes",   "constraint", "users",  "teams",     "max_time", "default_time", "min_gpus",     "max_gpus", "max_nodes",
    "running", "gpus",       "policy", "placement", "priority", "exclusive",    "jobs_per_gpu", "default",  "state"};
constexpr std::int64_t kMost = 1'000'000;
constexpr int kMostJobsPerGpu = 16;

/// Names of pools appear in comma-separated lists and as Slurm's partitions.
Status CheckName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (!name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_plain) && name.front() != '-') return {};
  return InvalidArgument("[pools." + std::string(name.substr(0, 64)) +
                         "]: a pool name has letters, digits, '.', '_' and '-' only, 64 at most");
}

Status ReadNodes(const ConfigValue& value, PoolRow& row) {
  std::vector<std::string> lists;
  if (const auto* text = std::get_if<std::string>(&value)) lists = {*text};
  else if (const auto* many = std::get_if<std::vector<std::string>>(&value)) lists = *many;
  else return InvalidArgument("is not a list of nodes; write it like \"n[1-4]\", [\"n1\", \"n2\"] or \"all\"");
  for (const std::string& list : lists) {
    if (EqualsIgnoringCase(list, "all")) {
      row.has_all = true;
      continue;
    }
    const auto names = ExpandHostList(list);
    if (!names) return InvalidArgument(names.error().message + "; write it like \"n[1-4]\"");
    row.nodes.insert(row.nodes.end(), names->begin(), names->end());
  }
  if (!row.has_all && row.nodes.empty()) return InvalidArgument("is empty; omit it, or write \"all\"");
  return {};
}

Status ReadConstraint(const ConfigValue& value, PoolRow& row) {
  DIVVY_TRY(row.constraint, ConfigText(value, "h100&ib"));
  DIVVY_TRY(const FeatureWish wish, ParseFeatureWish(row.constraint));
  if (!wish.counted.empty() || !wish.alike.empty())
    return InvalidArgument("counts and [...] apply only to the nodes of one job; write features with & and |");
  row.condition = wish.all;
  if (row.condition.is_any()) return InvalidArgument("is empty; omit it");
  return {};
}

Result<std::vector<std::string>> PoolNames(const ConfigValue& value) {
  DIVVY_TRY(auto names, ConfigNames(value));
  // Refuse an empty list, which would exclude everybody. Without the key, everybody may use the pool.
  if (names.empty()) return ConfigNames({});
  return names;
}

Result<int> Number(const ConfigValue& value, std::int64_t least) {
  DIVVY_TRY(const std::int64_t count, ConfigCount(value, least, kMost));
  return static_cast<int>(count);
}

Status Read(const ConfigEntry& entry, PoolRow& row) {
  const ConfigValue& value = entry.value;
  const std::string& key = entry.key;
  if (key == "nodes") return ReadNodes(value, row);
  if (key == "constraint") return ReadConstraint(value, row);
  if (key == "users") {
    DIVVY_TRY(row.users, PoolNames(value));
  } else if (key == "teams") {
    DIVVY_TRY(row.teams, PoolNames(value));
  } else if (key == "max_time") {
    DIVVY_TRY(row.max_time, ConfigSpan(value, "3d"));
  } else if (key == "default_time") {
    DIVVY_TRY(row.default_time, ConfigSpan(value, "8h"));
  } else if (key == "min_gpus") {
    DIVVY_TRY(row.min_gpus, Number(value, 0));
  } else if (key == "max_gpus") {
    DIVVY_TRY(row.max_gpus, Number(value, 0));
  } else if (key == "max_nodes") {
    DIVVY_TRY(row.max_nodes, Number(value, 1));
  } else if (key == "running") {
    DIVVY_TRY(row.running, Number(value, 1));
  } else if (key == "gpus") {
    DIVVY_TRY(row.gpus, Number(value, 1));
  } else if (key == "policy") {
    DIVVY_TRY(row.policy, ConfigQueuePolicy(value));
  } else if (key == "placement") {
    DIVVY_TRY(row.placement, ConfigPlacement(value));
  } else if (key == "priority") {
    DIVVY_TRY(row.priority, Number(value, -kMost));
  } else if (key == "exclusive") {
    DIVVY_TRY(row.is_exclusive, ConfigYesOrNo(value));
  } else if (key == "jobs_per_gpu") {
    DIVVY_TRY(row.jobs_per_gpu, Number(value, 1));
    if (row.jobs_per_gpu > kMostJobsPerGpu)
      return InvalidArgument("is too large; write a number from 1 to " + std::to_string(kMostJobsPerGpu));
  } else if (key == "default") {
    DIVVY_TRY(row.is_default, ConfigYesOrNo(value));
  } else if (key == "state") {
    DIVVY_TRY(row.state, ConfigOneOf<PoolState>(value, {{"up", PoolState::kUp},
                                                        {"down", PoolState::kDown},
                                                        {"drain", PoolState::kDrain},
                                                        {"inactive", PoolState::kInactive}}));
  } else {
    return UnknownConfigKey(entry, kPoolKeys);
  }
  return {};
}

/// Checks that a value is consistent with the earlier lines of the table, so that an error names the present line.
Status CheckTogether(const std::string& key, const PoolRow& row, const std::vector<PoolRow>& pools) {
  if (key == "default" && row.is_default) {
    const auto is_other = [&](const PoolRow& other) { return other.is_default && other.name != row.name; };
    if (const auto other = std::ranges::find_if(pools, is_other); other != pools.end()) {
      return InvalidArgument("pool " + row.name + " and pool " + other->name +
                             " are both the default; only one can be");
    }
  }
  if (key.ends_with("_gpus") && row.min_gpus && row.max_gpus && *row.min_gpus > *row.max_gpus)
    return InvalidArgument("the min_gpus of pool " + row.name + " is above its max_gpus");
  if ((key == "exclusive" || key == "jobs_per_gpu") && row.is_exclusive && row.jobs_per_gpu > 1)
    return InvalidArgument("pool " + row.name +
                           " gives whole nodes (exclusive), but its jobs_per_gpu shares each GPU; omit one of them");
  if (key.ends_with("_time") && row.max_time > Duration(0) && row.default_time > row.max_time)
    return InvalidArgument("the default_time of pool " + row.name + " is longer than its max_time");
  return {};
}

}  // namespace

bool IsOfPools(const ConfigEntry& entry) { return entry.section.starts_with(kPools); }

Status ReadPoolsEntry(const ConfigEntry& entry, std::vector<PoolRow>& pools) {
  const std::string_view name = std::string_view(entry.section).substr(kPools.size());
  DIVVY_CHECK(CheckName(name));
  PoolRow& row = ConfigRow(pools, &PoolRow::name, name);
  const Status read = entry.key.empty() ? Status() : Read(entry, row);
  if (!read) return AboutConfigKey(entry, read.error());
  return CheckTogether(entry.key, row, pools);
}

}  // namespace divvy::dialect
