// Parameters that all report requests share.
#pragma once

#include <span>

#include "base/result.h"
#include "daemon/reports/usage_report.h"
#include "wire/http/http.h"

namespace divvy {

/// Returns the period from `since` to `until`; the default is the last week.
Result<ReportStretch> StretchOf(const HttpRequest& request, Time now);
/// Returns parameter `by`; the default is the first of `legal`. Refuses other values and lists the legal ones.
Result<ReportBy> ReportByOf(const HttpRequest& request, std::span<const ReportBy> legal);

}  // namespace divvy
