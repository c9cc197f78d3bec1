// Reports how many GPUs each group held over time, computed from runs; and for teams their entitlements, as recorded at
// the time.
#pragma once

#include <vector>

#include "daemon/reports/usage_report.h"
#include "daemon/telemetry/metric_store.h"
#include "wire/messages/page_messages.h"

namespace divvy {

/// Splits the period into `points` equal steps of whole seconds (the last may be shorter). Returns the mean number of
/// GPUs that each group held in each step. The GPU-hours equal those of ReportUsage. Requires: `by` is not kHour, since
/// < until, points > 0.
wire::SharesReport ReportShares(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch,
                                std::size_t points);

/// Adds the entitlements of the teams. `kept` holds samples::Of::kTeam over the report's period. If its points are
/// longer than the report's steps, several steps show the same value.
void AddTeamShares(const MetricStore::Answer& kept, wire::SharesReport& report);

}  // namespace divvy
