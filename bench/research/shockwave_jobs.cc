#include "research/shockwave_jobs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

namespace divvy::research {
namespace {

struct Family {
  std::string_view name;
  int samples;        // The number of samples in its data set.
  int largest_batch;  // The largest that either mode uses; 0: the batch size never changes.
};
constexpr std::array<Family, 5> kFamilies = {{{"ResNet-18", 50000, 256},
                                              {"ResNet-50", 100000, 128},
                                              {"Transformer", 10000, 0},
                                              {"LM", 59675, 80},
                                              {"Recommendation", 117907, 8192}}};

struct Doublings {
  std::string_view family;
  int batch, gpus;
  std::array<int, 4> epochs;  // The batch size doubles at each of these epochs; 0: unused entry.
};
constexpr std::array<Doublings, 33> kDoublings = {{
    {"ResNet-18", 16, 1, {31, 41, 51, 71}},
    {"ResNet-18", 32, 1, {21, 31, 51}},
    {"ResNet-18", 64, 1, {11, 31}},
    {"ResNet-18", 128, 1, {11}},
    {"ResNet-18", 16, 2, {21, 31, 91, 111}},
    {"ResNet-18", 32, 2, {11, 21, 41}},
    {"ResNet-18", 64, 2, {21, 41}},
    {"ResNet-18", 128, 2, {41}},
    {"ResNet-18", 16, 4, {11, 21, 81, 91}},
    {"ResNet-18", 32, 4, {21, 31, 61}},
    {"ResNet-18", 64, 4, {11, 61}},
    {"ResNet-18", 128, 4, {11}},
    {"ResNet-50", 64, 1, {101}},
    {"ResNet-50", 32, 2, {101, 111}},
    {"ResNet-50", 64, 2, {81}},
    {"ResNet-50", 32, 4, {131, 221}},
    {"ResNet-50", 64, 4, {191}},
    {"LM", 5, 1, {31, 41, 61, 71}},
    {"LM", 10, 1, {11, 21, 41}},
    {"LM", 20, 1, {11, 41}},
    {"LM", 40, 1, {11}},
    {"LM", 5, 2, {31, 51, 61, 71}},
    {"LM", 10, 2, {11, 31, 41}},
    {"LM", 20, 2, {31, 41}},
    {"LM", 40, 2, {11}},
    {"LM", 5, 4, {11, 31, 71, 91}},
    {"LM", 10, 4, {11, 31, 61}},
    {"LM", 20, 4, {11, 61}},
    {"LM", 40, 4, {61}},
    {"Recommendation", 512, 1, {21, 41, 71, 91}},
    {"Recommendation", 1024, 1, {21, 51, 91}},
    {"Recommendation", 2048, 1, {21, 41}},
    {"Recommendation", 4096, 1, {41}},
}};

const Family* Find(const ShockwaveJob& job) {
  for (const Family& family : kFamilies)
    if (family.name == job.family) return &family;
  return nullptr;
}

int LargestBatch(const ShockwaveJob& job) {
  const Family* const family = Find(job);
  return family == nullptr || family->largest_batch == 0 ? job.batch : family->largest_batch;
}

/// Returns how often a gns job has doubled its batch size by `epoch`.
int DoublingsBy(const ShockwaveJob& job, int epoch) {
  for (const Doublings& row : kDoublings) {
    if (row.family != job.family || row.batch != job.batch || row.gpus != job.gpus) continue;
    return static_cast<int>(std::ranges::count_if(row.epochs, [&](int at) { return at != 0 && at <= epoch; }));
  }
  return 0;
}

int GnsBatch(const ShockwaveJob& job, int epoch) {
  return std::min(job.batch << DoublingsBy(job, epoch), LargestBatch(job));
}

bool IsIn(int epoch, int from, int to) { return from <= epoch && epoch < to; }

/// Returns true if a larger batch in this epoch would cost accuracy.
bool IsCritical(const ShockwaveJob& job, int epoch, bool is_profile) {
  if (job.family == "ResNet-18")
    return epoch < (job.batch == 256 ? 20 : 10) || IsIn(epoch, 150, 160) || IsIn(epoch, 250, 260);
  if (job.family == "ResNet-50") return epoch % 30 < 10;
  if (job.family == "LM") return epoch < 10;
  if (job.family != "Recommendation") return true;
  const int head = job.batch <= 1024 ? 30 : job.batch == 2048 ? 40 : 10;
  return epoch < head || (is_profile && (IsIn(epoch, 60, 70) || IsIn(epoch, 80, 90)));
}

template <typename T>
bool ReadNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Parses a model such as "ResNet-18 (batch size 64)".
bool ReadModel(std::string_view text, ShockwaveJob& job) {
  constexpr std::string_view kMiddle = " (batch size ";
  const std::size_t middle = text.find(kMiddle);
  if (middle == std::string_view::npos || !text.ends_with(')')) return false;
  job.family = text.substr(0, middle);
  text.remove_prefix(middle + kMiddle.size());
  text.remove_suffix(1);
  return Find(job) != nullptr && ReadNumber(text, job.batch) && job.batch > 0 && job.batch <= 1 << 20;
}

Status ReadJob(std::string_view line, ShockwaveJob& job) {
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find('\t', at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  if (fields.size() != 11) return CorruptData("expected 11 fields between tabs, not " + std::to_string(fields.size()));
  if (!ReadModel(fields[0], job)) return CorruptData("not a model and batch size: \"" + std::string(fields[0]) + "\"");
  if (!ReadNumber(fields[4], job.steps) || !(job.steps >= 1 && job.steps < 1e12))
    return CorruptData("not a count of steps: \"" + std::string(fields[4]) + "\"");
  if (!ReadNumber(fields[5], job.gpus) || job.gpus < 1 || job.gpus > 1024)
    return CorruptData("not a count of GPUs: \"" + std::string(fields[5]) + "\"");
  if (fields[6] == "accordion") {
    job.mode = BatchMode::kAccordion;
  } else if (fields[6] == "gns") {
    job.mode = BatchMode::kGns;
  } else if (fields[6] != "static") {
    return CorruptData("the mode is static, accordion or gns, not \"" + std::string(fields[6]) + "\"");
  }
  if (!ReadNumber(fields[10], job.arrival_s) || !(job.arrival_s >= 0 && job.arrival_s < 1e12))
    return CorruptData("not a time of arrival: \"" + std::string(fields[10]) + "\"");
  return {};
}

}  // namespace

Result<std::vector<ShockwaveJob>> ReadShockwaveTrace(const std::string& path) {
  DIVVY_TRY(const std::string text, ReadWholeFile(path));
  std::vector<ShockwaveJob> jobs;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.empty()) continue;
    ShockwaveJob job;
    Status status = ReadJob(line, job);
    if (status && !jobs.empty() && job.arrival_s < jobs.back().arrival_s)
      status = CorruptData("arrives before the line above it");
    if (!status) return CorruptData(path + ":" + std::to_string(line_number) + ": " + status.error().message);
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return CorruptData(path + ": no jobs");
  return jobs;
}

JobKind KindAt(const ShockwaveJob& job, int batch) {
  return {job.family + " (batch size " + std::to_string(batch) + ")", job.gpus};
}

int EpochSamples(const ShockwaveJob& job) {
  const Family* const family = Find(job);
  return family == nullptr ? 0 : family->samples;
}

double EpochSteps(const ShockwaveJob& job, int batch) { return std::ceil(1.0 * EpochSamples(job) / batch); }

int Epochs(const ShockwaveJob& job) { return static_cast<int>(std::ceil(job.steps / EpochSteps(job, job.batch))); }

std::vector<int> ProfiledBatches(const ShockwaveJob& job) {
  const int epochs = Epochs(job);
  std::vector<int> batches(static_cast<std::size_t>(epochs), job.batch);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    int& batch = batches[static_cast<std::size_t>(epoch)];
    if (job.mode == BatchMode::kGns) {
      const bool is_last = epoch + 1 == epochs && DoublingsBy(job, epoch) >= 2;
      if (!is_last) batch = GnsBatch(job, epoch);
    } else if (job.mode == BatchMode::kAccordion && !IsCritical(job, epoch, true) && epoch > epochs * 0.3) {
      batch = LargestBatch(job);
    }
  }
  return batches;
}

int NextBatch(const ShockwaveJob& job, int batch, int epoch) {
  const int largest = LargestBatch(job);
  if (job.batch == largest) return batch;
  if (job.mode == BatchMode::kGns) {
    // Looks one epoch ahead and doubles at most once.
    return GnsBatch(job, epoch + 1) > batch ? 2 * batch : batch;
  }
  if (job.mode == BatchMode::kAccordion) return IsCritical(job, epoch, false) ? job.batch : largest;
  return batch;
}

Result<std::vector<double>> ProfiledEpochSeconds(const ShockwaveJob& job, const GavelThroughputs& throughputs) {
  std::vector<double> seconds;
  for (const int batch : ProfiledBatches(job)) {
    const JobKind kind = KindAt(job, batch);
    const std::optional<double> rate = throughputs.Alone("v100", kind);
    if (!rate || *rate <= 0)
      return InvalidArgument("the throughputs have no v100 rate of " + kind.model + " on " + std::to_string(kind.gpus) +
                             " GPUs");
    seconds.push_back(1.0 * EpochSamples(job) / batch / *rate);
  }
  return seconds;
}

}  // namespace divvy::research
