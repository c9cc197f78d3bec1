// Texts about samples for divvy metrics and divvy show. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/messages/messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

/// Explains why no metrics of this job can be drawn as curves, and which elements of an array have metrics. `elements`:
/// for an array, those that have become jobs of their own. `metrics`: the requested ones; empty means all.
std::string NothingSeenOf(const wire::JobDetail& job, const std::vector<wire::JobView>& elements,
                          const std::vector<std::string>& metrics);

/// Labels for both ends of a time axis, in local time. They include the day unless both are today, and the year if
/// either is in another year than now. All times are seconds since 1970.
std::pair<std::string, std::string> AxisText(double begin, double end, double now);

/// Moves the metrics that the job reported itself before its resource usage, because a screen may cut off the end.
void PutOwnFirst(wire::SeriesAnswer& answer);

/// Keeps only the MIG instance of the GPU that has the driver's number `slice`; "" and "all" keep everything. Fails
/// with kNotFound if the samples have no such instance; the message names those that exist.
Status KeepSlice(const std::string& gpu, const std::string& slice, wire::SeriesAnswer& answer);

/// The last value of each metric that the job reported itself, by name.
std::map<std::string, double> LastOwn(const wire::SeriesAnswer& answer);
/// "loss 0.35, step 120000"; the step comes first.
std::string OwnNumbersText(const std::map<std::string, double>& own);

}  // namespace divvy::cli
