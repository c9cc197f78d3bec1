// Who runs next where jobs tell how far they are: finish-time fairness (Themis; Mahajan et al., NSDI 2020) as due
// times, and the least slack first.
//
// A job should take no longer than `rho` times what it would take with one n-th of the GPUs, where n is the number of
// jobs that it shared with: that is its due time. But nobody is due later than the end of all known work (what is left
// over all GPUs, or the longest job): so long jobs, whose fair due time lies far away, start early enough and the GPUs
// are not left to one straggler in the end. What is left until the due time beyond the job's own work is its slack.
//
// It knows what each job has left, at the speed that it has now; where the speed will change (a growing batch size),
// the estimate is off until it does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace divvy::rates {

struct SlackJob {
  double arrival_s = 0;
  double ran_s = 0;        // Time in which it ran.
  double remaining_s = 0;  // Estimated, alone on its GPUs.
  double mean_jobs = 1;    // How many there were, itself among them, on average since it came.
  int gpus = 1;
  bool is_running = false;
};

struct SlackOptions {
  double rho = 1.5;
  double keep_s = 120;  // A running job is given up only for one with that much less slack.
};

/// Indices of the jobs that run, whole gangs, the most pressing first; those that do not fit are passed over.
std::vector<std::size_t> PickByLeastSlack(std::span<const SlackJob> jobs, double now_s, int gpus,
                                          const SlackOptions& options);

}  // namespace divvy::rates
