#include "control/books/runtime_predictor.h"

#include <algorithm>
#include <utility>

namespace divvy {
namespace {

RunProfile KindFrom(const JobRecord& record, std::string shape) {
  return {record.user.name, record.name, std::move(shape), record.request.gpus_in_all()};
}

}  // namespace

Duration Rounded(Duration predicted) {
  std::int64_t seconds = std::max<std::int64_t>(predicted / std::chrono::seconds(1), 1);
  std::int64_t unit = 1;
  while (seconds >= 100) seconds = (seconds + 5) / 10, unit *= 10;
  return std::chrono::seconds(seconds * unit);
}

RuntimePredictor::Kind* RuntimePredictor::KindOf(const JobRecord& record) const {
  const auto at = kind_of_.find(record.array.is_set() ? record.array : record.id);
  return at == kind_of_.end() ? nullptr : &at->second->second;
}

void RuntimePredictor::Know(const JobRecord& record, std::string shape) {
  Forget(record.id);
  RunProfile kind = KindFrom(record, std::move(shape));
  std::string key = kind.user + '\n' + kind.name + '\n' + std::to_string(kind.gpus) + '\n' + kind.shape;
  const auto [at, is_new] = kinds_.try_emplace(std::move(key));
  if (is_new) at->second.of = std::move(kind);
  at->second.jobs += 1;
  kind_of_.emplace(record.id, at);
}

void RuntimePredictor::Forget(JobId job) {
  const auto at = kind_of_.find(job);
  if (at == kind_of_.end()) return;
  if (--at->second->second.jobs == 0) kinds_.erase(at->second);
  kind_of_.erase(at);
}

Duration RuntimePredictor::Predict(const JobRecord& record) {
  Kind* kind = KindOf(record);
  if (kind == nullptr) return Duration(0);
  if (kind->predicted_at != runs_) {
    const auto estimate = run_times_.Predict(kind->of);
    kind->predicted = estimate ? Rounded(estimate->typical) : Duration(0);
    kind->predicted_at = runs_;
  }
  return kind->predicted;
}

std::optional<core::RunSpread> RuntimePredictor::Spread(const JobRecord& record) const {
  const Kind* kind = KindOf(record);
  if (kind == nullptr) return std::nullopt;
  const auto estimate = run_times_.Predict(kind->of);
  if (!estimate) return std::nullopt;
  return core::RunSpread{estimate->low, estimate->high};
}

void RuntimePredictor::Ran(const JobRecord& record, Duration ran) {
  if (const Kind* kind = KindOf(record)) {
    run_times_.Add(kind->of, ran);
    runs_ += 1;
  }
}

void RuntimePredictor::RanBefore(const JobRecord& record) {
  if (record.array_count > 0 || record.started == kNoTime || record.ended <= record.started) return;
  run_times_.Add(KindFrom(record, record.shape), record.ended - record.started);
  runs_ += 1;
}

}  // namespace divvy
