#include "model/step_list.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kCommandMost = 200;
constexpr std::size_t kKeptMost = 200;
constexpr std::size_t kKeptCommandMost = 80;
constexpr std::size_t kFields = 9;

std::string Clean(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return out;
}

std::string TimeText(Time time) { return time == kNoTime ? "" : std::to_string(time.time_since_epoch().count()); }

Time ReadTime(std::string_view text) {
  const auto nanoseconds = ParseInteger(text);
  return nanoseconds ? Time(Duration(*nanoseconds)) : kNoTime;
}

std::string MapText(const std::vector<StepTaskLine>& map) {
  std::string out;
  for (const StepTaskLine& task : map) out += (out.empty() ? "" : " ") + task.gpus + ":" + task.cores;
  return out;
}

bool ReadStep(std::string_view line, StepLine& step) {
  const std::vector<std::string_view> fields = Split(line, '\t');
  if (fields.size() != kFields) return false;
  const auto number = ParseInteger(fields[0]);
  const auto state = ParseInteger(fields[1]);
  const auto tasks = ParseInteger(fields[2]);
  if (!number || *number < 0 || *number > UINT32_MAX || !state || *state < 0 || *state > 2 || !tasks || *tasks < 0 ||
      *tasks > 1'000'000) {
    return false;
  }
  step.number = static_cast<StepNumber>(*number);
  step.state = static_cast<StepState>(*state);
  step.tasks = static_cast<int>(*tasks);
  step.gpus = Clean(fields[3], kCommandMost);
  step.started = ReadTime(fields[4]);
  step.ended = ReadTime(fields[5]);
  step.code = static_cast<int>(std::clamp<std::int64_t>(ParseInteger(fields[6]).value_or(0), 0, 255));
  step.map.clear();
  if (!fields[7].empty()) {
    for (const std::string_view task : Split(fields[7], ' ')) {
      const auto colon = task.find(':');
      if (colon == std::string_view::npos) return false;
      step.map.push_back({Clean(task.substr(0, colon), kCommandMost), Clean(task.substr(colon + 1), kCommandMost)});
    }
  }
  step.command = Clean(fields[8], kCommandMost);
  return true;
}

}  // namespace

std::string StepLineText(const StepLine& step) {
  std::string out = std::to_string(step.number);
  for (const std::string& field :
       {std::to_string(static_cast<int>(step.state)), std::to_string(step.tasks), step.gpus, TimeText(step.started),
        TimeText(step.ended), std::to_string(step.code), MapText(step.map), Clean(step.command, kCommandMost)}) {
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
    if (step.started == kNoTime) continue;  // It never came to its turn.
    StepLine kept = step;
    kept.map.clear();
    kept.command = step.command.substr(0, kKeptCommandMost);
    lines.push_back(StepLineText(kept));
  }
  std::string out;
  for (std::size_t i = lines.size() - std::min(lines.size(), kKeptMost); i < lines.size(); ++i) out += lines[i];
  return out;
}

std::int64_t StepCount(std::string_view kept) {
  if (kept.empty()) return 0;
  kept.remove_suffix(1);
  const std::string_view last = kept.substr(kept.rfind('\n') + 1);
  return ParseInteger(last.substr(0, last.find('\t'))).value_or(-1) + 1;
}

std::string StepName(const StepLine& step) {
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
