#include "control/books/node_row.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

std::string TextOf(Time time) { return std::to_string(time.time_since_epoch().count()); }

// Format of a GPU in a node's row of the store: INDEX UUID MEMORY NUMA COMPUTE MIG-CAPABLE MIG-ENABLED PCI
// LINK,LINK,... MODEL; "-" where a word is empty.
std::string FormatGpu(const GpuFacts& gpu) {
  const auto word = [](std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) <= ' '; }, '_');
    return text.empty() ? std::string("-") : text;
  };
  std::string links;
  for (const std::string& link : gpu.links) links += (links.empty() ? "" : ",") + link;
  return std::to_string(gpu.index) + " " + word(gpu.uuid) + " " + std::to_string(gpu.memory_total.count()) + " " +
         std::to_string(gpu.numa_node) + " " + std::to_string(gpu.compute_capability) + " " +
         (gpu.is_mig_capable ? "1 " : "0 ") + (gpu.is_mig_enabled ? "1 " : "0 ") + word(gpu.pci_address) + " " +
         word(links) + " " + OneLine(gpu.model);
}

// Format of a GPU's MIG profiles in a node's row of the store: INDEX ONLY-SLICED NAME:COMPUTE:SIZE:BYTES ...
std::string FormatSlices(const GpuFacts& gpu) {
  std::string text = std::to_string(gpu.index) + (gpu.is_only_sliced ? " 1" : " 0");
  for (const SliceProfile& one : gpu.slices) {
    text += " " + one.name + ":" + std::to_string(one.compute) + ":" + std::to_string(one.size) + ":" +
            std::to_string(one.memory.count());
  }
  return text;
}

bool ParseSlices(std::string_view text, std::vector<GpuFacts>& gpus) {
  const std::vector<std::string_view> words = Split(text, ' ');
  const auto index = ParseInteger(words[0]);
  const auto gpu = std::ranges::find_if(gpus, [&](const GpuFacts& one) { return index && one.index == *index; });
  if (gpu == gpus.end() || words.size() < 2) return false;
  gpu->is_only_sliced = words[1] == "1";
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::vector<std::string_view> parts = Split(words[i], ':');
    if (parts.size() != 4) return false;
    const auto compute = ParseInteger(parts[1]), size = ParseInteger(parts[2]), memory = ParseInteger(parts[3]);
    if (!compute || !size || !memory) return false;
    gpu->slices.push_back({std::string(parts[0]), static_cast<int>(*compute), static_cast<int>(*size), Bytes(*memory)});
  }
  return true;
}

std::optional<GpuFacts> ParseGpu(std::string_view text) {
  constexpr std::size_t kWords = 9;
  std::vector<std::string_view> words;
  while (words.size() < kWords) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    words.push_back(text.substr(0, blank));
    text.remove_prefix(blank + 1);
  }
  const auto index = ParseInteger(words[0]), memory = ParseInteger(words[2]), numa = ParseInteger(words[3]),
             compute = ParseInteger(words[4]);
  if (!index || !memory || !numa || !compute || *index < 0 || *index >= GpuSet::kCapacity) return std::nullopt;
  GpuFacts gpu;
  gpu.index = static_cast<GpuIndex>(*index);
  if (words[1] != "-") gpu.uuid = std::string(words[1]);
  gpu.memory_total = Bytes(*memory);
  gpu.numa_node = static_cast<int>(*numa);
  gpu.compute_capability = static_cast<int>(*compute);
  gpu.is_mig_capable = words[5] == "1";
  gpu.is_mig_enabled = words[6] == "1";
  if (words[7] != "-") gpu.pci_address = std::string(words[7]);
  if (words[8] != "-") {
    for (const std::string_view link : Split(words[8], ',')) gpu.links.emplace_back(link);
  }
  gpu.model = std::string(text);
  return gpu;
}

void FormatLabels(std::string& text, std::string_view key, const std::map<std::string, std::string>& labels) {
  for (const auto& [name, value] : labels) text += std::string(key) + " " + OneLine(name) + "=" + OneLine(value) + "\n";
}

bool ParseNumbers(NodeRow& row, std::string_view key, std::string_view value) {
  const auto number = ParseInteger(value);
  if (!number) return false;
  if (key == "joined") row.joined = Time(Duration(*number));
  if (key == "work_since") row.work_since = Time(Duration(*number));
  if (key == "deadline") row.drain_deadline = Time(Duration(*number));
  if (key == "lease") row.terms.lease = Duration(*number);
  if (key == "heartbeat") row.terms.heartbeat = Duration(*number);
  if (key == "cpus") row.facts.cpus = static_cast<int>(*number);
  if (key == "memory") row.facts.memory = Bytes(*number);
  return true;
}

void ParseTexts(NodeRow& row, std::string_view key, std::string_view value) {
  if (key == "fingerprint") row.fingerprint = std::string(value);
  if (key == "next_fingerprint") row.next_fingerprint = std::string(value);
  if (key == "reason") row.reason = std::string(value);
  if (key == "accounted_boot") row.accounted_boot = std::string(value);
  if (key == "when_lost") row.terms.stops_jobs = value == "stops";
  if (key == "hostname") row.facts.hostname = std::string(value);
  if (key == "boot") row.facts.boot_id = std::string(value);
  if (key == "version") row.facts.agent_version = std::string(value);
  if (key == "gpu_source") row.facts.gpu_source = std::string(value);
  if (key == "logs") row.facts.logs = std::string(value);
}

}  // namespace

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

std::string_view Name(NodeWork work) {
  switch (work) {
    case NodeWork::kTakes:
      return "up";
    case NodeWork::kCordoned:
      return "cordoned";
    case NodeWork::kDraining:
      break;
  }
  return "draining";
}

Status CheckNodeName(std::string_view name) {
  const bool starts_well =
      !name.empty() && IsNameChar(name.front()) && name.front() != '.' && name.front() != '-' && name.front() != '_';
  if (starts_well && name.size() <= kLongestNodeName && std::ranges::all_of(name, IsNameChar)) return {};
  return InvalidArgument("'" + std::string(name.substr(0, kLongestNodeName)) +
                         "' is not a valid node name: use a letter or digit, then at most " +
                         std::to_string(kLongestNodeName - 1) +
                         " letters, digits, '.', '_' and '-'; divvy agent --name NAME chooses another");
}

std::map<std::string, std::string> NodeRow::AllLabels() const {
  auto all = labels;
  all.insert(facts.labels.begin(), facts.labels.end());
  return all;
}

std::string FormatNode(const NodeRow& row) {
  std::string text = "fingerprint " + row.fingerprint + "\njoined " + TextOf(row.joined) + "\nwork " +
                     std::string(Name(row.work)) + "\n";
  const auto add = [&text](std::string_view key, const std::string& value) {
    if (!value.empty()) text += std::string(key) + " " + OneLine(value) + "\n";
  };
  add("next_fingerprint", row.next_fingerprint);
  if (row.drain_deadline != kNever) add("deadline", TextOf(row.drain_deadline));
  add("reason", row.reason);
  if (row.work_since != kNoTime) add("work_since", TextOf(row.work_since));
  add("accounted_boot", row.accounted_boot);
  add("lease", std::to_string(row.terms.lease.count()));
  add("heartbeat", std::to_string(row.terms.heartbeat.count()));
  add("when_lost", row.terms.stops_jobs ? "stops" : "stays");
  add("hostname", row.facts.hostname);
  add("boot", row.facts.boot_id);
  add("version", row.facts.agent_version);
  add("gpu_source", row.facts.gpu_source);
  add("logs", row.facts.logs);
  add("cpus", std::to_string(row.facts.cpus));
  add("memory", std::to_string(row.facts.memory.count()));
  for (const GpuFacts& gpu : row.facts.gpus) add("gpu", FormatGpu(gpu));
  for (const GpuFacts& gpu : row.facts.gpus) {
    if (!gpu.slices.empty() || gpu.is_only_sliced) add("slices", FormatSlices(gpu));
  }
  FormatLabels(text, "learned", row.facts.labels);
  FormatLabels(text, "label", row.labels);
  return text;
}

std::optional<NodeRow> ParseNode(std::string_view name, std::string_view text) {
  NodeRow row;
  row.name = std::string(name);
  bool has_work = false;
  for (const std::string_view line : Split(text, '\n')) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "work") {
      for (const NodeWork work : {NodeWork::kTakes, NodeWork::kCordoned, NodeWork::kDraining}) {
        if (Name(work) != value) continue;
        row.work = work;
        has_work = true;
      }
    } else if (key == "gpu") {
      auto gpu = ParseGpu(value);
      if (!gpu) return std::nullopt;
      row.facts.gpus.push_back(*std::move(gpu));
    } else if (key == "slices") {
      if (!ParseSlices(value, row.facts.gpus)) return std::nullopt;
    } else if (key == "learned" || key == "label") {
      const std::size_t equals = value.find('=');
      if (equals == std::string_view::npos) continue;
      auto& labels = key == "label" ? row.labels : row.facts.labels;
      labels.emplace(value.substr(0, equals), value.substr(equals + 1));
    } else if (key == "joined" || key == "work_since" || key == "deadline" || key == "lease" || key == "heartbeat" ||
               key == "cpus" || key == "memory") {
      if (!ParseNumbers(row, key, value)) return std::nullopt;
    } else {
      ParseTexts(row, key, value);
    }
  }
  if (!has_work || row.fingerprint.empty() || !CheckNodeName(name)) return std::nullopt;
  return row;
}

}  // namespace divvy
