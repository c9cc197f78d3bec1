#include "model/steps/step_list.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "model/steps/gang_file.h"

namespace divvy {
namespace {

constexpr std::size_t kCommandMost = 200;
constexpr std::int64_t kStepTasksMost = 1'000'000;
constexpr std::size_t kKeptMost = 200;
constexpr std::size_t kKeptCommandMost = 80;
constexpr std::size_t kKeptBytesMost = 30'000;
constexpr std::size_t kMachinesTextMost = 8'192;
constexpr std::size_t kMapTextMost = 24'576;
constexpr std::size_t kFieldsLeast = 9;
constexpr std::int64_t kLimitMost = std::int64_t{100} * 365 * 24 * 3600;  // Seconds.

std::string Clean(std::string_view text, std::size_t most) { return OneLine(std::string(text.substr(0, most))); }

std::string TimeText(Time time) { return time == kNoTime ? "" : std::to_string(time.time_since_epoch().count()); }

Time ReadTime(std::string_view text) {
  const auto nanoseconds = ParseInteger(text);
  return nanoseconds ? Time(Duration(*nanoseconds)) : kNoTime;
}

std::string LimitText(Duration limit) {
  return limit <= Duration(0) ? "" : std::to_string(std::chrono::ceil<std::chrono::seconds>(limit).count());
}

std::string MachinesText(const std::vector<StepMachine>& machines) {
  std::string out;
  for (std::size_t first = 0; first < machines.size();) {
    std::size_t last = first;
    const auto is_same = [&](const StepMachine& next) {
      return next.node_index == machines[last].node_index + 1 && next.tasks == machines[first].tasks &&
             next.gpus == machines[first].gpus;
    };
    while (last + 1 < machines.size() && is_same(machines[last + 1])) ++last;
    out += (out.empty() ? "" : " ") + std::to_string(machines[first].node_index);
    if (last > first) out += "-" + std::to_string(machines[last].node_index);
    out += ":" + std::to_string(machines[first].tasks) + ":" + GpuIndicesText(machines[first].gpus);
    first = last + 1;
  }
  return out.size() > kMachinesTextMost ? "" : out;
}

/// Returns an empty list if `text` is invalid.
std::vector<StepMachine> ReadMachines(std::string_view text) {
  std::vector<StepMachine> machines;
  if (text.empty()) return machines;
  for (const std::string_view one : Split(text, ' ')) {
    const std::vector<std::string_view> fields = Split(one, ':');
    if (fields.size() != 3) return {};
    const auto dash = fields[0].find('-');
    const auto first = ParseInteger(fields[0].substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseInteger(fields[0].substr(dash + 1));
    const auto tasks = ParseInteger(fields[1]);
    const auto gpus = ReadGpuIndices(fields[2]);
    const auto next = machines.empty() ? 0 : static_cast<std::int64_t>(machines.back().node_index) + 1;
    const bool is_right = first && last && *first >= next && *last >= *first &&
                          *last < static_cast<std::int64_t>(kMostNodes) && tasks && *tasks >= 0 &&
                          *tasks <= kStepTasksMost && gpus;
    if (!is_right) return {};
    for (auto node_index = *first; node_index <= *last; ++node_index)
      machines.push_back({static_cast<std::size_t>(node_index), static_cast<int>(*tasks), *gpus});
  }
  return machines;
}

bool ReadStep(std::string_view line, StepLine& step) {
  const std::vector<std::string_view> fields = Split(line, '\t');
  if (fields.size() < kFieldsLeast) return false;
  const auto number = ParseInteger(fields[0]);
  const auto state = ParseInteger(fields[1]);
  const auto tasks = ParseInteger(fields[2]);
  if (!number || *number < 0 || *number > UINT32_MAX || !state || *state < 0 || *state > 2 || !tasks || *tasks < 0 ||
      *tasks > kStepTasksMost) {
    return false;
  }
  step.number = static_cast<StepNumber>(*number);
  step.state = static_cast<StepState>(*state);
  step.tasks = static_cast<int>(*tasks);
  step.gpus = Clean(fields[3], kCommandMost);
  step.started = ReadTime(fields[4]);
  step.ended = ReadTime(fields[5]);
  step.code = static_cast<int>(std::clamp<std::int64_t>(ParseInteger(fields[6]).value_or(0), 0, 255));
  auto map = ReadStepMap(fields[7]);
  if (!map) return false;
  step.map = *std::move(map);
  step.command = Clean(fields[8], kCommandMost);
  if (fields.size() > kFieldsLeast) step.name = Clean(fields[9], kCommandMost);
  if (fields.size() > kFieldsLeast + 1) step.machines = ReadMachines(fields[10]);
  step.was_cancelled = fields.size() > kFieldsLeast + 2 && fields[11] == "1";
  if (fields.size() > kFieldsLeast + 3) {
    step.time_limit =
        std::chrono::seconds(std::clamp<std::int64_t>(ParseInteger(fields[12]).value_or(0), 0, kLimitMost));
  }
  return true;
}

/// Reads a number from 0 to `end` - 1. Returns std::nullopt for any other text.
std::optional<std::size_t> ReadPlace(std::string_view text, std::size_t end) {
  const auto number = ParseInteger(text);
  if (!number || *number < 0 || static_cast<std::size_t>(*number) >= end) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

}  // namespace

std::string StepMapText(const std::vector<StepTaskLine>& map) {
  std::string out;
  for (std::size_t i = 0; i < map.size() && out.size() <= kMapTextMost; ++i) {
    const StepTaskLine& task = map[i];
    if (i > 0) out += ' ';
    out += task.gpus + ":" + task.cores;
    if (task.node_index || task.rank != i) out += ":" + std::to_string(task.rank);
    if (task.node_index) out += ":" + std::to_string(*task.node_index);
  }
  return out.size() > kMapTextMost ? "" : out;
}

std::optional<std::vector<StepTaskLine>> ReadStepMap(std::string_view text) {
  std::vector<StepTaskLine> map;
  if (text.empty()) return map;
  for (const std::string_view one : Split(text, ' ')) {
    const std::vector<std::string_view> fields = Split(one, ':');
    if (fields.size() < 2 || fields.size() > 4) return std::nullopt;
    StepTaskLine& task = map.emplace_back();
    task.gpus = Clean(fields[0], kCommandMost);
    task.cores = Clean(fields[1], kCommandMost);
    const auto rank = fields.size() < 3 ? std::optional(map.size() - 1)
                                        : ReadPlace(fields[2], static_cast<std::size_t>(kStepTasksMost));
    if (!rank) return std::nullopt;
    task.rank = *rank;
    if (fields.size() < 4) continue;
    task.node_index = ReadPlace(fields[3], kMostNodes);
    if (!task.node_index) return std::nullopt;
  }
  return map;
}

std::string StepLineText(const StepLine& step) {
  std::string out = std::to_string(step.number);
  for (const std::string& field :
       {std::to_string(static_cast<int>(step.state)), std::to_string(step.tasks), step.gpus, TimeText(step.started),
        TimeText(step.ended), std::to_string(step.code), StepMapText(step.map), Clean(step.command, kCommandMost),
        Clean(step.name, kCommandMost), MachinesText(step.machines), std::string(step.was_cancelled ? "1" : ""),
        LimitText(step.time_limit)}) {
    out += '\t';
    out += field;
  }
  return out + '\n';
}

std::vector<StepLine> ReadStepList(std::string_view text) {
  std::map<StepNumber, StepLine> steps;
  for (const std::string_view line : Split(text, '\n')) {
    StepLine step;
    if (ReadStep(line, step)) steps.insert_or_assign(step.number, std::move(step));
  }
  std::vector<StepLine> out;
  for (auto& [number, step] : steps) out.push_back(std::move(step));
  return out;
}

std::string ShortenStepList(std::string_view text, std::size_t ended_most) {
  const std::vector<StepLine> steps = ReadStepList(text);
  auto ended = static_cast<std::size_t>(std::ranges::count(steps, StepState::kEnded, &StepLine::state));
  std::string out;
  for (const StepLine& step : steps) {
    if (step.state == StepState::kEnded && ended-- > ended_most) continue;
    out += StepLineText(step);
  }
  return out;
}

std::string KeptSteps(const std::vector<StepLine>& steps) {
  std::vector<std::string> lines;
  for (const StepLine& step : steps) {
    if (step.started == kNoTime) continue;  // It never started.
    StepLine kept = step;
    kept.map.clear();
    kept.command = step.command.substr(0, kKeptCommandMost);
    kept.name = step.name.substr(0, kKeptCommandMost);
    lines.push_back(StepLineText(kept));
  }
  std::size_t first = lines.size();
  for (std::size_t size = 0; first > 0 && lines.size() - first < kKeptMost; --first) {
    size += lines[first - 1].size();
    if (size > kKeptBytesMost && first < lines.size()) break;
  }
  std::string out;
  for (std::size_t i = first; i < lines.size(); ++i) out += lines[i];
  return out;
}

std::int64_t StepCount(std::string_view kept) {
  if (kept.empty()) return 0;
  kept.remove_suffix(1);
  const std::string_view last = kept.substr(kept.rfind('\n') + 1);
  return ParseInteger(last.substr(0, last.find('\t'))).value_or(-1) + 1;
}

std::string StepName(const StepLine& step) {
  if (!step.name.empty()) return step.name;
  const std::string program = step.command.substr(0, step.command.find(' '));
  return program.substr(program.find_last_of('/') + 1);
}

std::string_view StepStateText(StepState state) {
  switch (state) {
    case StepState::kWaiting:
      return "waiting";
    case StepState::kRunning:
      return "running";
    case StepState::kEnded:
      break;
  }
  return "ended";
}

}  // namespace divvy
