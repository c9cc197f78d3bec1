// Max-min fair shares of GPUs of several types by effective throughput, after Gavel (Narayanan et al., OSDI 2020,
// section 4.1): a job's share is a fraction of time on each type, and what counts as its share is how far it gets, not
// how long it runs. A job that is as fast on an old GPU as on a new one is content with the old one.
//
//   maximise, lexicographically from the worst-off up, level(j) = gpus(j) * sum_t rate(j,t) * time(j,t)
//                                                                 / (weight(j) * what equal time on all GPUs would
//                                                                 give)
//   subject to   sum_t time(j,t) <= 1,   sum_j gpus(j) * time(j,t) <= gpus of type t.
//
// How it is solved, exactly up to rounding (1e-9): one level z is raised for all jobs that are not yet settled. Whether
// z fits is a game between prices of the types and the jobs, each of which buys z at least cost; that purchase is a mix
// of at most two types, found directly. The game has as many rows as there are types, and its columns are the demands
// at the prices met so far (Dantzig and Wolfe's decomposition). Newton's method on z comes down from above in a handful
// of steps. Then the jobs that pay for their level are settled and the rest goes on.
// Jobs with equal rates, size and weight are one class, so that the cost depends on the kinds of jobs, not on their
// number. Only + - * / and comparisons on doubles in a fixed order: the same result on every compiler.
#pragma once

#include <span>
#include <vector>

namespace divvy::rates {

struct RatedJob {
  std::vector<double> rates;  // Progress per second by type, with all its GPUs of that type; 0: cannot run there.
  int gpus = 1;
  double weight = 1;  // Twice the weight: twice the level.
};

struct Shares {
  std::vector<std::vector<double>> time;  // [job][type], fractions of time.
  std::vector<double> level;              // [job]; 1: as far as with equal time on every GPU. 0: runs nowhere.
};

/// Requires: every job has as many rates as there are types, none negative; gpus and weight > 0; capacities >= 0.
Shares MaxMinShares(std::span<const RatedJob> jobs, std::span<const double> gpus_by_type);

}  // namespace divvy::rates
