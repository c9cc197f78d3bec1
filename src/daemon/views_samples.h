// Samples in the API's words.
#pragma once

#include <functional>

#include "daemon/sample_book.h"
#include "wire/series_messages.h"

namespace divvy {

/// `has_many`: there are other machines, so each is named. `may_see`: whose own metrics are shown.
wire::LatestAnswer LatestViewOf(const SampleBook& book, Time now, bool has_many,
                                const std::function<bool(JobId)>& may_see);
/// `has_own`: the metrics that a job says of itself as well.
wire::SeriesAnswer SeriesViewOf(const SampleBook::Answer& answer, bool has_many, bool has_own);

/// As people and programs read it: no more digits than are kept.
double Rounded(samples::Metric metric, double value);

}  // namespace divvy
