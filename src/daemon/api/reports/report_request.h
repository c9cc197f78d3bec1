// The parts that all reports share: their parameters, and the runs that they count.
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

/// Returns the period from `since` to `until`; the default is the last week.
Result<ReportStretch> StretchOf(const HttpRequest& request, Time now);
/// Returns parameter `by`; the default is the first of `legal`. Refuses other values and lists the legal ones.
Result<ReportBy> ReportByOf(const HttpRequest& request, std::span<const ReportBy> legal);

/// Builds the body of an answer from runs; called on a thread that reads.
using ReportOfRuns = std::function<std::string(const std::vector<ReportedRun>& runs, bool is_cut)>;
/// Whether to count earlier runs of jobs that were started again. Uses are only known per job.
enum class PastRuns { kCount, kLeaveOut };
/// Answers with `report` of all runs in the period. By node, a run on several nodes is one entry per node.
void ReportRuns(ApiContext& api, ApiCall& call, ReportBy by, const ReportStretch& stretch, PastRuns past,
                ReportOfRuns report);

}  // namespace divvy
