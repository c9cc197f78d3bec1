// Options for the number and choice of a job's nodes, and the rules between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// The largest number of nodes that one job may have.
inline constexpr int kMostNodes = 10'000;

/// --nodes, --constraint, --nodelist, --exclude.
void AddNodeOptions(std::vector<Option>& table, JobSpec& spec);
/// Options for nodes on demand: --no-grow, --provider and --max-price (model/growth_wishes.h).
void AddGrowthOptions(std::vector<Option>& table, JobSpec& spec);

/// Expands "n[1-4,7],login" into unique names in order. Refuses a list without a name, names that no node can have, and
/// more than kMostNodes.
Result<std::vector<std::string>> ReadNodeList(std::string_view text);
/// Checks an expression such as "ib&(nvme|ssd)" and returns it without surrounding blanks.
Result<std::string> ReadConstraint(std::string_view text);

/// Checks that a request's node options are consistent: --nodes and --tasks, the names, the constraint.
Status CheckNodes(const Request& request);

/// One phrase per given option: "on n[1-4]", "not on n7", "where ib&nvme".
std::vector<std::string> NodeReadings(const Request& request);

}  // namespace divvy::dialect
