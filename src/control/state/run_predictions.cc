#include "control/state/run_predictions.h"

#include <algorithm>
#include <functional>
#include <map>

#include "control/books/progress.h"
#include "control/books/record_parts.h"
#include "engine/gpu_type.h"
#include "engine/message_text.h"

namespace divvy {
namespace {

// How often predictions of waiting jobs are refreshed, and how many in one step.
constexpr Duration kRefreshEvery = std::chrono::minutes(1);
constexpr int kMostLooked = 2'000;  // About 0.2 ms.
constexpr std::size_t kMostRefreshed = 200;
constexpr Duration kBetweenSteps = std::chrono::milliseconds(50);

}  // namespace

void RunPredictions::LearnRunTimes(const std::vector<JobRecord>& finished) {
  for (const JobRecord& record : finished) {
    run_times_.RanBefore(record);
    LearnSpeed(record, record.state == JobState::kSucceeded);
  }
}

std::vector<JobId> RunPredictions::Sweep(Time now) {
  if (now < next_refresh_ || run_times_.runs() == refreshed_runs_) return {};
  if (!refreshed_until_.is_set()) sweep_runs_ = run_times_.runs();
  std::vector<JobId> changed;
  int looked = 0;
  auto at = jobs_.live().upper_bound(refreshed_until_);
  for (; at != jobs_.live().end() && looked < kMostLooked && changed.size() < kMostRefreshed; ++at, ++looked) {
    const WaitingEntry* entry = IsWaiting(at->second.state) ? scheduler_.waiting(at->first) : nullptr;
    if (entry == nullptr) continue;
    if (entry->predicted == run_times_.Predict(at->second) && entry->speeds == LearnedSpeeds(at->second)) continue;
    changed.push_back(at->first);
  }
  if (at != jobs_.live().end()) {
    refreshed_until_ = JobId(at->first.value() - 1);
    next_refresh_ = AddSaturating(now, kBetweenSteps);
    return changed;
  }
  refreshed_until_ = JobId();
  refreshed_runs_ = sweep_runs_;
  next_refresh_ = AddSaturating(now, kRefreshEvery);
  return changed;
}

core::SpreadOf RunPredictions::Spread() const {
  return [this](JobId id) -> std::optional<core::RunSpread> {
    const JobRecord* record = jobs_.Find(id);
    if (record == nullptr) return std::nullopt;
    // The job's own progress is a better predictor than similar jobs.
    if (const auto own = SpreadByProgress(*record)) return own;
    return run_times_.Spread(*record);
  };
}

void RunPredictions::LearnSpeed(const JobRecord& record, bool ended_well) {
  if (nodes_.is_mixed() && record.array_count == 0 && !record.request.is_elastic() &&
      !record.request.is_heterogeneous())
    speeds_.Ran(record, ended_well);
}

// Speeds given by the user take precedence. For elastic jobs the number of GPUs matters more. Components run on
// different GPUs anyway.
std::vector<ModelSpeed> RunPredictions::LearnedSpeeds(const JobRecord& record) const {
  const Request& request = record.request;
  if (!nodes_.is_mixed() || request.gpus == 0 || request.is_elastic() || request.is_heterogeneous() ||
      SaysSpeeds(request.gpu_type))
    return {};
  const ThroughputModel::Learned* learned = speeds_.Find(record);
  return learned == nullptr ? std::vector<ModelSpeed>() : learned->speeds();
}

std::string RunPredictions::SpeedsOf(const JobRecord& record) const {
  const Request& request = record.request;
  if (!nodes_.is_mixed() || request.gpus == 0 || request.is_elastic() || request.is_heterogeneous()) return "";
  if (!SaysSpeeds(record.request.gpu_type)) {
    const ThroughputModel::Learned* learned = speeds_.Find(record);
    return learned == nullptr ? "" : SpeedText(*learned);
  }
  std::map<int, std::string, std::greater<>> models;  // By speed; one model per speed is enough.
  const auto look = [&](const GpuFacts& gpu) {
    int speed = 0;
    for (const WeightedType& type : AlternativesOf(record.request.gpu_type)) {
      if (MatchesGpuType(type.terms, gpu.model)) speed = std::max(speed, type.speed);
    }
    if (speed > 0) models.try_emplace(speed, gpu.model);
  };
  for (const NodeUsage& node : scheduler_.nodes()) std::ranges::for_each(node.capacity.gpus, look);
  if (models.size() < 2) return "";
  const auto& [fastest, first] = *models.begin();
  std::vector<std::string> parts;
  for (const auto& [speed, model] : models) {
    if (speed != fastest)
      parts.push_back(model + " at " + SpeedText(speed * 1000 / fastest) + " of the speed of " + first);
  }
  return AndList(parts) + ", as --gpu-type says";
}

Time RunPredictions::next_sweep() const {
  return run_times_.runs() != refreshed_runs_ && scheduler_.waiting_count() > 0 ? next_refresh_ : kNever;
}

}  // namespace divvy
