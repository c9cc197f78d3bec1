// Reported progress (progress.h): recorded, persisted periodically, and passed to the engine as expected ends. Learned
// speeds per GPU model (throughput_model.h): learned from ended runs, and passed to the engine for similar jobs.
#include <algorithm>
#include <functional>
#include <map>

#include "control/books/record_parts.h"
#include "control/controller/controller.h"
#include "engine/gpu_type.h"
#include "engine/message_text.h"

namespace divvy {
namespace {

// A job may report every step; its row is written at most this often.
constexpr Duration kKeepEvery = std::chrono::seconds(10);
// Small changes are not passed on: if plans use predictions, each one re-examines all reservations.
constexpr Duration kLeastNews = std::chrono::seconds(10);
constexpr int kLeastPart = 50;  // Relative to the remaining time.
constexpr Duration kLeastLeft = std::chrono::seconds(1);

/// Returns whether the `end` that a job expects `now` differs enough from the last one passed on, `told` (kNever:
/// none).
bool IsNews(Time told, Time end, Time now) {
  const Duration left = end - now;
  // The job continues past the last end passed on; without an update its end would become unknown.
  if (told == kNever || (told <= now && left >= kLeastLeft)) return true;
  return std::chrono::abs(end - told) >= std::max(kLeastNews, left / kLeastPart);
}

}  // namespace

Result<Progress> Controller::ReportProgress(JobId id, std::uint32_t attempt, const ProgressReport& report,
                                            const Caller& caller, Time now) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return NotFound("there is no queued or running job " + ToString(id));
  JobRecord& record = at->second;
  DIVVY_CHECK(Authorise(record, caller, "report for"));
  DIVVY_CHECK(CheckSpeaks(record, attempt));
  auto after = AfterReport(record.progress, report, now);
  if (!after) return Error{after.error().code, "job " + DisplayId(record) + ": " + after.error().message};
  record.progress = *after;
  ExpectEndOf(record);
  const auto [kept, is_first] = kept_progress_.try_emplace(id);
  if (is_first || kept->second.again <= now) {
    kept->second = {AddSaturating(now, kKeepEvery), false};
    effects_.Persist(record);
  } else {
    kept->second.is_stale = true;
  }
  next_progress_ = std::min(next_progress_, kept->second.again);
  effects_.WakeBy(next_progress_);
  return record.progress;
}

// Uses the job's own progress if that is conclusive, otherwise the run times of similar jobs.
void Controller::ExpectEndOf(const JobRecord& record) {
  const auto end = ExpectedEnd(record);
  if (!end || !IsNews(scheduler_.running(record.id)->predicted_end, *end, record.progress.at)) return;
  scheduler_.SetPredictedEnd(record.id, *end);
}

void Controller::KeepProgress(Time now) {
  next_progress_ = kNever;
  for (auto at = kept_progress_.begin(); at != kept_progress_.end();) {
    auto& [again, is_stale] = at->second;
    const JobRecord* record = again <= now && is_stale ? jobs_.Find(at->first) : nullptr;
    if (again <= now && record == nullptr) {
      at = kept_progress_.erase(at);
      continue;
    }
    if (record != nullptr) {
      effects_.Persist(*record);
      again = AddSaturating(now, kKeepEvery);
      is_stale = false;
    }
    next_progress_ = std::min(next_progress_, again);
    ++at;
  }
}

Batch Controller::UnkeptProgress() const {
  Batch batch;
  for (const auto& [id, kept] : kept_progress_) {
    const JobRecord* record = kept.is_stale ? jobs_.Find(id) : nullptr;
    if (record != nullptr) batch.updates.push_back(*record);
  }
  return batch;
}

void Controller::LearnSpeed(const JobRecord& record, bool ended_well) {
  if (nodes_.is_mixed() && record.array_count == 0 && !record.request.is_elastic() &&
      !record.request.is_heterogeneous())
    speeds_.Ran(record, ended_well);
}

// Speeds given by the user take precedence. For elastic jobs the number of GPUs matters more. Components run on
// different GPUs anyway.
std::vector<ModelSpeed> Controller::LearnedSpeeds(const JobRecord& record) const {
  const Request& request = record.request;
  if (!nodes_.is_mixed() || request.gpus == 0 || request.is_elastic() || request.is_heterogeneous() ||
      SaysSpeeds(request.gpu_type))
    return {};
  const ThroughputModel::Learned* learned = speeds_.Find(record);
  return learned == nullptr ? std::vector<ModelSpeed>() : learned->speeds();
}

std::string Controller::SpeedsOf(const JobRecord& record) const {
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
    if (speed != fastest) parts.push_back(model + " at " + SpeedText(speed * 1000 / fastest) + " of " + first);
  }
  return AndList(parts) + ", as --gpu-type says";
}

}  // namespace divvy
