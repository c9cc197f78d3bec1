// Who held how many GPUs over time, made of runs; and of teams what they might hold, as it was kept of then.
#pragma once

#include <vector>

#include "daemon/reports/usage_report.h"
#include "daemon/telemetry/sample_book.h"
#include "wire/messages/page_messages.h"

namespace divvy {

/// The stretch in `points` equal steps of whole seconds (the last may be shorter), with what each group held in each in
/// the mean. Its GPU-hours are those of ReportUsage. Requires: `by` is no hour, since < until, points > 0.
wire::SharesReport ReportShares(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch,
                                std::size_t points);

/// Adds what its teams might hold. `kept`: of samples::Of::kTeam, over the report's stretch; where its points are
/// longer than the report's steps, several steps show the same one.
void AddTeamShares(const SampleBook::Answer& kept, wire::SharesReport& report);

}  // namespace divvy
