// Chooses the jobs to run next where jobs report their progress: finish-time fairness (Themis; Mahajan et al., NSDI
// 2020) as due times, least slack first.
//
// A job should take no longer than `rho` times what it would take with one n-th of the GPUs, where n is the number of
// jobs that it shared with. That gives its due time. No due time is later than the end of all known work: the remaining
// work over all GPUs, or the longest job. So long jobs, whose fair due time is far away, start early enough, and the
// GPUs are not left to one straggler in the end. Slack is the time until the due time minus the job's own remaining
// work.
//
// The remaining work of each job is estimated at its present speed. If the speed will change (a growing batch size),
// the estimate is off until it does.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace divvy::rates {

struct SlackJob {
  double arrival_s = 0;
  double ran_s = 0;        // Seconds in which it ran.
  double remaining_s = 0;  // Estimated, for the job alone on its GPUs.
  double mean_jobs = 1;    // The mean number of jobs, itself included, since it arrived.
  int gpus = 1;
  bool is_running = false;
};

struct SlackOptions {
  double rho = 1.5;
  double keep_s = 120;  // A running job is replaced only by one with at least this much less slack.
};

/// Returns the indices of the jobs that run, as whole gangs, least slack first. Jobs that do not fit are skipped.
std::vector<std::size_t> PickByLeastSlack(std::span<const SlackJob> jobs, double now_s, int gpus,
                                          const SlackOptions& options);

}  // namespace divvy::rates
