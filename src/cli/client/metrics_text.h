// What divvy metrics and divvy show say of samples in words. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/messages/messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

/// In the place of curves: why there are none of this job, and whose to look at. `elements`: of an array, those that
/// have become jobs of their own. `metrics`: those that were asked for; none: all.
std::string NothingSeenOf(const wire::JobDetail& job, const std::vector<wire::JobView>& elements,
                          const std::vector<std::string>& metrics);

/// Under both ends of a time axis, in local time: with the day where it is not today's alone, with the year where one
/// of them is of another than this. Seconds since 1970.
std::pair<std::string, std::string> AxisText(double begin, double end, double now);

/// What a job says of itself comes before what it uses: a screen may end below it.
void PutOwnFirst(wire::SeriesAnswer& answer);

/// Of a GPU's MIG instances the one with this number of the driver's; "" and "all": as it is. kNotFound, naming those
/// that were seen, where it is not among them.
Status KeepSlice(const std::string& gpu, const std::string& slice, wire::SeriesAnswer& answer);

/// The last that was seen of each of a job's own numbers, by name.
std::map<std::string, double> LastOwn(const wire::SeriesAnswer& answer);
/// "loss 0.35, step 120000"; the step comes first.
std::string OwnNumbersText(const std::map<std::string, double>& own);

}  // namespace divvy::cli
