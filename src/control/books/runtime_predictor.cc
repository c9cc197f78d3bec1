#include "control/books/runtime_predictor.h"

#include <algorithm>
#include <utility>

namespace divvy {
namespace {

RunProfile ProfileFrom(const JobRecord& record, std::string shape) {
  return {record.user.name, record.name, std::move(shape), record.request.gpus_in_all()};
}

}  // namespace

Duration Rounded(Duration predicted) {
  std::int64_t seconds = std::max<std::int64_t>(predicted / std::chrono::seconds(1), 1);
  std::int64_t unit = 1;
  while (seconds >= 100) seconds = (seconds + 5) / 10, unit *= 10;
  return std::chrono::seconds(seconds * unit);
}

RuntimePredictor::Group* RuntimePredictor::GroupOf(const JobRecord& record) const {
  const auto at = group_of_.find(record.array.is_set() ? record.array : record.id);
  return at == group_of_.end() ? nullptr : &at->second->second;
}

void RuntimePredictor::Know(const JobRecord& record, std::string shape) {
  Forget(record.id);
  RunProfile group = ProfileFrom(record, std::move(shape));
  std::string key = group.user + '\n' + group.name + '\n' + std::to_string(group.gpus) + '\n' + group.shape;
  const auto [at, is_new] = groups_.try_emplace(std::move(key));
  if (is_new) at->second.of = std::move(group);
  at->second.jobs += 1;
  group_of_.emplace(record.id, at);
}

void RuntimePredictor::Forget(JobId job) {
  const auto at = group_of_.find(job);
  if (at == group_of_.end()) return;
  if (--at->second->second.jobs == 0) groups_.erase(at->second);
  group_of_.erase(at);
}

Duration RuntimePredictor::Predict(const JobRecord& record) {
  Group* group = GroupOf(record);
  if (group == nullptr) return Duration(0);
  if (group->predicted_at != runs_) {
    const auto estimate = run_times_.Predict(group->of);
    group->predicted = estimate ? Rounded(estimate->typical) : Duration(0);
    group->predicted_at = runs_;
  }
  return group->predicted;
}

std::optional<core::RunSpread> RuntimePredictor::Spread(const JobRecord& record) const {
  const Group* group = GroupOf(record);
  if (group == nullptr) return std::nullopt;
  const auto estimate = run_times_.Predict(group->of);
  if (!estimate) return std::nullopt;
  return core::RunSpread{estimate->low, estimate->high};
}

void RuntimePredictor::Ran(const JobRecord& record, Duration ran) {
  if (const Group* group = GroupOf(record)) {
    run_times_.Add(group->of, ran);
    runs_ += 1;
  }
}

void RuntimePredictor::RanBefore(const JobRecord& record) {
  if (record.array_count > 0 || record.started == kNoTime || record.ended <= record.started) return;
  run_times_.Add(ProfileFrom(record, record.shape), record.ended - record.started);
  runs_ += 1;
}

}  // namespace divvy
