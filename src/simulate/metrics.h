// Metrics of a replay for users and for operators. They are computed only from its outcomes, so any two runs of one
// trace are comparable.
//
//   JCT        end - submission
//   wait       JCT minus the time with GPUs; without preemption: start - submission
//   first start  start of the first run - submission
//   lost       JCT minus the time in which the job ran: waiting, parked, and copied to and from host memory
//   slowdown   max(1, JCT / max(run time, 10 s)), Feitelson's bounded slowdown
//   bounded slowdown  the same, with run times of at least 60 s
//   rho        finish-time fairness (Themis, NSDI'20): JCT / the run time on 1/N of the cluster. That run time is
//              run time x max(1, its GPUs x N / all GPUs). N is the mean number of sharers during its stay: teams
//              with a job in the cluster. If not all jobs have a team, sharers are users, else jobs. Run times count
//              as at least 10 s. Above 1: unfair.
//   allocation share of GPU time that was held; utilisation: the same without held time that restarts lost
//
// Percentiles interpolate between the two nearest values, like numpy's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

struct Spread {
  double mean = 0, median = 0, p90 = 0, p99 = 0, max = 0;

  friend bool operator==(const Spread&, const Spread&) = default;
};
/// Returns the mean and percentiles of the values; all zero if there are no values.
Spread SpreadOf(std::vector<double> values);
/// Returns the value below which the fraction `part` (0 to 1) of the values lies. Requires: `values` is ascending and
/// not empty.
double Percentile(const std::vector<double>& values, double part);

/// Metrics of a group of jobs.
struct Figures {
  std::int64_t jobs = 0;
  double gpu_hours = 0;  // Run time x GPUs.
  std::int64_t preemptions = 0;
  Spread jct_seconds, wait_seconds, slowdown, rho;
  Spread first_start_seconds, lost_seconds, bounded_slowdown;
  double unfair_percent = 0;  // Jobs with rho > 1.
};

struct JobFigures {
  double jct_seconds = 0, wait_seconds = 0, slowdown = 0, rho = 0;
  double first_start_seconds = 0, lost_seconds = 0, bounded_slowdown = 0;
};

struct RunMetrics {
  Figures all;
  /// The tenth of the jobs (rounded up) that requested most GPUs. Among equal ones, the earlier.
  Figures largest_tenth;
  /// The tenth of the jobs (rounded up) with the longest run times. Among equal ones, the earlier.
  Figures longest_tenth;
  std::int64_t unfinished = 0;
  double makespan_seconds = 0;  // From the first submission to the last end.
  double allocation_percent = 0;
  double allocation_while_waiting_percent = 0;  // While at least one job waited. 0 if none ever did.
  double utilisation_percent = 0;
  double fragmentation_percent = 0;  // Percent of all GPUs, as the decider reports.
  using Groups = std::vector<std::pair<std::string, Figures>>;
  Groups by_team;                // By name. Empty if the trace has no teams.
  Groups by_size;                // By number of GPUs, smallest first.
  Groups by_hour;                // By the hour of submission, "00".."23".
  std::vector<JobFigures> jobs;  // In the order of Replayed::outcomes.
};

RunMetrics Measure(const Workload& workload, const TraceCluster& cluster, const Replayed& replayed);

}  // namespace divvy::simulate
