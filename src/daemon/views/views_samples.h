// Samples in the API's words.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/telemetry/sample_book.h"
#include "wire/messages/series_messages.h"

namespace divvy {

/// How much of a job is shown to whom.
enum class JobShown { kNothing /* it runs no more */, kUse, kAll /* with what it says of itself */ };

using LatestSamples = std::map<samples::Subject, SampleBook::Newest>;
/// What is known of this moment: nothing of a machine that is not there, nor what a machine that goes on to say how it
/// is says nothing of any more.
LatestSamples KnownNow(const SampleBook& book, samples::Second now,
                       const std::function<bool(const std::string& node)>& is_there);

/// `has_many`: there are other machines, so each is named.
wire::LatestAnswer LatestViewOf(const SampleBook& book, Time now, bool has_many,
                                const std::function<JobShown(JobId)>& shown,
                                const std::function<bool(const std::string& node)>& is_there);
/// `has_own`: the metrics that a job says of itself as well.
wire::SeriesAnswer SeriesViewOf(const SampleBook::Answer& answer, bool has_many, bool has_own);

/// The shortest decimal number that is this float: 0.3, not 0.30000001192092896.
double ShortestDecimal(float value);

/// As people and programs read it: no more digits than are kept.
double Rounded(samples::Metric metric, double value);

}  // namespace divvy
