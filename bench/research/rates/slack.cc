#include "research/rates/slack.h"

#include <algorithm>
#include <numeric>

namespace divvy::rates {

std::vector<std::size_t> PickByLeastSlack(std::span<const SlackJob> jobs, double now_s, int gpus,
                                          const SlackOptions& options) {
  double work_s = 0, longest_s = 0;
  for (const SlackJob& job : jobs) {
    work_s += job.remaining_s * job.gpus;
    longest_s = std::max(longest_s, job.remaining_s);
  }
  const double end_s = now_s + std::max(work_s / gpus, longest_s);
  std::vector<double> slack_s;
  for (const SlackJob& job : jobs) {
    const double contention = std::max(1.0, job.mean_jobs / gpus);
    const double due_s = job.arrival_s + options.rho * contention * (job.ran_s + job.remaining_s);
    slack_s.push_back(std::min(due_s, end_s) - now_s - job.remaining_s - (job.is_running ? options.keep_s : 0));
  }
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return slack_s[a] < slack_s[b]; });
  std::vector<std::size_t> running;
  for (const std::size_t i : order) {
    if (jobs[i].gpus > gpus) continue;
    gpus -= jobs[i].gpus;
    running.push_back(i);
  }
  return running;
}

}  // namespace divvy::rates
