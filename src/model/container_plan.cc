#include "model/container_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace divvy {
namespace {

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += "\\n";
    else if (c == '\\') out += "\\\\";
    else out += c;
  }
  return out;
}

std::string Unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) out += text[i];
    else out += text[++i] == 'n' ? '\n' : text[i];
  }
  return out;
}

void Add(std::string& out, std::string_view key, std::string_view value) {
  out += std::string(key) + " " + Escaped(value) + "\n";
}

/// Calls `take` with each line's first word and the rest.
template <typename Take>
void ForEachLine(std::string_view text, Take take) {
  for (const std::string_view line : Split(text, '\n')) {
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    take(line.substr(0, blank), Unescaped(line.substr(blank + 1)));
  }
}

/// Whether divvy generated this name: "divvy-17-1-4711".
bool IsContainerName(std::string_view name) {
  return name.starts_with("divvy-") && name.size() < 200 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

void AddMounts(std::string& out, const std::vector<ContainerMount>& mounts) {
  for (const ContainerMount& mount : mounts) {
    Add(out, mount.is_read_only ? "mount-ro" : "mount", mount.source);
    Add(out, "at", mount.target);
  }
}

/// Returns false if the line is not part of a mount.
bool ReadMount(std::string_view key, std::string& value, std::vector<ContainerMount>& mounts) {
  if (key == "mount" || key == "mount-ro") mounts.push_back({std::move(value), "", key == "mount-ro"});
  else if (key == "at" && !mounts.empty()) mounts.back().target = std::move(value);
  else return false;
  return true;
}

bool AreWhole(const std::vector<ContainerMount>& mounts) {
  return std::ranges::all_of(mounts, [](const ContainerMount& mount) { return mount.target.starts_with('/'); });
}

}  // namespace

std::string FormatContainerPlan(const ContainerPlan& plan) {
  std::string out;
  Add(out, "image", plan.image);
  AddMounts(out, plan.mounts);
  if (!plan.directory.empty()) Add(out, "directory", plan.directory);
  for (const std::string& name : plan.variables) Add(out, "variable", name);
  if (!plan.interpreter.empty()) Add(out, "interpreter", plan.interpreter);
  return out;
}

Result<ContainerPlan> ParseContainerPlan(std::string_view text) {
  ContainerPlan plan;
  bool is_good = true;
  ForEachLine(text, [&](std::string_view key, std::string value) {
    if (ReadMount(key, value, plan.mounts)) return;
    if (key == "image") plan.image = std::move(value);
    else if (key == "directory") plan.directory = std::move(value);
    else if (key == "variable") plan.variables.push_back(std::move(value));
    else if (key == "interpreter") plan.interpreter = std::move(value);
    else is_good = false;
  });
  if (is_good && AreWhole(plan.mounts) && !plan.image.empty()) return plan;
  return InvalidArgument(std::string(kContainerVariable) +
                         " does not hold a container description; only divvy sets it");
}

std::string FormatContainerNeeds(const ContainerNeeds& needs) {
  std::string out;
  AddMounts(out, needs.mounts);
  for (const std::string& entry : needs.environment) Add(out, "env", entry);
  for (const std::string& index : needs.gpu_indices) Add(out, "gpu", index);
  for (const std::string& uuid : needs.gpu_uuids) Add(out, "uuid", uuid);
  return out;
}

Result<ContainerNeeds> ParseContainerNeeds(std::string_view text) {
  ContainerNeeds needs;
  bool is_good = true;
  ForEachLine(text, [&](std::string_view key, std::string value) {
    if (ReadMount(key, value, needs.mounts)) return;
    if (key == "env" && value.find('=') != std::string::npos) needs.environment.push_back(std::move(value));
    else if (key == "gpu") needs.gpu_indices.push_back(std::move(value));
    else if (key == "uuid") needs.gpu_uuids.push_back(std::move(value));
    else is_good = false;
  });
  if (is_good && AreWhole(needs.mounts)) return needs;
  return InvalidArgument(std::string(kContainerNeedsVariable) +
                         " does not hold container settings; only divvy sets it");
}

ContainerScript WrapScript(std::string_view script, std::string_view divvy) {
  const std::string line = "#!" + std::string(divvy) + " internal-container\n";
  if (!script.starts_with("#!")) return {line + std::string(script), "/bin/sh"};
  const auto end = script.find('\n');
  std::string_view interpreter = script.substr(2, end == std::string_view::npos ? end : end - 2);
  interpreter = Trim(interpreter);
  const std::string_view rest = end == std::string_view::npos ? "" : script.substr(end + 1);
  return {line + std::string(rest), interpreter.empty() ? "/bin/sh" : std::string(interpreter)};
}

std::string ContainerBegunText(std::string_view engine, std::string_view name,
                               const std::vector<std::string>& environment) {
  std::string out;
  Add(out, "engine", engine);
  for (const std::string& entry : environment) Add(out, "env", entry);
  Add(out, "begun", name);
  return out;
}

std::string ContainerEndedText(std::string_view name) {
  std::string out;
  Add(out, "ended", name);
  return out;
}

std::string ContainerFailedText(std::string_view why) {
  std::string out;
  Add(out, "failed", why);
  return out;
}

ContainerLog ReadContainerLog(std::string_view text) {
  constexpr std::size_t kFailureMost = 500;
  ContainerLog log;
  std::map<std::string, std::string> environment;  // The last value of each name.
  std::set<std::string> left;
  ForEachLine(text.substr(0, kContainerLogMost), [&](std::string_view key, std::string value) {
    if (key == "engine" && value.starts_with('/')) {
      log.engine = std::move(value);
    } else if (key == "env") {
      const std::string name = value.substr(0, value.find('='));
      if (std::ranges::find(kContainerEngineEnvironment, name) != kContainerEngineEnvironment.end())
        environment[name] = std::move(value);
    } else if (key == "begun" && IsContainerName(value) && left.size() < kContainersMost) {
      left.insert(std::move(value));
    } else if (key == "ended") {
      left.erase(value);
    } else if (key == "failed") {
      log.failure = OneLine(value.substr(0, kFailureMost));
    }
  });
  log.left.assign(left.begin(), left.end());
  for (auto& [name, entry] : environment) {
    if (entry.size() > name.size()) log.environment.push_back(std::move(entry));
  }
  return log;
}

}  // namespace divvy
