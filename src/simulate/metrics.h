// What a replay was like for those who waited and for those who paid: computed from its outcomes alone, so any two runs
// of one trace compare.
//
//   JCT        end - submission
//   wait       JCT less the time it held GPUs; without preemption: start - submission
//   slowdown   max(1, JCT / max(run time, 10 s)), Feitelson's bounded slowdown
//   rho        finish-time fairness (Themis, NSDI'20): JCT / the time with 1/N of the cluster, which is the run time x
//              max(1, its GPUs x N / all GPUs). N is the mean, over its stay, of those who share the cluster: teams
//              (where not all jobs have one: users, else jobs) with a job in it. Run times count as at least 10 s.
//              Above 1: unfair.
//   allocation share of GPU time that was held; utilisation: that was held and not lost to beginning anew
//
// Percentiles interpolate between the two nearest values, as numpy's do.
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
/// All zero of no values.
Spread SpreadOf(std::vector<double> values);
/// `values` ascending; `part` from 0 to 1. Requires: not empty.
double Percentile(const std::vector<double>& values, double part);

/// Of some of the jobs.
struct Figures {
  std::int64_t jobs = 0;
  double gpu_hours = 0;  // Of run time.
  std::int64_t preemptions = 0;
  Spread jct_seconds, wait_seconds, slowdown, rho;
  double unfair_percent = 0;  // With rho > 1.
};

struct JobFigures {
  double jct_seconds = 0, wait_seconds = 0, slowdown = 0, rho = 0;
};

struct RunMetrics {
  Figures all;
  /// The tenth of the jobs (rounded up) that asked for most GPUs; of equal ones the earlier.
  Figures largest_tenth;
  std::int64_t unfinished = 0;
  double makespan_seconds = 0;  // First submission to last end.
  double allocation_percent = 0;
  double allocation_while_waiting_percent = 0;  // While at least one job waited; 0 where none did.
  double utilisation_percent = 0;
  double fragmentation_percent = 0;  // Of all GPUs, as the decider tells.
  using Groups = std::vector<std::pair<std::string, Figures>>;
  Groups by_team;                // By name; empty where the trace knows no teams.
  Groups by_size;                // Classes of SizeClass, smallest first.
  Groups by_hour;                // "00".."23" of submission.
  std::vector<JobFigures> jobs;  // Beside Replayed::outcomes.
};

RunMetrics Measure(const Workload& workload, const TraceCluster& cluster, const Replayed& replayed);

/// "0", "<1", "1", "2", "3-4", "5-8", ..., in doubling steps.
std::string SizeClass(const TraceJob& job);

}  // namespace divvy::simulate
