#include "daemon/views/start_estimate_cache.h"

#include <algorithm>
#include <set>

namespace divvy {

void StartEstimateCache::Update(const std::vector<JobId>& waiting, Time now,
                                const std::function<core::Estimate(JobId)>& estimate,
                                const std::function<bool()>& has_time) {
  const std::set<JobId> wanted(waiting.begin(), waiting.end());
  std::erase_if(entries_, [&](const auto& one) { return !wanted.contains(one.first); });
  const auto looked = [&](JobId job) {
    const auto at = entries_.find(job);
    return at == entries_.end() ? kNoTime : at->second.looked;
  };
  std::vector<JobId> due;
  for (const JobId job : waiting) {
    const Time then = looked(job);
    if (then == kNoTime || now - then >= kStays || then > now) due.push_back(job);
  }
  std::ranges::stable_sort(due, {}, looked);
  for (const JobId job : due) {
    entries_[job] = {estimate(job), now};
    if (!has_time()) return;
  }
}

const core::Estimate* StartEstimateCache::Find(JobId job) const {
  const auto at = entries_.find(job);
  return at == entries_.end() ? nullptr : &at->second.start;
}

}  // namespace divvy
