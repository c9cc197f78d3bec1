// Converts samples to the API's messages.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/telemetry/metric_store.h"
#include "wire/messages/series_messages.h"

namespace divvy {

/// How much of a job is shown to a caller.
enum class JobShown { kNothing /* it has ended */, kUse, kAll /* also metrics that the job itself reports */ };

using LatestSamples = std::map<samples::Subject, MetricStore::Newest>;
/// Returns the newest samples of connected nodes. Omits a GPU or job that its node did not report in the node's newest
/// sample, because it is gone.
LatestSamples KnownNow(const MetricStore& store, samples::Second now,
                       const std::function<bool(const std::string& node)>& is_there);

/// `has_many`: there are several nodes, so each is named.
wire::LatestAnswer LatestViewOf(const MetricStore& store, Time now, bool has_many,
                                const std::function<JobShown(JobId)>& shown,
                                const std::function<bool(const std::string& node)>& is_there);
/// `has_own`: includes the metrics that a job reports itself.
wire::SeriesAnswer SeriesViewOf(const MetricStore::Answer& answer, bool has_many, bool has_own);

/// Returns the shortest decimal number that rounds to this float: 0.3, not 0.30000001192092896.
double ShortestDecimal(float value);

/// Rounds a value for output to no more digits than are stored.
double Rounded(samples::Metric metric, double value);

}  // namespace divvy
