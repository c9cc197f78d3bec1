// What requests for reports say alike.
#pragma once

#include "base/result.h"
#include "daemon/usage_report.h"
#include "wire/http.h"

namespace divvy {

/// `since` and `until`; a week to now where they are not said.
Result<ReportStretch> StretchOf(const HttpRequest& request, Time now);
/// `by`; users where it is not said.
Result<ReportBy> ReportByOf(const HttpRequest& request);

}  // namespace divvy
