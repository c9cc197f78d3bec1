// Who held how many GPUs over time, made of runs.
#pragma once

#include <vector>

#include "daemon/usage_report.h"
#include "wire/page_messages.h"

namespace divvy {

/// The stretch in `points` equal steps of whole seconds (the last may be shorter), with what each group held in each in
/// the mean. Its GPU-hours are those of ReportUsage. Requires: `by` is no hour, since < until, points > 0.
wire::SharesReport ReportShares(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch,
                                std::size_t points);

}  // namespace divvy
