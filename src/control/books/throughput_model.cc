#include "control/books/throughput_model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "control/books/progress.h"
#include "engine/message_text.h"

namespace divvy {
namespace {

/// Shorter runs measure start-up rather than the GPU.
constexpr Duration kShortestRun = std::chrono::seconds(1);
/// Below this ratio a model counts as slower than another.
constexpr double kEqual = 0.95;

std::string KeyOf(const JobRecord& record) {
  return record.user.name + '\x1f' + record.name + '\x1f' + std::to_string(record.request.gpus_in_all()) + '\x1f' +
         record.shape;
}

void Keep(std::deque<double>& values, double value) {
  values.push_back(value);
  if (values.size() > ThroughputModel::kRunsKept) values.pop_front();
}

double Median(const std::deque<double>& values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Rounds to two significant digits, so that another run seldom changes the result.
int Rounded(double part) {
  const double thousandths = part * 1000;
  const double unit = thousandths >= 100 ? 10 : 1;
  return std::max(static_cast<int>(std::lround(thousandths / unit) * std::lround(unit)), 1);
}

}  // namespace

std::size_t ThroughputModel::Learned::runs() const {
  std::size_t runs = 0;
  for (const Model& model : models) runs += model.speed > 0 ? model.runs : 0;
  return runs;
}

std::vector<ModelSpeed> ThroughputModel::Learned::speeds() const {
  std::vector<ModelSpeed> speeds;
  if (!is_known()) return speeds;
  for (const Model& model : models) {
    if (model.speed > 0) speeds.push_back({model.model, model.speed});
  }
  return speeds;
}

void ThroughputModel::Ran(const JobRecord& record, bool ended_well) {
  if (record.gpu_model.empty() || GpuCountOf(record) == 0 || record.started == kNoTime) return;
  const double gpus = GpuCountOf(record);
  const std::optional<double> speed = SpeedOf(record.progress);
  const Duration ran = record.ended - record.started;
  // The run time tells the speed of these GPUs only if the job had them all the time and was never paused.
  const bool has_time =
      ended_well && ran >= kShortestRun && record.gpus_since == kNoTime && !record.progress.was_paused;
  if (!speed && !has_time) return;
  std::string key = KeyOf(record);
  Group& entry = groups_[key];
  if (entry.touched != 0) by_touch_.erase(entry.touched);
  entry.touched = ++touches_;
  by_touch_.emplace(entry.touched, std::move(key));
  entry.learned.user = record.user.name;
  entry.learned.name = record.name;
  entry.learned.shape = record.shape;
  entry.learned.gpus = record.request.gpus_in_all();
  Runs& runs = entry.by_model[record.gpu_model];
  if (speed) Keep(runs.speeds, *speed / gpus);
  if (has_time) Keep(runs.times, std::chrono::duration<double>(ran).count() * gpus);
  Learn(entry);
  while (groups_.size() > kGroupsKept) {
    const auto oldest = by_touch_.begin();
    groups_.erase(oldest->second);
    by_touch_.erase(oldest);
  }
}

void ThroughputModel::Learn(Group& entry) {
  const auto has_enough = [&](std::deque<double> Runs::*measure) {
    return std::ranges::count_if(entry.by_model,
                                 [&](const auto& one) { return (one.second.*measure).size() >= kEnough; }) > 1;
  };
  Learned& learned = entry.learned;
  learned.is_by_progress = has_enough(&Runs::speeds);
  const auto measure = learned.is_by_progress ? &Runs::speeds : &Runs::times;
  const bool is_known = has_enough(measure);
  learned.models.clear();
  std::vector<std::pair<double, Learned::Model>> found;  // With the measured speed.
  for (const auto& [model, runs] : entry.by_model) {
    const std::deque<double>& values = runs.*measure;
    double fast = 0;
    if (is_known && values.size() >= kEnough) fast = learned.is_by_progress ? Median(values) : 1 / Median(values);
    const std::size_t most = std::max(runs.speeds.size(), runs.times.size());
    found.emplace_back(fast, Learned::Model{model, 0, is_known ? values.size() : most});
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& one) { return one.first; });
  double group = 0;  // The fastest of the models that count as equal.
  for (auto& [fast, model] : found) {
    if (fast > 0) {
      if (fast < group * kEqual || group == 0) group = fast;
      model.speed = Rounded(group / found.front().first);
    }
    learned.models.push_back(std::move(model));
  }
}

const ThroughputModel::Learned* ThroughputModel::Find(const JobRecord& record) const {
  const auto at = groups_.find(KeyOf(record));
  return at == groups_.end() ? nullptr : &at->second.learned;
}

std::vector<const ThroughputModel::Learned*> ThroughputModel::All() const {
  std::vector<const Learned*> all;
  for (const auto& [key, entry] : groups_) {
    if (entry.by_model.size() > 1) all.push_back(&entry.learned);
  }
  return all;
}

std::string SpeedText(int thousandths) {
  std::string digits = std::to_string(thousandths % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return std::to_string(thousandths / 1000) + (digits.empty() ? "" : "." + digits);
}

std::string SpeedText(const ThroughputModel::Learned& learned) {
  if (!learned.is_known()) return "";
  std::vector<std::string> parts;
  for (const auto& model : learned.models) {
    if (&model == &learned.models.front() || model.speed == 0) continue;
    parts.push_back(model.model +
                    (model.speed == 1000 ? " as fast as " : " at " + SpeedText(model.speed) + " of the speed of ") +
                    learned.models.front().model);
  }
  return AndList(parts) + ", learned from " + Plural(static_cast<std::int64_t>(learned.runs()), "run") +
         (learned.is_by_progress ? " by their progress" : "");
}

}  // namespace divvy
