// Max-min fair shares of several GPU types by effective throughput, after Gavel (Narayanan et al., OSDI 2020, section
// 4.1). A job's share is a fraction of time on each type. Fairness compares the progress that jobs make, not the time
// that they run. A job that is as fast on an old GPU as on a new one gets the old one.
//
//   maximise, lexicographically from the worst-off up,
//     level(j) = gpus(j) * sum_t rate(j,t) * time(j,t) / (weight(j) * mean rate of j over all GPUs)
//   subject to   sum_t time(j,t) <= 1,   sum_j gpus(j) * time(j,t) <= gpus of type t.
//
// Method: exact up to rounding (1e-9). One level z is raised for all jobs that are not settled yet. Whether z is
// feasible is a game between the prices of the types and the jobs, each of which buys z at the lowest cost. That
// purchase is a mix of at most two types, which is found directly. The game has one row per type; its columns are the
// demands at the prices met so far (Dantzig and Wolfe's decomposition). Newton's method lowers z from above in a
// handful of steps. Then the jobs whose level has a price are settled, and the others continue.
//
// Jobs with equal rates, size and weight form one class, so that the cost depends on the number of classes, not of
// jobs. The code uses only + - * / and comparisons of doubles in a fixed order, so every compiler gives the same
// result.
#pragma once

#include <span>
#include <vector>

namespace divvy::rates {

struct RatedJob {
  std::vector<double> rates;  // Progress per second by type, when all its GPUs are of that type; 0: cannot run there.
  int gpus = 1;
  double weight = 1;  // A job with twice the weight gets twice the level.
};

struct Shares {
  std::vector<std::vector<double>> time;  // [job][type], as fractions of time.
  std::vector<double> level;              // [job]; 1: the progress of equal time on every GPU. 0: runs nowhere.
};

/// Requires: every job has as many rates as there are types, none negative; gpus and weight > 0; capacities >= 0.
Shares MaxMinShares(std::span<const RatedJob> jobs, std::span<const double> gpus_by_type);

}  // namespace divvy::rates
