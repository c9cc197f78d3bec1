#include "daemon/telemetry/reported_metrics.h"

#include <algorithm>
#include <iterator>

namespace divvy {

void ReportedMetrics::Add(std::uint64_t job, samples::Second at, const std::vector<samples::Reading>& readings) {
  std::vector<Second>& seconds = jobs_[job];
  if (seconds.empty() || seconds.back().at < at) seconds.push_back({at, {}});
  if (seconds.size() > kMostSeconds) seconds.erase(seconds.begin());
  std::vector<samples::Reading>& newest = seconds.back().readings;
  for (const samples::Reading& reading : readings) {
    const auto same = std::ranges::find_if(newest, [&](const samples::Reading& known) {
      return known.name == reading.name && (!reading.name.empty() || known.metric == reading.metric);
    });
    if (same == newest.end()) newest.push_back(reading);
    else if (reading.name.empty()) same->value += reading.value;
    else *same = reading;
  }
}

std::vector<ReportedMetrics::Second> ReportedMetrics::Take(std::uint64_t job, samples::Second until) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  const auto end = std::ranges::upper_bound(found->second, until, {}, &Second::at);
  std::vector<Second> taken(std::make_move_iterator(found->second.begin()), std::make_move_iterator(end));
  found->second.erase(found->second.begin(), end);
  if (found->second.empty()) jobs_.erase(found);
  return taken;
}

void ReportedMetrics::Forget(samples::Second now) {
  std::erase_if(jobs_, [&](const auto& job) { return job.second.back().at < now - kReach; });
}

std::vector<std::uint64_t> ReportedMetrics::jobs() const {
  std::vector<std::uint64_t> jobs;
  for (const auto& [job, seconds] : jobs_) jobs.push_back(job);
  return jobs;
}

}  // namespace divvy
