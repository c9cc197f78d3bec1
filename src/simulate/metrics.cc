#include "simulate/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace divvy::simulate {
namespace {

constexpr double kBoundSeconds = 10;  // Feitelson and Rudolph, 1998: prevents short jobs from dominating the mean.
constexpr double kLargerBoundSeconds = 60;

double GpusOf(const TraceJob& job) {
  return static_cast<double>(job.gpus) * job.share.ten_thousandths() / GpuShare::kWhole;
}

double RuntimeOf(const TraceJob& job) { return ToSeconds(job.runtime); }

/// The number of sharers over time. Gives its mean over any stay.
class Sharers {
 public:
  Sharers(const Workload& workload, const std::vector<Outcome>& outcomes) {
    // Only uses an owner field that all jobs have. Otherwise all jobs without it would count as one owner.
    const auto all_have = [&](std::string TraceJob::*owner) {
      return std::ranges::all_of(outcomes, [&](const Outcome& it) { return !(workload.jobs[it.job].*owner).empty(); });
    };
    const bool has_teams = all_have(&TraceJob::team), has_users = all_have(&TraceJob::user);
    struct Change {
      Time time{};
      std::int64_t owner = 0;
      int count = 0;
    };
    std::map<std::string, std::int64_t> owners;
    std::vector<Change> changes;
    changes.reserve(outcomes.size() * 2);
    for (const Outcome& outcome : outcomes) {
      const TraceJob& job = workload.jobs[outcome.job];
      const std::string name = has_teams ? job.team : has_users ? job.user : std::to_string(outcome.job);
      const auto owner = owners.try_emplace(name, static_cast<std::int64_t>(owners.size())).first->second;
      changes.push_back({outcome.submit, owner, 1});
      changes.push_back({outcome.end, owner, -1});
    }
    std::ranges::sort(changes, {}, &Change::time);
    std::vector<std::int64_t> jobs_of(owners.size(), 0);
    double active = 0, integral = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (i > 0) integral += active * ToSeconds(changes[i].time - changes[i - 1].time);
      std::int64_t& jobs = jobs_of[static_cast<std::size_t>(changes[i].owner)];
      const bool was_active = jobs > 0;
      jobs += changes[i].count;
      active += static_cast<double>(jobs > 0) - static_cast<double>(was_active);
      // One entry per moment, with the integral up to it.
      if (times_.empty() || times_.back() != changes[i].time) {
        times_.push_back(changes[i].time);
        integrals_.push_back(integral);
      }
    }
  }

  /// Returns at least 1. Requires: a job arrived or ended at both times.
  double Mean(Time from, Time to) const {
    if (to <= from) return 1;
    return std::max(1.0, (At(to) - At(from)) / ToSeconds(to - from));
  }

 private:
  double At(Time time) const {
    const auto it = std::ranges::lower_bound(times_, time);
    return integrals_[static_cast<std::size_t>(it - times_.begin())];
  }

  std::vector<Time> times_;
  std::vector<double> integrals_;
};

JobFigures Figure(const TraceJob& job, const Outcome& outcome, double sharers, double all_gpus) {
  JobFigures figures;
  figures.jct_seconds = ToSeconds(outcome.end - outcome.submit);
  figures.wait_seconds = ToSeconds(outcome.end - outcome.submit - outcome.held);
  const double runtime = std::max(ToSeconds(job.runtime), kBoundSeconds);
  figures.slowdown = std::max(1.0, figures.jct_seconds / runtime);
  figures.first_start_seconds = ToSeconds(outcome.first_start - outcome.submit);
  figures.lost_seconds = figures.wait_seconds + ToSeconds(outcome.copying);
  figures.bounded_slowdown = std::max(1.0, figures.jct_seconds / std::max(ToSeconds(job.runtime), kLargerBoundSeconds));
  const double with_its_part = all_gpus > 0 ? runtime * std::max(1.0, GpusOf(job) * sharers / all_gpus) : runtime;
  figures.rho = figures.jct_seconds / with_its_part;
  return figures;
}

/// Collects the metrics of jobs.
struct Gathering {
  Figures figures;
  std::vector<double> jct, wait, slowdown, rho, first_start, lost, bounded_slowdown;

  void Add(const TraceJob& job, const Outcome& outcome, const JobFigures& of_job) {
    ++figures.jobs;
    figures.gpu_hours += GpusOf(job) * ToSeconds(job.runtime) / 3600;
    figures.preemptions += outcome.preemptions;
    figures.unfair_percent += of_job.rho > 1;
    jct.push_back(of_job.jct_seconds);
    wait.push_back(of_job.wait_seconds);
    slowdown.push_back(of_job.slowdown);
    rho.push_back(of_job.rho);
    first_start.push_back(of_job.first_start_seconds);
    lost.push_back(of_job.lost_seconds);
    bounded_slowdown.push_back(of_job.bounded_slowdown);
  }

  Figures Done() {
    if (figures.jobs > 0) figures.unfair_percent *= 100 / static_cast<double>(figures.jobs);
    figures.jct_seconds = SpreadOf(std::move(jct));
    figures.wait_seconds = SpreadOf(std::move(wait));
    figures.slowdown = SpreadOf(std::move(slowdown));
    figures.rho = SpreadOf(std::move(rho));
    figures.first_start_seconds = SpreadOf(std::move(first_start));
    figures.lost_seconds = SpreadOf(std::move(lost));
    figures.bounded_slowdown = SpreadOf(std::move(bounded_slowdown));
    return figures;
  }
};

/// The exponent of the class's upper bound. -2: no GPU; -1: less than one.
int SizeExponent(const TraceJob& job) {
  if (job.gpus == 0) return -2;
  if (GpusOf(job) < 1) return -1;
  int exponent = 0;
  while ((std::int64_t{1} << exponent) < job.gpus) ++exponent;
  return exponent;
}

std::string SizeName(int exponent) {
  if (exponent == -2) return "0";
  if (exponent == -1) return "<1";
  const std::int64_t most = std::int64_t{1} << exponent;
  return exponent < 2 ? std::to_string(most) : std::to_string(most / 2 + 1) + "-" + std::to_string(most);
}

int HourOf(Time time) {
  return static_cast<int>((std::chrono::floor<std::chrono::hours>(time.time_since_epoch()).count() % 24 + 24) % 24);
}

std::string TwoDigits(int value) { return (value < 10 ? "0" : "") + std::to_string(value); }

template <typename Key, typename Name>
RunMetrics::Groups Done(std::map<Key, Gathering>& gatherings, Name name) {
  RunMetrics::Groups groups;
  for (auto& [key, gathering] : gatherings) groups.emplace_back(name(key), gathering.Done());
  return groups;
}

/// The tenth of the jobs for which `size_of` is largest.
Figures TopTenth(const Workload& workload, const Replayed& replayed, const std::vector<JobFigures>& jobs,
                 double (*size_of)(const TraceJob&)) {
  std::vector<std::size_t> order(replayed.outcomes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::size_t i) { return size_of(workload.jobs[replayed.outcomes[i].job]); });
  order.resize((order.size() + 9) / 10);
  Gathering gathering;
  for (const std::size_t i : order)
    gathering.Add(workload.jobs[replayed.outcomes[i].job], replayed.outcomes[i], jobs[i]);
  return gathering.Done();
}

void MeasureCluster(const Workload& workload, double gpus, const Replayed& replayed, RunMetrics& metrics) {
  const LoadSeries& load = replayed.load;
  const double capacity = gpus * ToSeconds(load.end() - load.begin());
  metrics.makespan_seconds = ToSeconds(load.end() - load.begin());
  if (capacity <= 0) return;
  double useful = 0;
  for (const Outcome& outcome : replayed.outcomes) {
    const TraceJob& job = workload.jobs[outcome.job];
    useful += std::min(GpusOf(job) * ToSeconds(job.runtime), outcome.gpu_seconds);
  }
  metrics.allocation_percent = 100 * load.integral().allocated_gpus / capacity;
  metrics.utilisation_percent = 100 * useful / capacity;
  metrics.fragmentation_percent = 100 * load.integral().fragmented_gpus / capacity;
  if (load.seconds_waiting() > 0)
    metrics.allocation_while_waiting_percent = 100 * load.allocated_while_waiting() / (gpus * load.seconds_waiting());
}

}  // namespace

double Percentile(const std::vector<double>& values, double part) {
  const double at = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (values[below + 1] - values[below]) * (at - static_cast<double>(below));
}

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), Percentile(values, .5), Percentile(values, .9),
          Percentile(values, .99), values.back()};
}

RunMetrics Measure(const Workload& workload, const TraceCluster& cluster, const Replayed& replayed) {
  RunMetrics metrics;
  const double gpus = static_cast<double>(cluster.gpus());
  const Sharers sharers(workload, replayed.outcomes);
  Gathering all;
  std::map<std::string, Gathering> by_team;
  std::map<int, Gathering> by_size, by_hour;
  for (const Outcome& outcome : replayed.outcomes) {
    const TraceJob& job = workload.jobs[outcome.job];
    const JobFigures figures = Figure(job, outcome, sharers.Mean(outcome.submit, outcome.end), gpus);
    metrics.jobs.push_back(figures);
    all.Add(job, outcome, figures);
    if (!job.team.empty()) by_team[job.team].Add(job, outcome, figures);
    by_size[SizeExponent(job)].Add(job, outcome, figures);
    by_hour[HourOf(outcome.submit)].Add(job, outcome, figures);
  }
  metrics.all = all.Done();
  metrics.by_team = Done(by_team, [](const std::string& team) { return team; });
  metrics.by_size = Done(by_size, SizeName);
  metrics.by_hour = Done(by_hour, TwoDigits);
  metrics.largest_tenth = TopTenth(workload, replayed, metrics.jobs, GpusOf);
  metrics.longest_tenth = TopTenth(workload, replayed, metrics.jobs, RuntimeOf);
  metrics.unfinished = static_cast<std::int64_t>(replayed.unfinished.size());
  MeasureCluster(workload, gpus, replayed, metrics);
  return metrics;
}

}  // namespace divvy::simulate
