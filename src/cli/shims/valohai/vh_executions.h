// vh execution ...: all verbs except run (vh_run.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "cli/shims/valohai/vh_run.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// All executions of the caller, ended ones included, in ascending order. Only those of `project` if it is not empty.
Result<std::vector<wire::JobView>> FetchExecutions(Api& api, const std::string& project);
/// Rows for `vh exec list`, newest first: #, Status, Step, Duration, URL.
std::vector<std::vector<std::string>> ExecutionRows(const std::vector<wire::JobView>& jobs, double now);
/// Rows for `vh exec summarize`: one per execution, with a column for each metadata key.
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
