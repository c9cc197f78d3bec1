// What requests for reports say alike.
#pragma once

#include <span>

#include "base/result.h"
#include "daemon/reports/usage_report.h"
#include "wire/http/http.h"

namespace divvy {

/// `since` and `until`; a week to now where they are not said.
Result<ReportStretch> StretchOf(const HttpRequest& request, Time now);
/// `by`; the first of `legal` where it is not said. Refuses with these what this report does not take.
Result<ReportBy> ReportByOf(const HttpRequest& request, std::span<const ReportBy> legal);

}  // namespace divvy
