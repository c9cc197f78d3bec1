#include "model/run_line.h"

#include <algorithm>

#include "base/index_ranges.h"
#include "base/text.h"
#include "model/exit_codes.h"

namespace divvy {
namespace {

constexpr std::string_view kOwnMachine = "the controller's machine";
constexpr std::size_t kMostNamed = 16;  // Nodes of a gang that are listed by name.

/// "GPU 1", "GPUs 0-3"; empty for none.
std::string GpusText(GpuSet gpus) {
  if (gpus.empty()) return "";
  IndexRanges ranges;
  for (const int gpu : gpus.ToVector()) ranges.Insert(static_cast<std::uint32_t>(gpu));
  return (gpus.size() == 1 ? "GPU " : "GPUs ") + ranges.ToString();
}

std::string AllocationText(const std::string& node, GpuSet gpus) {
  const std::string text = GpusText(gpus);
  return node + (text.empty() ? "" : " (" + text + ")");
}

std::string NumberedText(const JobRecord& record) {
  const std::string place = PlaceText(record);
  return "run " + std::to_string(record.attempt) + " started" + (place.empty() ? "" : " on " + place) +
         (record.start_reason.empty() ? "" : ": " + record.start_reason);
}

/// "GPU 1", "GPUs 0-3". False for a node name, whose GPUs follow in parentheses.
bool AreGpus(std::string_view text) {
  for (const std::string_view word : {"GPU ", "GPUs "}) {
    if (text.starts_with(word) && text.size() > word.size() && text[word.size()] >= '0' && text[word.size()] <= '9')
      return true;
  }
  return false;
}

}  // namespace

std::string PlaceText(const JobRecord& record) {
  if (record.gang.empty())
    return record.node.empty() ? GpusText(record.gpus) : AllocationText(record.node, record.gpus);
  std::string text;
  const std::size_t named = std::min(record.gang.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) {
    const NodeAllocation& allocation = record.gang[i];
    text += (i > 0 ? ", " : "") +
            AllocationText(allocation.node.empty() ? std::string(kOwnMachine) : allocation.node, allocation.gpus);
  }
  const std::size_t more = record.gang.size() - named;
  return text + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

std::string StartedText(const JobRecord& record) {
  const std::string text = NumberedText(record);
  return record.attempt > 1 ? text : text.substr(text.find("started"));
}

std::string EndText(const JobRecord& record) {
  return std::string(Name(record.state)) + (record.reason.empty() ? "" : ": " + record.reason);
}

void KeepRun(const JobRecord& record, JobState outcome, Time ended, Batch& batch) {
  const bool has_begun = record.attempt > 0 && record.started != kNoTime &&
                         (record.gang.empty() || record.was_let_go) &&
                         !(record.exit && (IsMachinesFault(*record.exit) || IsForWantOfRoom(*record.exit)));
  if (!has_begun) return;
  batch.history.push_back({record.id, record.started, NumberedText(record)});
  JobRecord& run = batch.past_runs.emplace_back(record);
  run.state = outcome;
  run.ended = std::max(ended, record.started);
}

std::optional<EarlierRun> ReadRunLine(std::string_view text) {
  constexpr std::string_view kRun = "run ", kStarted = " started", kOn = " on ";
  if (!text.starts_with(kRun)) return std::nullopt;
  text.remove_prefix(kRun.size());
  const auto run = ParseInteger(text.substr(0, text.find(' ')));
  if (!run || *run < 1 || *run > UINT32_MAX) return std::nullopt;
  text.remove_prefix(std::min(text.find(' '), text.size()));
  if (!text.starts_with(kStarted)) return std::nullopt;
  text.remove_prefix(kStarted.size());
  EarlierRun found{static_cast<std::uint32_t>(*run), ""};
  if (!text.starts_with(kOn)) return found;
  text.remove_prefix(kOn.size());
  if (AreGpus(text) || text.starts_with(kOwnMachine)) return found;
  found.node = text.substr(0, text.find_first_of(" ,:"));
  return found;
}

}  // namespace divvy
