// On how many machines a job runs, and on which: options of a submission, and what must hold between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// More machines than one job is given.
inline constexpr int kMostNodes = 10'000;

/// --nodes, --constraint, --nodelist, --exclude.
void AddNodeOptions(std::vector<Option>& table, JobSpec& spec);

/// The names in "n[1-4,7],login", each once, in their order. Refuses a list without a name, names that no machine can
/// have, and more than kMostNodes.
Result<std::vector<std::string>> ReadNodeList(std::string_view text);
/// "ib&(nvme|ssd)", without the blanks around it, if it is an expression that has a meaning for a job.
Result<std::string> ReadConstraint(std::string_view text);

/// That the machines of a request go together: --nodes and --tasks, the names, the condition.
Status CheckNodes(const Request& request);

/// "on n[1-4]", "not on n7", "where ib&nvme": a phrase for each that is asked for.
std::vector<std::string> NodeReadings(const Request& request);

}  // namespace divvy::dialect
