#include "daemon/agent/agent_samples.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "samples/block.h"

namespace divvy {
namespace {

constexpr samples::Second kMostSecondsAtOnce = samples::kMostBlockPoints;

}  // namespace

void AgentSamples::Add(samples::Snapshot snapshot, bool is_watched) {
  // The clock was set back: earlier samples would lie in the future.
  if (!kept_.empty() && snapshot.at <= kept_.back().at) kept_.clear();
  kept_.push_back(std::move(snapshot));
  if (kept_.size() > kMostKept) kept_.pop_front();
  const bool is_due = is_watched || kept_.back().at - kept_.front().at + 1 >= static_cast<samples::Second>(kBatch);
  while (is_due && !kept_.empty()) {
    auto count = static_cast<std::ptrdiff_t>(std::min(kept_.size(), kMostAtOnce));
    while (kept_[static_cast<std::size_t>(count - 1)].at - kept_.front().at >= kMostSecondsAtOnce) --count;
    if (!send_(samples::EncodeSnapshots({kept_.begin(), kept_.begin() + count}))) return;
    kept_.erase(kept_.begin(), kept_.begin() + count);
  }
}

}  // namespace divvy
