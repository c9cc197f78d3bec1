// Samples in the API's words.
#pragma once

#include <functional>

#include "daemon/sample_book.h"
#include "wire/series_messages.h"

namespace divvy {

/// How much of a job is shown to whom.
enum class JobShown { kNothing /* it runs no more */, kUse, kAll /* with what it says of itself */ };

/// `has_many`: there are other machines, so each is named.
wire::LatestAnswer LatestViewOf(const SampleBook& book, Time now, bool has_many,
                                const std::function<JobShown(JobId)>& shown);
/// `has_own`: the metrics that a job says of itself as well.
wire::SeriesAnswer SeriesViewOf(const SampleBook::Answer& answer, bool has_many, bool has_own);

/// As people and programs read it: no more digits than are kept.
double Rounded(samples::Metric metric, double value);

}  // namespace divvy
