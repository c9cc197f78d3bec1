// vh execution ...: everything but run (vh_run.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "cli/shims/valohai/vh_run.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// All executions of the caller, also ended ones, ascending by number; of one project when it is not empty.
Result<std::vector<wire::JobView>> FetchExecutions(Api& api, const std::string& project);
/// Rows for `vh exec list`, the newest first: #, Status, Step, Duration, URL.
std::vector<std::vector<std::string>> ExecutionRows(const std::vector<wire::JobView>& jobs, double now);
/// Rows for `vh exec summarize`: one for each execution, one column for each key of its metadata.
std::vector<std::vector<std::string>> SummaryRows(const std::vector<wire::JobView>& jobs,
                                                  const std::vector<std::map<std::string, std::string>>& metadata,
                                                  double now);

int VhListMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhInfoMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhLogsMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhStopMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhDeleteMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhOutputsMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhSummarizeMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhTaskListMain(const std::vector<std::string>& words, const VhGlobal& global);
int VhTaskStopMain(const std::vector<std::string>& words, const VhGlobal& global);

}  // namespace divvy::cli
