// Code that the routes of all reports share: reading the parameters of requests, and collecting the runs to report on.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/api/call/api_context.h"
#include "daemon/reports/usage_report.h"
#include "wire/http/http.h"

namespace divvy {

/// Returns the period that the request's parameters `since` and `until` name; the default is the last week.
Result<ReportStretch> StretchOf(const HttpRequest& request, Time now);
/// Returns the request's parameter `by`; the default is the first of `legal`. Fails if it is not in `legal`, with a
/// message that lists these values.
Result<ReportBy> ReportByOf(const HttpRequest& request, std::span<const ReportBy> legal);

/// Builds the body of an answer from runs. Called on a thread for slow reads. `is_cut`: there were too many runs, so
/// the oldest ones are missing.
using ReportOfRuns = std::function<std::string(std::vector<ReportedRun>& runs, bool is_cut)>;
/// Whether earlier runs of jobs that were started again count. A report on GPU use leaves them out, because use is
/// recorded per job and not per run.
enum class PastRuns { kCount, kLeaveOut };
/// Answers with `report` of all runs in the period. By node, a run on several nodes is one entry per node.
void ReportRuns(ApiContext& api, ApiCall& call, ReportBy by, const ReportStretch& stretch, PastRuns past,
                ReportOfRuns report);

}  // namespace divvy
